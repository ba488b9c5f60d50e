"""Incidents of messages that are lost: expired, dropped, rejected, unroutable, removed."""

from tests.analytics.incidents.incident import (
    BACKLOG,
    BURST,
    DEAD_LETTERS,
    EXPIRED,
    HOT_KEY,
    LOST_LETTERS,
    NO_CONSUMER,
    OVERFLOW,
    REJECTED,
    REMOVED,
    SLOW,
    SYMPTOMS,
    UNROUTABLE,
    WAITS,
    Says,
    incident,
)
from tests.analytics.incidents.retries import one_in
from tests.analytics.incidents.simulated_clients import REJECT

HOUR, DAY = 3600, 86_400


@incident(HOUR, [Says(EXPIRED, "offers", 1800, None)], (*SYMPTOMS, SLOW))
def they_expire_since_the_consumer_is_slow(day):
    """Since half time the consumer is slow, and messages older than a minute expire."""
    day.queue("offers", ttl_s=60)
    day.publisher("shop", "offers", 1)
    day.consumer("offers", takes_s=lambda _, now_s: 2 if now_s > 1740 else 0.1, prefetch=5)


@incident(DAY, [Says(EXPIRED, "leads", 43_200, 50_400, within_s=1900)], (*SYMPTOMS, NO_CONSUMER),
          begins_s=0)  # fmt: skip
def they_expire_over_lunch(day):
    """The consumer is off for two and a half hours, and what waits for half an hour expires."""
    day.queue("leads", ttl_s=1800)
    day.publisher("web", "leads", 0.05)
    day.consumer("leads", takes_s=1, tag="sales", dies_s=41_400)
    day.consumer("leads", takes_s=1, tag="sales", from_s=50_400)


@incident(HOUR, [Says(EXPIRED, "quotes", None, None)], (*SYMPTOMS, NO_CONSUMER))
def a_third_expires_all_the_time(day):
    """The consumer manages two thirds; the others expire after 20 s."""
    day.queue("quotes", ttl_s=20)
    day.publisher("feed", "quotes", 1.5)
    day.consumer("quotes", takes_s=1.0, prefetch=5)


@incident(HOUR, [Says(OVERFLOW, "events", 1200, None, ("maxlen",))], (*SYMPTOMS, NO_CONSUMER))
def they_overflow_when_nobody_takes_them(day):
    """The consumer dies, and the queue drops what is beyond 200 messages."""
    day.queue("events", length_max=200)
    day.publisher("app", "events", 1)
    day.consumer("events", takes_s=0.1, dies_s=1000)


@incident(HOUR, [Says(OVERFLOW, "bids", 1500, 1800, within_s=180)], (*SYMPTOMS, BURST))
def a_full_queue_refuses(day):
    """For five minutes more come than can be done, and the full queue refuses them."""
    day.queue("bids", length_max=100, overflow="reject-publish")
    day.publisher("web", "bids", [(0, 0.5), (1500, 4), (1800, 0.5)])
    day.consumer("bids", takes_s=0.6, prefetch=5)


@incident(HOUR, [Says(OVERFLOW, "pages", None, None)],
          (*SYMPTOMS, DEAD_LETTERS, BURST, Says(NO_CONSUMER, "pages.spill"),
           Says(BACKLOG, "pages.spill"), Says(WAITS, "pages.spill")))  # fmt: skip
def they_overflow_as_dead_letters(day):
    """What is beyond 50 messages is dead-lettered in a burst."""
    day.queue("pages.spill")
    day.queue("pages", length_max=50, dead_letter_to=("", "pages.spill"))
    day.publisher("web", "pages", 0.5, bursts=((2000, 400, 20),))
    day.consumer("pages", takes_s=0.5, prefetch=5)


@incident(120, [Says(OVERFLOW, "frames", 60, within_s=10)], SYMPTOMS)
def frames_are_dropped(day):
    """A consumer becomes too slow for 30 frames a second, and the oldest are dropped."""
    day.queue("frames", length_max=60)
    day.publisher("camera", "frames", 30, even=True)
    day.consumer("frames", takes_s=lambda _, now_s: 0.05 if now_s > 55 else 0.01, prefetch=2)


@incident(HOUR, [Says(REJECTED, "forms", None, None)], SYMPTOMS)
def rejected_and_gone(day):
    """One form in fifty is rejected, and the queue has no dead-letter exchange."""
    day.queue("forms")
    day.publisher("web", "forms", 1)
    day.consumer("forms", ends=one_in(50, REJECT))


@incident(2 * HOUR, [Says(REJECTED, "votes", 3600, None)], SYMPTOMS)
def everything_is_rejected_since_an_update(day):
    """Since an update all votes are rejected and lost."""
    day.queue("votes")
    day.publisher("web", "votes", 0.5)
    day.consumer("votes", ends=one_in(1, REJECT, from_s=3600))


@incident(HOUR, [Says(LOST_LETTERS, "chats", None, None)], (DEAD_LETTERS, REJECTED, *SYMPTOMS))
def dead_letters_without_a_queue(day):
    """Dead letters go to an exchange to which no queue is bound."""
    day.queue("chats", dead_letter_to=("chats.dlx", None))
    day.publisher("app", "chats", 0.8)
    day.consumer("chats", ends=one_in(25, REJECT))


@incident(1800, [Says(LOST_LETTERS, "slots", None, None)], (DEAD_LETTERS, EXPIRED, *SYMPTOMS, SLOW))
def expired_letters_with_a_wrong_key(day):
    """Messages expire, as consumers are too slow, and their dead letters have a wrong key."""
    day.queue("slots", ttl_s=15, dead_letter_to=("", "slots.daed"))
    day.publisher("hall", "slots", 1)
    day.consumer("slots", takes_s=1.4, prefetch=2)


# Unroutable


@incident(HOUR, [Says(UNROUTABLE, "orders", 600, 800, ("137", "60"))], unsaid=("nobody was told",))
def sixty_of_137_are_returned(day):
    """137 messages have no queue; 60 were mandatory and were returned."""
    day.queue("orders.eu")
    day.bind("orders", "eu", "orders.eu")
    day.publisher("shop", "eu", 0.5, "orders")
    day.publisher("legacy", "uk", exchange="orders", bursts=((600, 77, 100),))
    day.publisher("strict", "uk", exchange="orders", bursts=((700, 60, 100),), mandatory=True)
    day.consumer("orders.eu")


@incident(HOUR, [Says(UNROUTABLE, "events", None, None, ("user.deleted",))])
def nobody_is_bound(day):
    """One key in five is bound nowhere, and no client is told."""
    day.queue("mirror")
    day.bind("events", "user.created", "mirror")
    keys = ["user.created", "user.deleted"]
    day.publisher("app", lambda random, _: random.choices(keys, [4, 1])[0], 0.5, "events")
    day.consumer("mirror")


@incident(HOUR, [Says(UNROUTABLE, "jobs", 1000, 1600, ("returned",))], unsaid=("nobody was told",))
def all_are_returned(day):
    """A queue is deleted for ten minutes; mandatory messages are returned."""
    day.queue("builds")
    day.bind("jobs", "build", "builds")
    day.publisher("ci", "build", 0.4, "jobs", until_s=1000)
    day.publisher("ci", "biuld", 0.4, "jobs", from_s=1000, until_s=1600, mandatory=True)
    day.publisher("ci", "build", 0.4, "jobs", from_s=1600)
    day.consumer("builds", takes_s=0.3)


@incident(1800, [Says(UNROUTABLE, "default exchange", 900, None, ("repotrs",))])
def a_misspelt_queue(day):
    """A new version of a publisher misspells the name of the queue."""
    day.queue("reports")
    day.publisher("old", "reports", 0.3)
    day.publisher("new", "repotrs", 0.3, from_s=900)
    day.consumer("reports", takes_s=0.5)


@incident(
    2 * HOUR,
    [Says(UNROUTABLE, "fleet", None, None, ("truck.9",))],
    (Says(HOT_KEY, "fleet"),),
)
def many_keys_without_a_queue(day):
    """Two of ten trucks have keys that are bound nowhere; one of them asks for returns."""
    day.queue("positions")
    for number in range(8):
        day.bind("fleet", f"truck.{number}", "positions")
    for number in range(10):
        day.publisher(f"truck{number}", f"truck.{number}", 0.05, "fleet", mandatory=number == 8)
    day.consumer("positions")


# Removed


@incident(HOUR, [Says(REMOVED, "drafts", 2400, None, ("400",), within_s=60)],
          (NO_CONSUMER, *SYMPTOMS), unsaid=("still waiting",))  # fmt: skip
def purged_with_400(day):
    """400 messages without a consumer are purged."""
    day.queue("drafts")
    day.publisher("office", "drafts", bursts=((300, 400, 1800),))
    day.at(2400, day.broker.queues["drafts"].empty)


@incident(HOUR, [Says(REMOVED, "session.7", 1800)], (NO_CONSUMER, *SYMPTOMS))
def deleted_with_its_messages(day):
    """A queue whose consumer has gone is deleted with 250 messages."""
    queue = day.queue("session.7")
    day.publisher("chat", "session.7", 0.5, until_s=1800)
    day.consumer(queue, dies_s=1300)
    day.at(1800, queue.delete)
