"""Aggregates of an afternoon in which a consumer stops acknowledging, with many other problems."""

from leveret.analytics.findings.finding import BACKLOG, Finding, Queue, Severity
from leveret.analytics.formatting import MINUTE_US
from leveret.analytics.report.aggregates import (
    Aggregates,
    Anomaly,
    Edge,
    QueueSeries,
    ReportedConsumer,
    Size,
)

BEGINS_US = 1_772_366_400_000_000
"""2026-03-01 12:00:00 UTC."""
MINUTES = 240
STALL = 125
"""The minute that begins at 14:05."""
ORDERS = Queue("/", "orders")


def minute(number):
    """Return the start of a minute, in microseconds since 1970."""
    return BEGINS_US + number * MINUTE_US


def empty():
    """An afternoon without events."""
    return Aggregates(
        begins_us=BEGINS_US,
        ends_us=minute(MINUTES),
        step_us=MINUTE_US,
        heat_begins_us=BEGINS_US,
        column_us=2 * MINUTE_US,
        vhosts=["/"],
        nodes=["n"],
    )


def consumer(tag, *, last_ack, queue=ORDERS, unacknowledged=0, median_us=3_000, delivered=1_000):
    """A consumer whose last acknowledgement was in a given minute."""
    last_us = None if last_ack is None else minute(last_ack)
    return ReportedConsumer(
        queue, f"10.0.0.1:4000{len(tag)} -> 10.0.0.9:5672", tag, delivered, 0,
        delivered - unacknowledged, unacknowledged, median_us, minute(0), minute(MINUTES - 1),
        last_us,
    )  # fmt: skip


def series(queue=ORDERS, wait=lambda step: 12_000, came=lambda step: 600):
    """A queue with values for each minute."""
    made = QueueSeries(queue)
    for step in range(MINUTES):
        made.came[step] = made.delivered[step] = made.acknowledged[step] = came(step)
        made.wait_max_us[step], made.hold_max_us[step] = wait(step), 5_000
        made.ready[step], made.unacked[step] = 3, 1
    return made


def stalled(until=180):
    """Messages of `orders` wait for 4 s from 14:05 to 15:00."""
    data = empty()
    slow = lambda step: 4_000_000 if STALL <= step < until else 12_000  # noqa: E731
    data.queues = [series(wait=slow)]
    data.consumers = [
        consumer("ctag-7", last_ack=STALL - 1, unacknowledged=250),
        consumer("ctag-1", last_ack=MINUTES - 1),
    ]
    return data


def afternoon():
    """All problems, with malicious names."""
    data = stalled()
    hostile = Queue("/", "</title><script>document.title='owned'</script>\x1b[2J")
    backlog = series(Queue("/", "audit"))
    backlog.ready = {step: 10 + step * 50 for step in range(MINUTES)}
    backlog.ready_at_end = backlog.ready[MINUTES - 1]
    data.queues += [backlog, series(hostile, came=lambda step: 20 + step % 7)]
    data.queues_total = 3
    for step in range(MINUTES):
        data.came[step] = data.delivered[step] = data.acknowledged[step] = 1_200 + step % 90
        data.acknowledged[step] -= 250 if step >= STALL else 0
    for queue in (None, *(one.queue for one in data.queues)):
        data.heat[queue] = {
            (column, 2**bound): 3 ** min(8, 22 - bound)
            for column in range(MINUTES // 2)
            for bound in range(10, 15 if column < STALL // 2 else 23)
        }
    data.events = {"publish": 300_000, "deliver": 300_000, "ack": 250_000}
    data.outcomes = {
        (ORDERS, "acknowledged", None): 140_000, (ORDERS, "expired", None): 12,
        (ORDERS, "dropped", "purge"): 7,
    }  # fmt: skip
    data.anomalies = [Anomaly(minute(30), 9.1, "queue orders: delivered 3 where 600 is usual")]
    data.sizes = [Size(0, 3), Size(1024, 900), Size(1 << 20, 40)]
    data.churn = {40: 300}
    data.topology = [
        Edge("/", "user", "shop", "exchange", "orders", None, 150_000),
        Edge("/", "exchange", "orders", "queue", "orders", None, 144_000),
        Edge("/", "exchange", "orders", "queue", "audit", None, 144_000),
        Edge("/", "exchange", "orders", "queue", hostile.name, None, 6_000),
        Edge("/", "queue", "orders", "consumer", "ctag-7 10.0.0.1:40006", None, 60_000),
        Edge("/", "queue", "orders", "consumer", "ctag-1 10.0.0.1:40006", None, 80_000),
        Edge("/", "queue", "orders", "exchange", "dlx", "rejected", 40),
        Edge("/", "exchange", "dlx", "queue", "graveyard", "rejected", 28),
    ]
    return data


def told():
    """Findings of that afternoon, with a malicious name."""
    return [
        Finding(
            BACKLOG, Severity.BAD, "/", ("orders",), "queue <b>orders</b>: more came than left",
            "12 messages waited.", "Add consumers.", "table queue_activity", minute(STALL),
        ),
        Finding(BACKLOG, Severity.NOTE, "/", ("audit",), "queue audit: a few are waiting"),
    ]  # fmt: skip
