"""Days on which nothing happens that a report should mention, whatever they look like."""

from tests.analytics.incidents.connections import every, opens_and_closes
from tests.analytics.incidents.incident import (
    BACKLOG,
    CHURN,
    DEAD_LETTERS,
    EXPIRED,
    HOT_KEY,
    NO_CONSUMER,
    OVERFLOW,
    Says,
    quiet_day,
)
from tests.analytics.incidents.load import sharded
from tests.analytics.incidents.retries import only_the
from tests.analytics.incidents.simulated_clients import ACK, REJECT, REQUEUE

HOUR, DAY = 3600, 86_400


@quiet_day(HOUR)
def steady_traffic(day):
    """Three queues with steady traffic and quick consumers."""
    for name, rate in (("a", 0.5), ("b", 0.3), ("c", 0.8)):
        day.busy_pair(name, rate, consumers=2)


@quiet_day(120)
def two_busy_minutes(day):
    """Two minutes with 40 messages a second."""
    day.busy_pair("ticks", 40, takes_s=0.003)


@quiet_day(2 * HOUR)
def bursts_that_are_taken_at_once(day):
    """Bursts of 200 messages that are done within two seconds."""
    day.queue("events")
    bursts = tuple((at, 200, 1) for at in range(300, 2 * HOUR, 600))
    day.publisher("app", "events", 0.2, bursts=bursts)
    day.consumer("events", takes_s=0.008, prefetch=50)


@quiet_day(DAY, begins_s=0)
def a_nightly_batch(day):
    """At two in the morning 2,000 records come, and are done within forty minutes."""
    day.queue("billing")
    day.publisher("batch", "billing", bursts=((2 * HOUR, 2000, 60),))
    day.consumer("billing", takes_s=1.2, prefetch=10)
    day.busy_pair("orders", 0.01)


@quiet_day(8 * HOUR)
def slow_work_at_a_constant_pace(day):
    """Transcoding takes five minutes for each film; two consumers manage what comes."""
    day.queue("films")
    day.publisher("studio", "films", 1 / 200, even=True)
    for number in range(2):
        day.consumer("films", takes_s=lambda random, _: random.uniform(240, 330), prefetch=1,
                     tag=f"film-{number}")  # fmt: skip


@quiet_day(2 * HOUR)
def durations_that_differ_widely(day):
    """Most pages take 50 ms; one in twenty takes 20 s."""
    day.queue("pages")
    day.publisher("crawler", "pages", 0.5)
    for number in range(4):
        day.consumer("pages", takes_s=lambda random, _: 20 if random.random() < 0.05 else 0.05,
                     prefetch=2, tag=f"page-{number}")  # fmt: skip


@quiet_day(2 * HOUR)
def a_short_restart(day):
    """A consumer is updated, and is back after eight seconds."""
    day.queue("orders")
    day.publisher("shop", "orders", 0.8)
    day.consumer("orders", takes_s=0.05, prefetch=10, tag="v1", dies_s=3000)
    day.consumer("orders", takes_s=0.05, prefetch=10, tag="v2", from_s=3008)


@quiet_day(2 * HOUR)
def a_rolling_restart(day):
    """Four consumers are restarted one after the other."""
    day.queue("orders")
    day.publisher("shop", "orders", 0.9)
    for number in range(4):
        at_s = 3000 + number * 60
        day.consumer("orders", takes_s=0.1, prefetch=5, tag=f"old-{number}", dies_s=at_s)
        day.consumer("orders", takes_s=0.1, prefetch=5, tag=f"new-{number}", from_s=at_s + 15)


@quiet_day(DAY, begins_s=0)
def hardly_any_traffic(day):
    """Twelve messages in a day."""
    day.queue("certificates")
    day.publisher("cron", "certificates", 1 / 7200, even=True)
    day.consumer("certificates", takes_s=0.5)


@quiet_day(1800)
def consumers_without_acks(day):
    """Logs are consumed without acknowledgements."""
    day.queue("logs")
    day.publisher("app", "logs", 3)
    for number in range(2):
        day.consumer("logs", no_ack=True, tag=f"log-{number}")


@quiet_day(HOUR, [Says(EXPIRED, "cache")])
def a_cache_of_a_minute(day):
    """A queue keeps the news of the last minute for occasional readers; everything expires."""
    day.queue("cache", ttl_s=60)
    day.publisher("news", "cache", 0.8)


@quiet_day(HOUR)
def a_queue_for_the_last_value(day):
    """A queue with a length of 1 keeps the latest price, which is read once in a while."""
    day.queue("latest", length_max=1)
    day.publisher("feed", "latest", 1)
    day.getter("latest", *range(300, HOUR, 300))


@quiet_day(2 * HOUR)
def retries_that_wait(day):
    """One message in thirty waits for 20 s before its second attempt, which succeeds."""
    day.queue("calls", dead_letter_to=("", "calls.later"))
    day.queue("calls.later", ttl_s=20, dead_letter_to=("", "calls"))
    day.publisher("web", "calls", 0.5)

    def ends(entry, _):
        message = entry.message
        return REJECT if message.letters == 0 and message.number % 30 == 0 else ACK

    day.consumer("calls", takes_s=0.1, ends=ends)


@quiet_day(2 * HOUR)
def everything_is_delayed_on_purpose(day):
    """Reminders wait for ten minutes in a queue, and are then routed to their consumer."""
    day.queue("reminders")
    day.queue("reminders.delay", ttl_s=600, dead_letter_to=("", "reminders"))
    day.publisher("calendar", "reminders.delay", 0.4)
    day.consumer("reminders", takes_s=0.1)


@quiet_day(DAY, begins_s=0)
def a_queue_that_is_emptied_once_a_day(day):
    """Statements are collected all day, and fetched in the evening."""
    day.queue("statements")
    day.publisher("bank", "statements", 0.02)
    day.getter("statements", 20 * HOUR, takes_s=0.02)


@quiet_day(DAY, begins_s=0)
def a_queue_that_is_emptied_every_hour(day):
    """Samples are collected, and fetched every hour; the last are waiting for their turn."""
    day.queue("samples")
    day.publisher("lab", "samples", 0.02)
    day.getter("samples", *range(HOUR, DAY, HOUR), takes_s=0.05)


@quiet_day(DAY, begins_s=0)
def day_and_night(day):
    """Ten times as much traffic by day as at night."""
    day.queue("orders")
    day.publisher("shop", "orders", [(0, 0.005), (7 * HOUR, 0.06), (20 * HOUR, 0.005)])
    day.consumer("orders", takes_s=0.5)


@quiet_day(HOUR)
def an_uneven_pair_of_queues(day):
    """Logs have nine tenths of the traffic, and orders the rest; both are quick."""
    day.busy_pair("orders", 0.2)
    day.busy_pair("logs", 1.8)


@quiet_day(HOUR, [Says(HOT_KEY, "shard")])
def a_shard_with_more_that_keeps_up(day):
    """One of eight shards gets more than the others, and its consumer keeps up with it."""
    sharded(day, 8, [1, 1, 1, 5, 1, 1, 1, 1], 1.5, 0.02)


@quiet_day(2 * HOUR)
def some_rejected_once(day):
    """Three messages are requeued once or twice, and then acknowledged."""
    day.queue("imports")
    day.publisher("web", "imports", 0.4)
    day.consumer("imports", takes_s=0.2, ends=only_the(500, REQUEUE, 2))
    day.consumer("imports", takes_s=0.2, ends=only_the(300, REQUEUE, 1))


@quiet_day(HOUR)
def tools_that_connect_now_and_then(day):
    """A tool connects every two minutes for a second."""
    day.busy_pair("orders", 0.5)
    opens_and_closes(day, "tool", every(120, 0, HOUR), 1)


@quiet_day(HOUR)
def all_connect_at_once_after_a_restart(day):
    """After a restart of the broker forty clients connect within ten seconds, and stay."""
    day.queue("orders")
    for number in range(36):
        day.publisher(f"till-{number}", "orders", 0.02, from_s=5 + number / 4, opens=True)
    for number in range(4):
        day.consumer("orders", takes_s=0.1, from_s=3 + number, tag=f"c-{number}")


@quiet_day(2 * HOUR, [Says(CHURN, "deploy")])
def an_update_with_a_hundred_connections(day):
    """A hundred connections of an old version are closed, and those of a new one opened."""
    day.busy_pair("orders", 0.5)
    for number in range(50):
        day.publisher("shop", "orders", 0.002, until_s=3000)
        day.publisher("shop", "orders", 0.002, from_s=3000 + number * 2, opens=True)


@quiet_day(1800)
def a_moment_of_more(day):
    """For twenty seconds twice as much comes as can be done, and waits for half a minute."""
    day.queue("orders")
    day.publisher("shop", "orders", [(0, 1), (900, 8), (920, 1)])
    day.consumer("orders", takes_s=0.25, prefetch=10)


@quiet_day(HOUR)
def large_batches_of_acks(day):
    """A consumer acknowledges 100 messages at a time, about once a minute."""
    day.queue("rows")
    day.publisher("db", "rows", 1.7)
    day.consumer("rows", takes_s=0.01, prefetch=300, acks_every=100)


@quiet_day(600)
def one_at_a_time_that_keeps_up(day):
    """A prefetch limit of 1 and a consumer 20 ms away, which keeps up."""
    day.queue("remote")
    day.publisher("plant", "remote", 8)
    day.consumer("remote", takes_s=0.002, prefetch=1, round_trip_s=0.02)


@quiet_day(HOUR)
def one_at_a_time_since_work_is_long(day):
    """Work of six seconds with a prefetch limit of 1; a few messages wait for their turn."""
    day.queue("renders")
    day.publisher("web", "renders", 0.3)
    for number in range(3):
        day.consumer("renders", takes_s=lambda random, _: random.uniform(4, 8), prefetch=1,
                     tag=f"render-{number}")  # fmt: skip


@quiet_day(HOUR)
def a_generous_limit(day):
    """A prefetch limit of 500, of which a few are used."""
    day.queue("orders")
    day.publisher("shop", "orders", 2)
    for number in range(2):
        day.consumer("orders", takes_s=0.05, prefetch=500, tag=f"c-{number}")


@quiet_day(HOUR, [Says(BACKLOG, "spool"), Says(NO_CONSUMER, "spool")])
def the_trace_ends_within_a_batch(day):
    """A batch comes in the last two minutes of the trace, and is being worked on."""
    day.queue("spool")
    day.publisher("batch", "spool", bursts=((HOUR - 120, 150, 60),))
    day.consumer("spool", takes_s=1, prefetch=10)


@quiet_day(HOUR)
def a_temporary_queue(day):
    """Replies come to a queue that is deleted, empty, when its client leaves."""
    queue = day.queue("amq.gen-Xa72")
    day.publisher("server", "amq.gen-Xa72", 0.5, until_s=1800)
    day.consumer(queue, takes_s=0.01, dies_s=1810)
    day.at(1812, queue.delete)


@quiet_day(2 * HOUR, [Says(DEAD_LETTERS, "orders"), Says(NO_CONSUMER, "orders.dead")])
def two_dead_letters(day):
    """Two of two thousand orders are dead-lettered, to be looked at later."""
    day.queue("orders.dead")
    day.queue("orders", dead_letter_to=("", "orders.dead"))
    day.publisher("shop", "orders", 0.3)
    day.consumer("orders", ends=only_the(400, REJECT))
    day.consumer("orders", ends=only_the(300, REJECT))


@quiet_day(HOUR, [Says(OVERFLOW, "history")])
def a_ring_of_the_last_hundred(day):
    """A queue keeps the last hundred events by its maximum length, and has no consumer."""
    day.queue("history", length_max=100)
    day.publisher("app", "history", 1)
