"""Finds when the waiting time of a queue rose, and the likely cause at that time. Pure."""

from collections.abc import Sequence
from statistics import median
from typing import NamedTuple

from leveret.analytics.formatting import shown
from leveret.analytics.report.aggregates import Aggregates, Consumer, Queue, QueueSeries

TIMES, MORE_US = 4, 50_000
"""A wait has risen if it is at least TIMES the earlier wait, and MORE_US longer."""
BEFORE_STEPS, AFTER_STEPS = 60, 3
"""Steps compared before and after. Medians are used, so that a single minute is not a rise."""
BEFORE_STEPS_MIN = 3
CAUSE_STEPS = 3
"""A cause is at most this many steps away."""


class Rise(NamedTuple):
    """A rise of a queue's p99 wait. step: its first step. last_step: the step after it; None: none.

    before_us, peak_us: the p99 waits. consumer: the tag of the consumer that caused it.
    """

    queue: Queue
    step: int
    last_step: int | None
    before_us: int
    peak_us: int
    cause: str
    advice: str
    consumer: str | None = None


def rises(data: Aggregates) -> list[Rise]:
    """Return the first rise of each queue."""
    return [rise for series in data.queues if (rise := _rise(data, series)) is not None]


def _rise(data: Aggregates, series: QueueSeries) -> Rise | None:
    steps = sorted(series.wait_p99_us)
    waits = [series.wait_p99_us[step] for step in steps]
    at = onset(waits)
    if at is None:
        return None
    before = int(median(waits[max(0, at - BEFORE_STEPS) : at]))
    over = next(
        (index for index in range(at, len(waits)) if not is_risen(before, waits[index])), None
    )
    peak = max(waits[at:over])
    step, last_step = steps[at], None if over is None else steps[over]
    consumer = _stopped(data, series.queue, step)
    if consumer is not None:
        cause, advice = _blame(consumer)
        return Rise(series.queue, step, last_step, before, peak, cause, advice, consumer.tag)
    cause, advice = _more_published(data, series, step)
    return Rise(series.queue, step, last_step, before, peak, cause, advice)


def is_risen(before_us: float, after_us: float) -> bool:
    """Tell whether the second wait is so much longer that it matters."""
    return after_us >= TIMES * before_us and after_us - before_us >= MORE_US


def onset(waits: Sequence[int]) -> int | None:
    """Return the index at which waits rise and stay high for some steps; None if they do not."""
    for at in range(BEFORE_STEPS_MIN, len(waits)):
        before = median(waits[max(0, at - BEFORE_STEPS) : at])
        after = waits[at : at + AFTER_STEPS]
        has_begun = is_risen(before, waits[at]) and not is_risen(before, waits[at - 1])
        if has_begun and is_risen(before, median(after)):
            return at
    return None


# Causes


def _stopped(data: Aggregates, queue: Queue, step: int) -> Consumer | None:
    """Return the consumer of the queue whose last activity was near a step."""
    near = [
        (abs(data.step_of(_last_work(one)) - step), one)
        for one in data.consumers
        if one.queue == queue and data.ends_us - _last_work(one) > CAUSE_STEPS * data.step_us
    ]
    near = [pair for pair in near if pair[0] <= CAUSE_STEPS]
    # Prefer a consumer that still holds messages to one that only left.
    return min(near, key=lambda pair: (not pair[1].unacknowledged, pair[0]))[1] if near else None


def _last_work(consumer: Consumer) -> int:
    return consumer.last_ack_us or consumer.last_delivery_us


def _blame(consumer: Consumer) -> tuple[str, str]:
    who = "a client of basic.get" if consumer.tag is None else f"consumer {shown(consumer.tag)}"
    if consumer.unacknowledged:
        held = f"{consumer.unacknowledged:,}"
        advice = (
            f"It holds {held} unacknowledged: check what {shown(consumer.connection)} is doing;"
            " closing that connection requeues them."
        )
        return f"{who} stopped acknowledging", advice
    return f"{who} received no more messages", (
        f"Find out why the client {shown(consumer.connection)} ended, and restart it."
    )


def _more_published(data: Aggregates, series: QueueSeries, step: int) -> tuple[str, str]:
    before = [series.came.get(one, 0) for one in range(max(0, step - 10), step - 1)]
    after = [series.came.get(one, 0) for one in range(step - 1, step + CAUSE_STEPS)]
    if before and median(before) * 2 <= max(after) and max(after) > 0:
        seconds = data.step_us / 1e6
        then, now = median(before) / seconds, max(after) / seconds
        cause = f"publishing to it rose from {then:,.1f} to {now:,.1f} messages per second"
        return cause, "Add consumers, or slow down the publishers."
    return "", "See the heat map and the queue's consumers."
