"""Incidents that begin with the messages: bad ones, large ones, their order, time and priority."""

from tests.analytics.incidents.incident import (
    BACKLOG,
    BURST,
    CHURN,
    CIRCLE,
    DEAD_LETTERS,
    DUPLICATES,
    EXPIRED,
    LATE_REPLIES,
    LOST_LETTERS,
    NO_CONSUMER,
    OUT_OF_ORDER,
    OVERFLOW,
    POISON,
    PREFETCH_HIGH,
    REJECTED,
    REPLAY,
    SLOW,
    STALLED,
    STARVED,
    SYMPTOMS,
    UNROUTABLE,
    WAITS,
)
from tests.analytics.incidents.independent.form import (
    HOUR,
    LAG,
    Cause,
    calls_with_reply_queues,
    incident,
    message_consumer,
    numbered,
    the_first_after,
)
from tests.analytics.incidents.requesters import server
from tests.analytics.incidents.simulated_clients import ACK, KEEP, REJECT, REQUEUE

GROWTH = (("size", "grew", "grown", "larger", "bigger", "bytes", "KB", "kB", "MB"),)


@incident(600, Cause((POISON, CIRCLE), ("komendy",), (("requeue", "again"),), 200, 30),
          also=[((POISON, CIRCLE, OUT_OF_ORDER), "komendy")])  # fmt: skip
def a_command_that_is_requeued_for_ever(day):
    """Three consumers requeue one message that none of them understands, without end."""
    day.queue("komendy")
    day.publisher("panel", "komendy", 0.5)
    ends = the_first_after(200, REQUEUE)
    for number in range(3):
        day.consumer("komendy", takes_s=0.3, prefetch=1, tag=f"wykonawca-{number}", ends=ends)


@incident(1500, Cause((CIRCLE, DEAD_LETTERS, REJECTED), ("payments.capture",), (), 300),
          also=[((CIRCLE, DEAD_LETTERS, REJECTED, POISON, OUT_OF_ORDER), "payments.capture"),
                ((CIRCLE, DEAD_LETTERS, EXPIRED, *SYMPTOMS), "payments.capture.retry-5s")],
          )  # fmt: skip
def a_retry_storm(day):
    """The bank is down for ten minutes; all payments are tried again every five seconds."""
    day.queue("payments.capture", dead_letter_to=("", "payments.capture.retry-5s"))
    day.queue("payments.capture.retry-5s", ttl_s=5, dead_letter_to=("", "payments.capture"))
    day.publisher("checkout", "payments.capture", 1)
    for number in range(2):
        day.consumer("payments.capture", takes_s=0.5, prefetch=5, tag=f"capture-{number}",
                     ends=lambda _, now_s: REJECT if 300 < now_s < 900 else ACK)  # fmt: skip


@incident(HOUR, Cause((SLOW, BACKLOG, WAITS), ("文書.ocr",), GROWTH))
def documents_that_grow(day):
    """Scans grow from 20 kB to 400 kB within an hour, and the work with them."""
    day.queue("文書.ocr")
    day.publisher("scanner", "文書.ocr", 0.4,
                  size=lambda _, now_s: 20_000 + int(380_000 * now_s / HOUR))  # fmt: skip
    message_consumer(day, "文書.ocr", lambda message: message.size / 100_000, prefetch=20,
                     tag="ocr-main")  # fmt: skip


@incident(1800, Cause((SLOW, STALLED, PREFETCH_HIGH, *LAG), ("attachments",),
                      (("scanner-07", *GROWTH[0]),), 600, 120),
          also=[((SLOW, STALLED, PREFETCH_HIGH), "attachments")])  # fmt: skip
def a_program_that_sends_huge_messages(day):
    """Since minute ten one of three programs sends messages of 8 MB, which take 20 s each."""
    day.queue("attachments")
    for user in ("mail-in", "portal"):
        day.publisher(user, "attachments", 0.5, size=30_000)
    day.publisher("scanner-07", "attachments", [(600, 0.04)], size=8_000_000)
    message_consumer(day, "attachments", lambda message: 20 if message.size > 1e6 else 0.1,
                     prefetch=5, tag="store-1")  # fmt: skip


@incident(HOUR, Cause((EXPIRED,), ("ofertas.flash",), (), 930, 120))
def a_ttl_shorter_than_the_wait(day):
    """In a peak of 15 minutes offers wait for longer than their 30 s, and are gone."""
    day.queue("ofertas.flash", ttl_s=30)
    day.publisher("tienda", "ofertas.flash", [(0, 0.6), (900, 3), (1800, 0.6)])
    day.consumer("ofertas.flash", takes_s=0.6, prefetch=5, tag="precio")


@incident(1800, Cause((CIRCLE, DUPLICATES, DEAD_LETTERS, REJECTED),
                      ("orders.eu", "orders.eu.parking"), ("replayer",)),
          also=[((CIRCLE, DUPLICATES, DEAD_LETTERS, REJECTED, POISON), "orders.eu")])  # fmt: skip
def a_program_that_replays_what_is_rejected(day):
    """A program publishes dead letters again, with their ids, and they are rejected again."""
    day.queue("orders.eu.parking")
    day.queue("orders.eu", dead_letter_to=("", "orders.eu.parking"))
    day.publisher("shop", "orders.eu", 1.2, message_id=numbered("eu-"))

    def is_bad(entry, _):
        return REJECT if int(entry.message.properties["message_id"][3:]) % 30 == 0 else ACK

    day.consumer("orders.eu", takes_s=0.1, tag="orders-1", ends=is_bad)

    def publish_again(entry, _):
        day.broker.publish(replayer.who, "", "orders.eu", 200, entry.message.properties)
        return ACK

    replayer = day.consumer("orders.eu.parking", takes_s=2, user="replayer", tag="replayer-1",
                            ends=publish_again)  # fmt: skip


@incident(900, Cause((STARVED, *LAG), ("druckauftraege",), ("priorit",)),
          also=[((STARVED, BURST), "druckauftraege")])  # fmt: skip
def express_jobs_starve_the_others(day):
    """Since minute five express jobs take all that the printers can do; normal ones never come."""
    day.queue("druckauftraege", has_priorities=True)
    day.publisher("express", "druckauftraege", [(0, 0.5), (300, 4)], properties={"priority": 8})
    day.publisher("standard", "druckauftraege", 0.8, properties={"priority": 2})
    for number in range(2):
        day.consumer("druckauftraege", takes_s=0.5, prefetch=1, tag=f"drucker-{number}")


@incident(900, Cause((OUT_OF_ORDER,), ("account.ledger",), ("ledger-2",), 300),
          also=[((CIRCLE,), "account.ledger")])  # fmt: skip
def bookings_out_of_order(day):
    """One of two consumers requeues 2% of bookings when an account is locked."""
    day.queue("account.ledger")
    accounts = [f"acct.{number}" for number in range(12)]
    day.bind("bank", "#", "account.ledger")
    day.publisher("teller", lambda random, _: random.choice(accounts), 5, "bank")
    day.consumer("account.ledger", takes_s=0.25, prefetch=12, tag="ledger-1")

    def ends(entry, now_s):
        is_locked = now_s > 300 and entry.message.number % 25 == 0
        return REQUEUE if is_locked and entry.deliveries == 1 else ACK

    day.consumer("account.ledger", takes_s=0.25, prefetch=12, tag="ledger-2", ends=ends)


@incident(1500, Cause((DUPLICATES, REPLAY, BURST), ("Ereignisse",), (("replayer", "nachlauf"),),
                      None),
          also=[((DUPLICATES, REPLAY, BURST), "Ereignisse")])  # fmt: skip
def what_was_exported_comes_again(day):
    """A program publishes all events of the last ten minutes again, with their ids."""
    day.queue("Ereignisse")
    day.publisher("export", "Ereignisse", 2, message_id=numbered("e"))
    ids = numbered("e")
    day.publisher("nachlauf", "Ereignisse", bursts=((900, 1200, 30),), message_id=ids)
    day.consumer("Ereignisse", takes_s=0.15, prefetch=20, tag="archiv")


@incident(900, Cause((DUPLICATES,), ("sms.out",), ("sms-gw",), 400))
def a_client_that_publishes_three_times(day):
    """For five minutes confirms come too late for a client, which publishes each SMS thrice."""
    day.queue("sms.out")
    ids = numbered("sms-")
    gateway = day.broker.connection("sms-gw", "10.0.3.3")

    def publish(at_s):
        properties = {"message_id": ids(None, at_s)}
        for again_s in (0, 2, 4) if 400 < at_s < 700 else (0,):
            day.at(at_s + again_s, day.broker.publish, gateway, "", "sms.out", 160, properties)

    for number in range(890):
        day.at(number, publish, number)
    day.consumer("sms.out", takes_s=0.05, tag="smpp")


@incident(600, Cause((SLOW, LATE_REPLIES, *LAG), ("rpc.pricing",), ("pricing-srv",), 300),
          also=[((SLOW, LATE_REPLIES), "rpc.pricing"),
                ((UNROUTABLE, LATE_REPLIES), "default exchange")])  # fmt: skip
def clients_that_give_up_before_the_reply(day):
    """Since minute five the server takes 3 s; clients wait for 2 s and delete their queue."""
    day.queue("rpc.pricing")
    calls_with_reply_queues(day, "rpc.pricing", [2.5 * number for number in range(239)], 2)
    server(day, "rpc.pricing", lambda _, now_s: 0.1 if now_s < 300 else 3, "pricing-srv",
           prefetch=2)  # fmt: skip


@incident(1200, Cause((LOST_LETTERS,), ("leads.import",), ("dlx.leads",)),
          also=[((DEAD_LETTERS, REJECTED), "leads.import")])  # fmt: skip
def a_dead_letter_exchange_without_a_queue(day):
    """Dead letters go to an exchange to which nobody has bound a queue."""
    day.queue("leads.import", dead_letter_to=("dlx.leads", None))
    day.publisher("ads", "leads.import", 1)
    day.consumer("leads.import", tag="leads", takes_s=0.1,
                 ends=lambda entry, _: (
                     REJECT if entry.message.number % 20 == 0 else ACK))  # fmt: skip


@incident(HOUR, Cause((REPLAY, POISON, CIRCLE, STALLED), ("history.events",), ("dashboard",)),
          also=[((REPLAY, POISON, CIRCLE, STALLED, NO_CONSUMER, OVERFLOW, PREFETCH_HIGH),
                 "history.events"),
                ((CHURN,), "dashboard")])  # fmt: skip
def a_queue_that_is_read_like_a_stream(day):
    """Every ten minutes a dashboard reads the whole queue, acknowledges nothing and leaves."""
    day.queue("history.events", length_max=1500)
    day.publisher("app", "history.events", 0.5)
    for number, at_s in enumerate(range(600, HOUR, 600)):
        day.consumer("history.events", prefetch=0, takes_s=0.001, ends=KEEP, user="dashboard",
                     tag=f"dashboard-{number}", from_s=at_s, dies_s=at_s + 20)  # fmt: skip


@incident(900, Cause((REJECTED, DEAD_LETTERS), ("プロフィール更新",),
                     (("schema", "profile-api"),), 500))  # fmt: skip
def a_schema_that_consumers_reject(day):
    """Since a release one of two programs sends schema 5, and consumers know up to 4."""
    day.queue("プロフィール更新")
    day.publisher("legacy-api", "プロフィール更新", 1, properties={"headers": {"schema": 4}})
    day.publisher("profile-api", "プロフィール更新", 1, properties={
        "headers": lambda _, now_s: {"schema": 4 if now_s < 500 else 5}
    })  # fmt: skip
    day.consumer("プロフィール更新", takes_s=0.1, tag="profile", ends=lambda entry, _: (
        REJECT if entry.message.properties["headers"]["schema"] > 4 else ACK
    ))  # fmt: skip
