"""Days on which something is as it has always been, and which resemble incidents."""

from tests.analytics.incidents.connections import every
from tests.analytics.incidents.incident import CHURN, HOT_KEY, Says, quiet_day
from tests.analytics.incidents.requesters import requesters, server
from tests.analytics.incidents.simulated_clients import ACK, REJECT, REQUEUE

HOUR = 3600


@quiet_day(600, [Says(CHURN, "web")])
def direct_replies_that_arrive(day):
    """Requesters get their replies, which have no queue."""
    day.queue("quotes")
    requesters(day, "quotes", every(2, 0, 590), 5)
    server(day, "quotes", 0.05, "quoting")


@quiet_day(600)
def an_order_that_goes_to_three_queues(day):
    """An exchange copies each order, with its id, to three queues, none of which gets it twice."""
    for name in ("stock", "billing", "mail"):
        day.queue(name)
        day.consumer(name)
    day.bind("orders", "new", "stock", "billing", "mail")
    day.publisher("shop", "new", 2, "orders", message_id=lambda _, now_s: f"order-{now_s}")


@quiet_day(600)
def an_id_that_goes_once_to_each_of_three_queues(day):
    """A program publishes each order once to each queue, with the same id."""
    for name in ("stock", "billing", "mail"):
        day.queue(name)
        day.consumer(name)
        day.publisher("shop", name, 1, even=True, message_id=lambda _, now_s: f"order-{now_s:.3f}")


@quiet_day(600)
def a_nightly_batch_of_low_priority(day):
    """A batch of low priority waits for minutes, and others pass it."""
    day.queue("jobs", has_priorities=True)
    day.publisher("desk", "jobs", 3, properties={"priority": 5})
    day.publisher("batch", "jobs", bursts=((200, 900, 5),), properties={"priority": 1})
    day.consumer("jobs", takes_s=0.1, prefetch=1)


@quiet_day(600)
def a_last_value_that_is_consumed(day):
    """A queue keeps the latest price for a consumer that reads one a second."""
    day.queue("price", length_max=1)
    day.publisher("feed", "price", 5)
    day.consumer("price", takes_s=1, prefetch=1)


@quiet_day(HOUR, [Says(HOT_KEY, "mails")])
def rejections_that_are_a_filter(day):
    """A consumer rejects mails that are not for it, and another one consumes these."""
    day.queue("rest")
    day.queue("own", dead_letter_to=("", "rest"))
    day.publisher("post", "own", 0.7)
    day.consumer("own", ends=lambda entry, _: REJECT if entry.message.number % 3 == 0 else ACK)
    day.consumer("rest")


@quiet_day(600)
def messages_of_two_sizes(day):
    """Some messages are large and take long; it has always been so."""
    day.queue("images")
    sizes = (2_000, 2_000, 2_000, 90_000)
    day.publisher("upload", "images", 2, size=lambda random, _: random.choice(sizes))
    for number in range(2):
        day.consumer("images", takes_s=lambda random, _: random.choice((0.05, 0.4)), prefetch=5,
                     tag=f"image-{number}")  # fmt: skip


@quiet_day(600)
def a_few_that_are_tried_again(day):
    """Three messages are requeued once, while later ones are held."""
    day.queue("calls")
    day.publisher("web", "calls", 3)
    tried = set()

    def ends(entry, now_s):
        if now_s > 100 and len(tried) < 3 and entry.message.number not in tried:
            tried.add(entry.message.number)
            return REQUEUE
        return ACK

    day.consumer("calls", takes_s=0.1, prefetch=10, ends=ends)


@quiet_day(600)
def traffic_that_begins_late(day):
    """Hardly anything comes at first; then there is steady traffic, which is consumed."""
    day.queue("ticks")
    day.publisher("feed", "ticks", [(0, 0.1), (60, 5)])
    day.consumer("ticks", takes_s=0.08, prefetch=20)
