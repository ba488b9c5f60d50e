"""Incidents of messages that come again and again."""

from tests.analytics.incidents.incident import (
    BACKLOG,
    CHURN,
    CIRCLE,
    DEAD_LETTERS,
    NO_CONSUMER,
    POISON,
    REJECTED,
    STALLED,
    SYMPTOMS,
    WAITS,
    Says,
    incident,
)
from tests.analytics.incidents.simulated_clients import ACK, CRASH, KEEP, REJECT, REQUEUE

HOUR = 3600
AROUND = (POISON, DEAD_LETTERS, *SYMPTOMS)


def one_in(count, end, until_deliveries=1_000_000, otherwise=ACK, from_s=0.0):
    """Return what happens to a message in `count`, until it was delivered so often."""

    def ends(entry, now_s):
        is_one = entry.message.number % count == 0 and now_s >= from_s
        return end if is_one and entry.deliveries <= until_deliveries else otherwise

    return ends


def only_the(number, end, until_deliveries=1_000_000, otherwise=ACK):
    """Return what happens to the n-th message that a consumer sees."""
    seen = {}

    def ends(entry, _now_s):
        place = seen.setdefault(entry.message.number, len(seen) + 1)
        return end if place == number and entry.deliveries <= until_deliveries else otherwise

    return ends


@incident(HOUR, [Says(CIRCLE, "work", None)], (*AROUND, Says(CIRCLE, "work.wait"),
          Says(DEAD_LETTERS, "work.wait")))  # fmt: skip
def round_and_round_through_a_waiting_queue(day):
    """Rejected messages wait for 30 s, come back, and are rejected again, without end."""
    day.queue("work", dead_letter_to=("", "work.wait"))
    day.queue("work.wait", ttl_s=30, dead_letter_to=("", "work"))
    day.publisher("web", "work", 0.5)
    bad = set()

    def ends(entry, _):
        message = entry.message
        if message.letters == 0 and len(bad) < 10 and message.number % 40 == 0:
            bad.add(message.number)
            return REJECT
        return REJECT if message.letters else ACK

    day.consumer("work", ends=ends)


@incident(300, [Says(CIRCLE, "sync", 100, None, within_s=10)], AROUND)
def requeued_at_once_without_end(day):
    """A consumer requeues a message that it cannot handle, twenty times a second."""
    day.queue("sync")
    day.publisher("erp", "sync", 1)
    day.consumer("sync", takes_s=0.05, prefetch=1, tag="sync-1",
                 ends=_requeues_the_first_after(100))  # fmt: skip


def _requeues_the_first_after(at_s, until_s=1e9):
    bad = []

    def ends(entry, now_s):
        if now_s > at_s and not bad:
            bad.append(entry.message.number)
        return REQUEUE if entry.message.number in bad and now_s < until_s else ACK

    return ends


@incident(HOUR, [Says(CIRCLE, "rules")], AROUND)
def two_consumers_play_ping_pong(day):
    """Two consumers requeue what is not for them, and some messages are for neither."""
    day.queue("rules")
    day.publisher("crm", "rules", 0.2)

    def ends(entry, _):
        return REQUEUE if entry.message.number % 60 == 0 else ACK

    for number in (1, 2):
        day.consumer("rules", takes_s=3, prefetch=2, ends=ends, tag=f"rule-{number}")


@incident(2 * HOUR, [Says(CIRCLE, "first")], (*AROUND, Says(CIRCLE, "second"),
          Says(CIRCLE, "third"), Says(DEAD_LETTERS, "second"), Says(DEAD_LETTERS, "third"),
          Says(POISON, "second")))  # fmt: skip
def a_circle_of_three_queues(day):
    """Dead letters of the first queue go to the second, its to the third, and back to the first."""
    day.queue("first", dead_letter_to=("", "second"))
    day.queue("second", dead_letter_to=("", "third"))
    day.queue("third", ttl_s=60, dead_letter_to=("", "first"))
    day.publisher("web", "first", 0.2)

    def ends(entry, _):
        return REJECT if entry.message.letters or entry.message.number % 100 == 0 else ACK

    day.consumer("first", ends=ends)
    day.consumer("second", ends=REJECT)


@incident(HOUR, [Says(CIRCLE, "bills", 1200, None)], (*AROUND, Says(DEAD_LETTERS, "bills.later"),
          Says(CIRCLE, "bills.later")))  # fmt: skip
def everything_is_retried_since_an_update(day):
    """Since an update every bill is rejected, waits for five minutes, and is rejected again."""
    day.queue("bills", dead_letter_to=("", "bills.later"))
    day.queue("bills.later", ttl_s=300, dead_letter_to=("", "bills"))
    day.publisher("shop", "bills", 0.3)
    day.consumer("bills", ends=lambda _, now_s: REJECT if now_s > 1200 else ACK)


@incident(1800, [Says(CIRCLE, "locks", 600, 1200, within_s=60)], AROUND)
def requeued_while_a_lock_is_held(day):
    """For ten minutes every message is requeued at once, since a lock is held."""
    day.queue("locks")
    day.publisher("web", "locks", 0.1)
    day.consumer("locks", takes_s=0.4, prefetch=5,
                 ends=lambda _, now_s: REQUEUE if 600 < now_s < 1200 else ACK)  # fmt: skip


# Poison


@incident(
    HOUR, [Says(POISON, "import", 900, None, within_s=120)],
    (CIRCLE, CHURN, STALLED, NO_CONSUMER, *SYMPTOMS, Says(CHURN, "worker")),
)  # fmt: skip
def a_message_that_kills_its_consumer(day):
    """A message makes each consumer crash that gets it; the consumer is restarted every time."""
    day.queue("import")
    day.publisher("partner", "import", 0.3)
    bad = []

    def ends(entry, now_s):
        if now_s > 900 and not bad:
            bad.append(entry.message.number)
        return CRASH if entry.message.number in bad else ACK

    day.consumer("import", takes_s=0.5, prefetch=5, ends=ends, back_after_s=20)


@incident(
    HOUR, [Says(POISON, "csv", None, None, ("acknowledged",))],
    (CIRCLE, *SYMPTOMS), unsaid=("never",),
)  # fmt: skip
def poison_that_succeeds_at_last(day):
    """A message is requeued nine times, and acknowledged at the tenth delivery."""
    day.queue("csv")
    day.publisher("office", "csv", 0.5)
    day.consumer("csv", takes_s=1, prefetch=1, ends=only_the(300, REQUEUE, 9))


@incident(HOUR, [Says(POISON, "xml", None, None, ("dead-lettered",))],
          (CIRCLE, DEAD_LETTERS, NO_CONSUMER, *SYMPTOMS, Says(NO_CONSUMER, "xml.dead"),
           Says(BACKLOG, "xml.dead")))  # fmt: skip
def poison_that_ends_as_a_dead_letter(day):
    """Three messages are requeued seven times each, and then dead-lettered."""
    day.queue("xml.dead")
    day.queue("xml", dead_letter_to=("", "xml.dead"))
    day.publisher("office", "xml", 0.5)
    bad = set()

    def ends(entry, _):
        number = entry.message.number
        if number in bad or (len(bad) < 3 and number % 300 == 0):
            bad.add(number)
            return REQUEUE if entry.deliveries < 8 else REJECT
        return ACK

    day.consumer("xml", takes_s=0.3, prefetch=1, ends=ends)


@incident(HOUR, [Says(POISON, "edi", None, None, ("expired",))], (CIRCLE, "expired", *SYMPTOMS))
def poison_that_expires(day):
    """A message is requeued for a minute, and expires."""
    day.queue("edi", ttl_s=60)
    day.publisher("partner", "edi", 0.4)
    day.consumer("edi", takes_s=2, prefetch=2, ends=only_the(400, REQUEUE))


@incident(1800, [Says(POISON, "pdf", None, None, ("rejected",)), Says(REJECTED, "pdf")],
          (CIRCLE, *SYMPTOMS))  # fmt: skip
def poison_that_is_thrown_away(day):
    """Five messages are requeued ten times each, and then rejected; they are lost."""
    day.queue("pdf")
    day.publisher("office", "pdf", 0.5)
    bad = set()

    def ends(entry, _):
        number = entry.message.number
        if number in bad or (len(bad) < 5 and number % 100 == 0):
            bad.add(number)
            return REQUEUE if entry.deliveries < 11 else REJECT
        return ACK

    day.consumer("pdf", takes_s=0.2, prefetch=1, ends=ends)


@incident(HOUR, [Says(POISON, "feeds", 1800, None)], (CIRCLE, *SYMPTOMS))
def forty_poison_messages(day):
    """A partner sends forty messages that are requeued without end."""
    day.queue("feeds")
    day.publisher("good", "feeds", 0.3)
    day.publisher("bad", "feeds", bursts=((1800, 40, 60),),
                  message_id=lambda _, at_s: f"bad-{at_s:.1f}")  # fmt: skip

    def ends(entry, _):
        return REQUEUE if "message_id" in entry.message.properties else ACK

    day.consumer("feeds", takes_s=1.5, prefetch=4, ends=ends)


@incident(
    2 * HOUR, [Says(POISON, "render", None)],
    (CIRCLE, CHURN, STALLED, *SYMPTOMS, Says(CHURN, "worker")),
)  # fmt: skip
def a_message_that_is_too_large(day):
    """A message kills each of two consumers, which are back after four minutes."""
    day.queue("render")
    day.publisher("web", "render", 0.2)
    bad = []

    def ends(entry, now_s):
        if now_s > 600 and not bad:
            bad.append(entry.message.number)
        return CRASH if entry.message.number in bad else ACK

    for number in (1, 2):
        day.consumer("render", takes_s=0.5, prefetch=1, ends=ends, tag=f"render-{number}",
                     back_after_s=240)  # fmt: skip


@incident(HOUR, [Says(STALLED, "holds", None, None)], (*SYMPTOMS, Says(POISON, "holds")))
def a_message_is_kept_without_an_answer(day):
    """A consumer keeps one message and never answers; the others it acknowledges at once."""
    day.queue("holds")
    day.publisher("web", "holds", 0.5)
    day.consumer("holds", ends=only_the(700, KEEP), prefetch=10)


@incident(2 * HOUR, [Says(DEAD_LETTERS, "claims", 3600)],
          (*SYMPTOMS, Says(NO_CONSUMER, "claims.dead"), Says(BACKLOG, "claims.dead"),
           Says(WAITS, "claims.dead")))  # fmt: skip
def dead_letters_since_an_update(day):
    """Since an update every third claim is rejected into a dead-letter queue."""
    day.queue("claims.dead")
    day.queue("claims", dead_letter_to=("", "claims.dead"))
    day.publisher("web", "claims", 0.6)
    day.consumer("claims", ends=one_in(3, REJECT, from_s=3600))
