"""Incidents whose symptoms are alike, and of which a finding has to name the cause."""

from tests.analytics.incidents.connections import every
from tests.analytics.incidents.incident import (
    BACKLOG,
    BURST,
    CHURN,
    CIRCLE,
    DEAD_LETTERS,
    LATE_REPLIES,
    NO_CONSUMER,
    OUT_OF_ORDER,
    POISON,
    PREFETCH_HIGH,
    REJECTED,
    REPLAY,
    SLOW,
    STALLED,
    STARVED,
    SYMPTOMS,
    Says,
    incident,
)
from tests.analytics.incidents.requesters import requesters, server
from tests.analytics.incidents.simulated_clients import ACK, REJECT, REQUEUE

HOUR = 3600


@incident(600, [Says(OUT_OF_ORDER, "positions", 200, None, ("Consumer map",), within_s=60)])
def order_is_broken_by_requeues(day):
    """Since minute three a consumer that holds 20 messages requeues one in fifty, once."""
    day.queue("positions")
    day.publisher("truck", "positions", 4)

    def ends(entry, now_s):
        is_one = now_s > 200 and entry.message.number % 50 == 0 and entry.deliveries == 1
        return REQUEUE if is_one else ACK

    day.consumer("positions", takes_s=0.2, prefetch=20, ends=ends, tag="map")


@incident(600, [Says(REPLAY, "meters", 300, None, ("without any", "gateway"), within_s=20)],
          SYMPTOMS)  # fmt: skip
def what_was_kept_during_an_outage_comes_at_once(day):
    """A gateway is cut off for two minutes, and sends what it kept within seconds."""
    day.queue("meters")
    day.publisher("gateway", "meters", [(0, 2), (180, 0), (300, 2)], bursts=((300, 1200, 6),))
    day.consumer("meters", takes_s=0.12, prefetch=50)


@incident(
    600,
    [Says(REPLAY, "events", 300, within_s=20)],
    (*SYMPTOMS, STALLED, CHURN, BURST, PREFETCH_HIGH),
)
def thousands_are_delivered_again(day):
    """A consumer without a limit holds thousands of messages and crashes; they come again."""
    day.queue("events")
    day.publisher("app", "events", 3, bursts=((100, 900, 20),))
    day.consumer("events", takes_s=0.25, prefetch=0, tag="old", dies_s=300)
    day.consumer("events", takes_s=0.1, prefetch=0, tag="new", from_s=302)


@incident(600, [Says(BURST, "jobs", 200, None, ("10.0.0.99",), within_s=20)], SYMPTOMS)
def one_of_many_connections_is_noisy(day):
    """All programs are one user; one connection sends most, and messages of all others wait."""
    day.queue("jobs")
    for _ in range(5):
        day.publisher("guest", "jobs", 0.5)
    day.publisher("guest", "jobs", 0.5, bursts=((205, 1200, 9),), host="10.0.0.99")
    day.consumer("jobs", takes_s=0.1, prefetch=10)


@incident(600, [Says(BURST, "jobs", 200, None, ("guest",), within_s=20)], SYMPTOMS)
def a_burst_that_two_steps_share(day):
    """The same burst begins in one step of ten seconds and ends in the next one."""
    day.queue("jobs")
    day.publisher("desk", "jobs", 1)
    day.publisher("guest", "jobs", bursts=((206, 900, 8),))
    day.consumer("jobs", takes_s=0.07, prefetch=10)


@incident(HOUR, [Says(BACKLOG, "tasks", 1200, None, ("crawler", "before"))], (*SYMPTOMS, BURST))
def one_publisher_sends_more_for_good(day):
    """Since minute twenty one of three publishers sends eight times as much."""
    day.queue("tasks")
    for user in ("shop", "crm"):
        day.publisher(user, "tasks", 0.2)
    day.publisher("crawler", "tasks", [(0, 0.12), (1200, 0.96)])
    day.consumer("tasks", takes_s=1.25, prefetch=10)


@incident(600, [Says(CIRCLE, "orders", 200, None, ("v2", "v1 acknowledged"), within_s=20)],
          (POISON, OUT_OF_ORDER, *SYMPTOMS))  # fmt: skip
def a_version_requeues_everything(day):
    """A new version of a consumer starts beside the old one, and requeues all that it gets."""
    day.queue("orders")
    day.publisher("shop", "orders", 3)
    day.consumer("orders", takes_s=0.1, prefetch=5, tag="v1")
    day.consumer("orders", takes_s=0.1, prefetch=5, tag="v2", from_s=200, ends=REQUEUE)


@incident(600, [Says(REJECTED, "orders", 200, None, ("Consumer v2",), within_s=20)])
def a_version_rejects_everything(day):
    """A new version of a consumer starts beside the old one, and rejects all that it gets."""
    day.queue("orders")
    day.publisher("shop", "orders", 3)
    day.consumer("orders", takes_s=0.1, prefetch=5, tag="v1")
    day.consumer("orders", takes_s=0.1, prefetch=5, tag="v2", from_s=200, ends=REJECT)


@incident(600, [Says(DEAD_LETTERS, "docs", 300, None, ("content type text/xml",), within_s=20)],
          (Says(NO_CONSUMER, "docs.dead"), Says(BACKLOG, "docs.dead")))  # fmt: skip
def a_wrong_content_type(day):
    """Since minute five one of two programs sends XML, which consumers reject."""
    day.queue("docs.dead")
    day.queue("docs", dead_letter_to=("", "docs.dead"))
    day.publisher("portal", "docs", 2, properties={"content_type": "application/json"})
    day.publisher("portal", "docs", 1, properties={
        "content_type": lambda _, now_s: "application/json" if now_s < 300 else "text/xml"
    })  # fmt: skip

    def ends(entry, _):
        return REJECT if entry.message.properties["content_type"] == "text/xml" else ACK

    for number in (1, 2):
        day.consumer("docs", ends=ends, tag=f"doc-{number}")


@incident(600, [Says(REJECTED, "images", None, None, ("size above",))])
def large_ones_are_rejected(day):
    """Consumers reject messages above a size."""
    day.queue("images")
    day.publisher("upload", "images", 2,
                  size=lambda random, _: 300_000 if random.random() < 0.15 else 5_000)  # fmt: skip
    day.consumer("images", ends=lambda entry, _: REJECT if entry.message.size > 99_999 else ACK)


@incident(HOUR, [Says(SLOW, "reports", 1800, None, ("messages grew",))], SYMPTOMS)
def messages_grow(day):
    """Since half time messages are ten times as large, and take ten times as long."""
    day.queue("reports")
    day.publisher("office", "reports", 0.4, size=lambda _, now_s: 2_000 if now_s < 1800 else 20_000)
    day.consumer("reports", takes_s=lambda _, now_s: 0.013 if now_s < 1800 else 0.133)


@incident(HOUR, [Says(BACKLOG, "scans", 1200, None, ("grown",))], SYMPTOMS)
def messages_grow_and_wait(day):
    """Messages become three times as large, and consumers cannot keep up."""
    day.queue("scans")
    day.publisher("lab", "scans", 0.5, size=lambda _, now_s: 10_000 if now_s < 1200 else 30_000)
    day.consumer("scans", takes_s=lambda _, now_s: 0.9 if now_s < 1200 else 2.7, prefetch=10)


@incident(600, [Says(STARVED, "mixed", None, None, ("priority 0",))], SYMPTOMS)
def low_priorities_starve(day):
    """Messages of high priority take all that the consumers can do; low ones wait for ever."""
    day.queue("mixed", has_priorities=True)
    day.publisher("alerts", "mixed", [(0, 1), (120, 6)], properties={"priority": 9})
    day.publisher("reports", "mixed", 0.5, properties={"priority": 0})
    day.consumer("mixed", takes_s=0.2, prefetch=1)


@incident(600, [Says(LATE_REPLIES, "prices", 300, None, ("pricing-2",), within_s=20)],
          (*(Says(kind, "prices") for kind in (*SYMPTOMS, SLOW)), Says(CHURN, "web")))  # fmt: skip
def replies_come_when_the_requester_has_gone(day):
    """Since minute five one of two servers takes 4 s, and requesters wait for 2 s."""
    day.queue("prices")
    requesters(day, "prices", every(1, 0, 600), 2)
    server(day, "prices", 0.05, "pricing-1", prefetch=1)
    server(day, "prices", lambda _, now_s: 0.05 if now_s < 300 else 4, "pricing-2", prefetch=1)


@incident(600, [Says(NO_CONSUMER, "all", None, None, ("20 of the 21 queues",))])
def copies_that_nobody_reads(day):
    """An exchange copies each message to 21 queues, of which one has a consumer."""
    names = [f"copy.{number:02}" for number in range(20)]
    for name in ("used", *names):
        day.queue(name)
    day.bind("all", "#", "used", *names)
    day.publisher("app", "event", 1, "all")
    day.consumer("used")


@incident(400, [Says(NO_CONSUMER, "invoices", 200, None, ("inv-7",))], SYMPTOMS)
def a_crash_a_fraction_of_a_second_after_the_whole_one(day):
    """A consumer acknowledges a last message, and crashes within the same second."""
    day.queue("invoices")
    day.publisher("shop", "invoices", 10)
    day.consumer("invoices", takes_s=0.01, tag="inv-7", dies_s=200.7)
