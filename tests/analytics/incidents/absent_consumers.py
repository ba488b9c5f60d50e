"""Incidents of queues without a consumer, and of those that get more than is taken from them."""

from tests.analytics.incidents.incident import (
    BACKLOG,
    BURST,
    CHURN,
    DEAD_LETTERS,
    EXPIRED,
    HOT_QUEUE,
    NO_CONSUMER,
    PREFETCH_LOW,
    SLOW,
    SYMPTOMS,
    WAITS,
    Says,
    incident,
)
from tests.analytics.incidents.simulated_clients import ACK, REJECT

HOUR, DAY = 3600, 86_400


@incident(HOUR, [Says(NO_CONSUMER, "orders", 3000, None, ("500",))], SYMPTOMS)
def a_consumer_dies_with_500_waiting(day):
    """The only consumer dies, and 500 messages wait when the trace ends."""
    day.queue("orders")
    day.publisher("shop", "orders", 1, until_s=3000)
    day.publisher("shop", "orders", bursts=((3001, 500, 598),))
    day.consumer("orders", takes_s=0.05, prefetch=20, dies_s=3000)


@incident(1200, [Says(NO_CONSUMER, "welcome", 0, None)], SYMPTOMS)
def a_queue_never_had_a_consumer(day):
    """Messages come for twenty minutes, and no consumer takes them."""
    day.busy_pair("orders", 1)
    day.queue("welcome")
    day.publisher("crm", "welcome", 0.5)


@incident(2 * HOUR, [Says(NO_CONSUMER, "sms", 2700, 3900)], SYMPTOMS)
def a_consumer_comes_back_after_twenty_minutes(day):
    """The consumer dies, and another one starts twenty minutes later."""
    day.queue("sms")
    day.publisher("crm", "sms", 1)
    day.consumer("sms", takes_s=0.05, tag="sms-1", dies_s=2700)
    day.consumer("sms", takes_s=0.05, tag="sms-2", from_s=3900)


@incident(DAY, [Says(NO_CONSUMER, "audit.copy", 0, None)], (*SYMPTOMS, HOT_QUEUE), begins_s=0)
def a_forgotten_queue(day):
    """A queue that is bound to everything fills all day; the other queue is healthy."""
    day.queue("audit")
    day.queue("audit.copy")
    day.bind("events", "#", "audit", "audit.copy")
    day.publisher("shop", "login", 0.03, "events")
    day.consumer("audit", takes_s=0.1)


@incident(8 * HOUR, [Says(NO_CONSUMER, "exports", 14_400, None)], SYMPTOMS)
def scaled_to_zero(day):
    """At noon both consumers are stopped, and publishing goes on."""
    day.queue("exports")
    day.publisher("office", "exports", 0.1)
    for number in range(2):
        day.consumer("exports", takes_s=2, tag=f"exp-{number}", dies_s=14_400)


@incident(HOUR, [Says(NO_CONSUMER, "push", 1500, None)], SYMPTOMS)
def a_consumer_is_cancelled(day):
    """A consumer cancels, and its connection stays open."""
    day.queue("push")
    day.publisher("app", "push", 0.8)
    day.consumer("push", takes_s=0.05, cancels_s=1500)


@incident(2 * HOUR, [Says(NO_CONSUMER, "faxes", 5400, None, within_s=900)], SYMPTOMS)
def a_consumer_dies_while_nothing_waits(day):
    """The consumer dies when its queue is empty; later messages come."""
    day.queue("faxes")
    day.publisher("office", "faxes", [(0, 0.2), (4000, 0), (5400, 0.3)])
    day.consumer("faxes", takes_s=0.5, dies_s=4800)


@incident(HOUR, [Says(BACKLOG, "jobs", 1800, None)], (WAITS, NO_CONSUMER, SLOW))
def two_of_four_die(day):
    """Two of four consumers die, and the others cannot keep up."""
    day.queue("jobs")
    day.publisher("web", "jobs", 3)
    for number in range(4):
        dies_s = 1800 if number < 2 else None
        day.consumer("jobs", takes_s=1.0, prefetch=2, tag=f"job-{number}", dies_s=dies_s)


@incident(600, [Says(NO_CONSUMER, "metrics", 240, None, within_s=15)], SYMPTOMS)
def a_consumer_without_acks_dies(day):
    """A consumer that does not acknowledge dies, and metrics pile up."""
    day.queue("metrics")
    day.publisher("plant", "metrics", 10)
    day.consumer("metrics", no_ack=True, dies_s=240)


@incident(
    HOUR,
    [Says(NO_CONSUMER, "orders.dead", None, None), Says(DEAD_LETTERS, "orders")],
    (BACKLOG, WAITS),
)
def dead_letters_that_nobody_looks_at(day):
    """One order in ten is rejected, and its dead letter waits in a queue without a consumer."""
    day.queue("orders.dead")
    day.queue("orders", dead_letter_to=("", "orders.dead"))
    day.publisher("shop", "orders", 1)
    day.consumer("orders", ends=lambda entry, _: REJECT if entry.message.number % 10 == 0 else ACK)


@incident(300, [Says(NO_CONSUMER, "alerts", 120, 200, within_s=10)], SYMPTOMS)
def absent_for_80_seconds(day):
    """A busy queue has no consumer for 80 seconds."""
    day.queue("alerts")
    day.publisher("plant", "alerts", 15)
    day.consumer("alerts", takes_s=0.01, tag="alert-1", dies_s=120)
    day.consumer("alerts", takes_s=0.01, tag="alert-2", from_s=200)


@incident(
    2 * HOUR,
    [Says(NO_CONSUMER, "tickets", 3600, None), Says(EXPIRED, "tickets", 4200)],
    SYMPTOMS,
)
def nobody_takes_them_and_they_expire(day):
    """The consumer dies, and messages that wait for ten minutes expire."""
    day.queue("tickets", ttl_s=600)
    day.publisher("hall", "tickets", 0.8)
    day.consumer("tickets", takes_s=0.1, dies_s=3600)


# More than is taken


@incident(2 * HOUR, [Says(BACKLOG, "parcels", 3600, None)], (WAITS,))
def twice_as_many_come(day):
    """The rate doubles at half time, and the consumer cannot keep up."""
    day.queue("parcels")
    day.publisher("depot", "parcels", [(0, 0.7), (3600, 1.5)])
    day.consumer("parcels", takes_s=1.0, prefetch=10)


@incident(
    DAY, [Says(BACKLOG, "archive", 0, None, within_s=7200)], (WAITS, PREFETCH_LOW), begins_s=0
)
def a_little_too_slow_all_day(day):
    """A consumer takes 27 s for messages that come every 20 s."""
    day.queue("archive")
    day.publisher("office", "archive", 0.05, even=True)
    day.consumer("archive", takes_s=27, prefetch=1)


@incident(HOUR, [Says(BACKLOG, "crawl", 900, None)], (WAITS, BURST))
def more_than_can_be_done(day):
    """A new publisher adds links faster than they can be followed."""
    day.queue("crawl")
    day.publisher("seed", "crawl", 0.5)
    day.publisher("spider", "crawl", 3, from_s=900, opens=True)
    for number in range(2):
        day.consumer("crawl", takes_s=1.2, prefetch=5, tag=f"crawl-{number}")


@incident(4 * HOUR, [Says(BACKLOG, "notices", 7200, within_s=900)], (WAITS,))
def an_hour_of_too_much(day):
    """For an hour twice as many come as can be done; then the queue empties."""
    day.queue("notices")
    day.publisher("crm", "notices", [(0, 0.3), (7200, 1.0), (10_800, 0.1)])
    day.consumer("notices", takes_s=2, prefetch=10)


@incident(120, [Says(BACKLOG, "trades", 60, None, within_s=10)], (WAITS, PREFETCH_LOW))
def too_many_in_the_last_minute(day):
    """In a trace of two minutes, twice as many come in the second as can be done."""
    day.queue("trades")
    day.publisher("feed", "trades", [(0, 15), (60, 45)])
    day.consumer("trades", takes_s=0.04, prefetch=20)


@incident(
    2 * HOUR, [Says(CHURN, "worker", 1800, within_s=300)],
    (Says(BACKLOG, "letters"), Says(WAITS, "letters"), Says(NO_CONSUMER, "letters"),
     Says("poison", "letters"), Says("circle", "letters"), Says("stalled_consumer", "letters")),
)  # fmt: skip
def a_consumer_that_connects_and_dies(day):
    """After an update, a consumer connects, dies after 4 s, and connects again."""
    day.queue("letters")
    day.publisher("crm", "letters", 0.3)
    day.consumer("letters", takes_s=0.1, tag="letter-1", dies_s=1800)
    for number in range(600):
        at_s = 1805 + number * 9
        if at_s < 2 * HOUR:
            day.consumer("letters", takes_s=20, prefetch=1, tag="letter-2", from_s=at_s,
                         dies_s=at_s + 4)  # fmt: skip
