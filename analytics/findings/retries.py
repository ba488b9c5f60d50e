"""Finds messages that are delivered again and again, and what becomes of them. Pure."""

from collections.abc import Iterator, Sequence

from leveret.analytics.findings.evidence import (
    Circling,
    DeadLetterFlow,
    Evidence,
    Poison,
    QueueSteps,
)
from leveret.analytics.findings.finding import (
    CIRCLE,
    POISON,
    Finding,
    Queue,
    Severity,
    of_table,
)
from leveret.analytics.formatting import duration, listed, plural, shown

SENT_BACK_MIN, SENT_BACK_SHARE = 60, 0.3
"""Rejects with requeue, and their part of all deliveries in their time, that make a circle."""

FATES = {
    "acknowledged": "acknowledged in the end",
    "dead_lettered": "dead-lettered",
    "expired": "expired",
    "rejected": "rejected and lost",
    "dropped": "dropped",
    "never_acknowledged": "not acknowledged when the trace ends",
    "never_delivered": "still in the queue when the trace ends",
}


def poison(data: Evidence) -> Iterator[Finding]:
    """Yield a finding for each queue with messages that were delivered too often."""
    by_queue: dict[Queue, list[Poison]] = {}
    for one in data.poison:
        by_queue.setdefault(one.queue, []).append(one)
    for queue, fates in by_queue.items():
        worst = max(fates, key=lambda one: (one.deliveries_max, one.fate))
        since_us, last_us = min(one.first_us for one in fates), max(one.last_us for one in fates)
        messages = sum(one.messages for one in fates)
        deliveries = sum(one.deliveries for one in fates)
        outcomes = listed([f"{one.messages:,} {FATES[one.fate]}" for one in fates])
        is_open = any(one.fate.startswith("never") for one in fates)
        lost = any(one.fate in ("rejected", "expired", "dropped") for one in fates)
        identity = f" (message-id {shown(worst.message_id)})" if worst.message_id else ""
        until_us = None if is_open else last_us
        period = data.period(queue.vhost, since_us, until_us)
        often = f"was delivered {worst.deliveries_max:,} times"
        if messages == 1:
            words = f"message {worst.message}{identity} {often} {period}: {FATES[worst.fate]}"
        else:
            words = (
                f"{messages:,} messages were delivered {deliveries:,} times {period}: {outcomes}."
                f" Message {worst.message}{identity} {often}"
            )
        yield Finding(
            POISON, Severity.BAD if is_open or lost else Severity.WARNING, queue.vhost,
            (queue.name,), f"{data.named(queue)}: {words}",
            f"Each delivery costs {_consumers(data, queue)} work for nothing.",
            "Reject such a message without requeue after some attempts, to a queue with a"
            " dead-letter exchange, and look at its body.",
            f"leveret journey TRACE_DIR {worst.message}; {of_table('poison', queue)}",
            since_us, until_us, deliveries,
        )  # fmt: skip


def _consumers(data: Evidence, queue: Queue) -> str:
    tags = [shown(one.tag) for one in data.consumers if one.queue == queue and one.tag]
    return listed(list(dict.fromkeys(tags))[:3]) or "a consumer"


def circles(data: Evidence) -> Iterator[Finding]:
    """Yield a finding for each circle of dead letters, and of rejects with requeue."""
    yield from _of_dead_letters(data)
    for steps in data.queues.values():
        if found := _of_requeues(data, steps):
            yield found


def _of_dead_letters(data: Evidence) -> Iterator[Finding]:
    told = set[Queue]()
    for one in data.circling:
        if one.queue in told:
            continue
        circle = [
            other for other in data.circling
            if other.queue == one.queue or is_on_a_circle(data.deaths, one.queue, other.queue)
        ]  # fmt: skip
        told |= {other.queue for other in circle}
        yield _dead_letters_circle(data, circle)


def is_on_a_circle(deaths: Sequence[DeadLetterFlow], one: Queue, other: Queue) -> bool:
    """Tell whether dead letters lead from one queue to the other and back."""
    return other in reached(deaths, one) and one in reached(deaths, other)


def reached(deaths: Sequence[DeadLetterFlow], start: Queue) -> set[Queue]:
    """Return the queues that dead letters of a queue reach, directly or by other queues."""
    found, waiting = set[Queue](), [start]
    while waiting:
        queue = waiting.pop()
        for one in deaths:
            if one.queue == queue:
                targets = {Queue(queue.vhost, name) for name in one.targets} - found
                found |= targets
                waiting += sorted(targets)
    return found


def _dead_letters_circle(data: Evidence, circle: Sequence[Circling]) -> Finding:
    worst = max(circle, key=lambda one: (one.messages, one.visits, one.queue))
    vhost, names = worst.queue.vhost, sorted({one.queue.name for one in circle})
    since_us, last_us = min(one.first_us for one in circle), max(one.last_us for one in circle)
    round_us = (worst.last_us - worst.first_us) // max(1, worst.visits_max - 1)
    through = listed([shown(name) for name in names])
    return Finding(
        CIRCLE, Severity.BAD, vhost, tuple(names),
        f"{data.named(worst.queue)}: {plural(worst.messages, 'message')} go round in circles"
        f" through {through}, one of them {worst.visits_max:,} times,"
        f" about every {duration(round_us)}, {data.period(vhost, since_us, None)}"
        f" until {data.clock(vhost, last_us)}",
        f"{worst.visits:,} attempts, none of which succeeded, kept"
        f" {_consumers(data, worst.queue)} busy.",
        "Count attempts with the x-death header, and park a message after some of them.",
        f"leveret journey TRACE_DIR {worst.message}; table dead_letter_paths, hops",
        since_us, None, worst.visits,
    )  # fmt: skip


def _of_requeues(data: Evidence, steps: QueueSteps) -> Finding | None:
    sent_back = {step: count for step, count in steps.sent_back.items() if count}
    total = sum(sent_back.values())
    if total < SENT_BACK_MIN:
        return None
    first, last = min(sent_back), max(sent_back)
    delivered = sum(count for step, count in steps.delivered.items() if first <= step <= last)
    if total < SENT_BACK_SHARE * delivered:
        return None
    queue, span = steps.queue, steps.span
    since_us = span.time_of(first)
    until_us = None if span.steps - last <= 2 else span.time_of(last + 1)
    often = [one for one in data.poison if one.queue == queue]
    worst = max(often, key=lambda one: one.deliveries_max, default=None)
    named = f"; message {worst.message} {worst.deliveries_max:,} times" if worst else ""
    return Finding(
        CIRCLE, Severity.WARNING, queue.vhost, (queue.name,),
        f"{data.named(queue)}: consumers requeued {total:,} of {delivered:,} deliveries"
        f" {data.period(queue.vhost, since_us, until_us)}{named}",
        f"{_consumers(data, queue)} work on the same messages again and again, at once; others"
        " wait behind them.",
        "Wait before the next attempt: reject without requeue to a queue with a TTL whose"
        " dead letters come back.",
        f"{of_table('redeliveries', queue)}; table poison", since_us, until_us, total,
    )  # fmt: skip
