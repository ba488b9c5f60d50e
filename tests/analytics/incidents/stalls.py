"""Incidents of consumers that stall or are slow."""

from tests.analytics.incidents.incident import (
    BACKLOG,
    POISON,
    PREFETCH_HIGH,
    SLOW,
    STALLED,
    SYMPTOMS,
    WAITS,
    Says,
    incident,
)
from tests.analytics.incidents.simulated_clients import ACK, KEEP

HOUR, DAY = 3600, 86_400


@incident(HOUR, [Says(STALLED, "orders", 1200, 1440, ("ctag-orders",))], SYMPTOMS)
def stall_of_four_minutes(day):
    """A consumer acknowledges nothing for four minutes, and recovers."""
    day.queue("orders")
    day.publisher("shop", "orders", 2)
    day.consumer("orders", takes_s=0.02, tag="ctag-orders", stalls=((1200, 1440),))


@incident(180, [Says(STALLED, "payments", 90, 109, ("300",), within_s=5)], SYMPTOMS)
def stall_of_19_seconds(day):
    """A consumer acknowledges nothing for 19 seconds, and holds 300 messages."""
    day.queue("payments")
    day.publisher("bank", "payments", 30)
    day.consumer("payments", takes_s=0.01, prefetch=300, tag="pay-1", stalls=((90, 109),))


@incident(2 * HOUR, [Says(STALLED, "mails", 3000, 3600, ("mail-2",))], SYMPTOMS)
def stall_of_one_of_three(day):
    """One of three consumers stalls for ten minutes; the others go on."""
    day.queue("mails")
    day.publisher("crm", "mails", 1.2)
    for number in (1, 2, 3):
        stalls = ((3000, 3600),) if number == 2 else ()
        day.consumer("mails", takes_s=0.3, tag=f"mail-{number}", prefetch=10, stalls=stalls)


@incident(HOUR, [Says(STALLED, "index", 2400, None, ("50",))], SYMPTOMS)
def stall_until_the_end(day):
    """A consumer stops acknowledging, does not resume, and holds 50 messages."""
    day.queue("index")
    day.publisher("cms", "index", 1.5)
    day.consumer("index", takes_s=0.1, prefetch=50, tag="indexer", stalls=((2400, 1e9),))


@incident(DAY, [Says(STALLED, "reports", 36_000, 39_600)], SYMPTOMS, begins_s=0)
def stall_of_an_hour_with_one_message(day):
    """A consumer with a prefetch limit of 1 holds its message for an hour."""
    day.queue("reports")
    day.publisher("office", "reports", 0.04)
    day.consumer("reports", takes_s=4, prefetch=1, stalls=((36_000, 39_600),))


@incident(
    HOUR,
    [Says(STALLED, "stock", 1800, 2100), Says(STALLED, "prices", 1800, 2100)],
    SYMPTOMS,
)
def stall_of_everything(day):
    """The database is down for five minutes: the consumers of two queues stall."""
    for name, rate in (("stock", 0.8), ("prices", 0.6)):
        day.queue(name)
        day.publisher("erp", name, rate)
        for number in range(2):
            day.consumer(name, takes_s=0.05, prefetch=5, tag=f"{name}-{number}",
                         stalls=((1800, 2100),))  # fmt: skip


@incident(2 * HOUR, [Says(STALLED, "clicks", 1200, within_s=120)], SYMPTOMS)
def stalls_of_a_minute_again_and_again(day):
    """A consumer stalls for a minute every twenty minutes."""
    day.queue("clicks")
    day.publisher("web", "clicks", 1.0)
    stalls = tuple((at, at + 60) for at in range(1200, 2 * HOUR, 1200))
    day.consumer("clicks", takes_s=0.02, prefetch=100, tag="clicker", stalls=stalls)


@incident(2 * HOUR, [Says(STALLED, "scans", 1800, 5400)], SYMPTOMS)
def one_message_held_for_an_hour(day):
    """One worker of a consumer hangs with its message for an hour; its others go on."""
    day.queue("scans")
    day.publisher("lab", "scans", 0.5)
    day.consumer("scans", takes_s=_hangs_once(1800, HOUR, 0.5), workers=4, prefetch=8)


def _hangs_once(at_s, for_s, usual_s):
    """Return durations of which the first after a time is long."""
    hung = []

    def takes_s(_random, now_s):
        if now_s >= at_s and not hung:
            hung.append(now_s)
            return for_s
        return usual_s

    return takes_s


@incident(
    2 * HOUR,
    [Says(STALLED, "invoices", 1500, 3300, ("inv-old",))],
    SYMPTOMS,
)
def stall_that_the_ack_timeout_ends(day):
    """A consumer stalls; after half an hour the broker closes its channel, and another goes on."""
    day.queue("invoices")
    day.publisher("shop", "invoices", 0.5)
    day.consumer("invoices", takes_s=0.2, prefetch=10, tag="inv-old", stalls=((1500, 1e9),),
                 dies_s=3300)  # fmt: skip
    day.consumer("invoices", takes_s=0.2, prefetch=10, tag="inv-new", from_s=3310)


@incident(300, [Says(STALLED, "telemetry", 200, None, within_s=10)], (*SYMPTOMS, PREFETCH_HIGH))
def stall_without_a_limit(day):
    """A consumer without a prefetch limit stops, and gets everything that comes."""
    day.queue("telemetry")
    day.publisher("plant", "telemetry", 25)
    day.consumer("telemetry", takes_s=0.01, prefetch=0, tag="historian", stalls=((200, 1e9),))


@incident(DAY, [Says(STALLED, "backups", 50_000, 57_200)], SYMPTOMS, begins_s=6 * HOUR)
def stall_with_little_traffic(day):
    """A message comes every two minutes; for two hours none is acknowledged."""
    day.queue("backups")
    day.publisher("cron", "backups", 1 / 120, even=True)
    day.consumer("backups", takes_s=10, prefetch=10, stalls=((50_000, 57_200),))


@incident(HOUR, [Says(STALLED, "batches", 1500, 1860)], SYMPTOMS)
def stall_of_acks_in_batches(day):
    """A consumer that acknowledges 50 messages at a time stalls for six minutes."""
    day.queue("batches")
    day.publisher("etl", "batches", 2)
    day.consumer("batches", takes_s=0.05, prefetch=200, acks_every=50, stalls=((1500, 1860),))


@incident(600, [Says(STALLED, "quotes", 300, 345, within_s=10)], SYMPTOMS)
def stall_of_45_seconds(day):
    """Quotes take 2 ms; for 45 seconds none is acknowledged."""
    day.queue("quotes")
    day.publisher("feed", "quotes", 8)
    day.consumer("quotes", takes_s=0.002, prefetch=64, tag="quoter", stalls=((300, 345),))


@incident(4 * HOUR, [Says(STALLED, "images", 6000, 7800, ("img-3",))], SYMPTOMS)
def stall_of_one_of_four_slow_ones(day):
    """Work takes a minute; one of four consumers is stuck for half an hour."""
    day.queue("images")
    day.publisher("upload", "images", 0.03)
    for number in range(1, 5):
        stalls = ((6000, 7800),) if number == 3 else ()
        day.consumer("images", takes_s=lambda random, _: random.uniform(45, 75), prefetch=1,
                     tag=f"img-{number}", stalls=stalls)  # fmt: skip


@incident(HOUR, [Says(STALLED, "ledger", 0, 600)], SYMPTOMS)
def stall_when_the_trace_begins(day):
    """The trace begins with a consumer that gets messages, and acknowledges after ten minutes."""
    day.queue("ledger")
    day.publisher("bank", "ledger", 1)
    day.consumer("ledger", takes_s=0.05, prefetch=30, stalls=((0, 600),))


@incident(HOUR, [Says(STALLED, "labels", 1000, None)], (*SYMPTOMS, SLOW))
def some_messages_are_never_acknowledged(day):
    """After an update, a consumer forgets to acknowledge one message in twenty."""

    def forgets(entry, now_s):
        return KEEP if now_s > 1000 and entry.message.number % 20 == 0 else ACK

    day.queue("labels")
    day.publisher("depot", "labels", 1)
    day.consumer("labels", takes_s=0.05, prefetch=0, ends=forgets, tag="printer")


# Slow consumers


@incident(HOUR, [Says(SLOW, "resize", None, None, ("res-2",))], SYMPTOMS)
def one_of_three_is_slow(day):
    """One of three consumers takes twenty times as long as the others."""
    day.queue("resize")
    day.publisher("upload", "resize", 2)
    for number in (1, 2, 3):
        takes_s = 1.0 if number == 2 else 0.05
        day.consumer("resize", takes_s=takes_s, prefetch=1, tag=f"res-{number}")


@incident(HOUR, [Says(SLOW, "search", 1800, None)], SYMPTOMS)
def slow_since_an_update(day):
    """Since half past, each message takes 400 ms instead of 10 ms; nothing piles up."""
    day.queue("search")
    day.publisher("web", "search", 1.2)
    day.consumer("search", takes_s=lambda _, now_s: 0.4 if now_s > 1800 else 0.01)


@incident(HOUR, [Says(SLOW, "rates", 1500, 2700)], SYMPTOMS)
def slow_for_twenty_minutes(day):
    """For twenty minutes a service that the consumers call takes 3 s instead of 50 ms."""
    day.queue("rates")
    day.publisher("shop", "rates", 1)
    for number in range(3):
        day.consumer(
            "rates", takes_s=lambda _, now_s: 3 if 1500 < now_s < 2700 else 0.05,
            tag=f"rates-{number}", prefetch=5,
        )  # fmt: skip


@incident(
    6 * HOUR,
    [Says(BACKLOG, "thumbs", 12_000, None, within_s=3600), Says(SLOW, "thumbs")],
    (WAITS,),
)
def slower_and_slower(day):
    """Each message takes longer than the one before, until the consumer cannot keep up."""
    day.queue("thumbs")
    day.publisher("upload", "thumbs", 0.5)
    day.consumer("thumbs", takes_s=lambda _, now_s: 0.2 + 3.8 * (now_s / 21_600) ** 2, prefetch=5)


@incident(2 * HOUR, [Says(SLOW, "geo", 3600, None, ("geo-4",))], SYMPTOMS)
def a_new_consumer_is_slow(day):
    """A fourth consumer starts on a weak machine, and takes 8 s instead of 200 ms."""
    day.queue("geo")
    day.publisher("fleet", "geo", 1)
    for number in range(1, 4):
        day.consumer("geo", takes_s=0.2, prefetch=2, tag=f"geo-{number}")
    day.consumer("geo", takes_s=8, prefetch=2, tag="geo-4", from_s=3600)


@incident(HOUR, [Says(STALLED, "carts", 1800, 2400)], (*SYMPTOMS, POISON))
def stall_then_a_restart(day):
    """A consumer stalls for ten minutes, is restarted, and goes on."""
    day.queue("carts")
    day.publisher("shop", "carts", 1)
    day.consumer("carts", takes_s=0.05, prefetch=20, tag="cart-1", stalls=((1800, 1e9),),
                 dies_s=2400)  # fmt: skip
    day.consumer("carts", takes_s=0.05, prefetch=20, tag="cart-2", from_s=2405)
