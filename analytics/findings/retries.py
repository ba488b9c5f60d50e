"""Finds messages that are delivered again and again, and what becomes of them. Pure."""

from collections.abc import Collection, Iterator, Sequence

from leveret.analytics.findings.changes import first_step
from leveret.analytics.findings.evidence import (
    ACTIVITY_US,
    Circling,
    DeadLetterFlow,
    Evidence,
    Poison,
    QueueSteps,
    SeenConsumer,
    between,
)
from leveret.analytics.findings.finding import (
    CIRCLE,
    OUT_OF_ORDER,
    POISON,
    Finding,
    Queue,
    Severity,
    of_table,
)
from leveret.analytics.findings.trait import REQUEUED, in_common
from leveret.analytics.formatting import duration, listed, plural, shown

MOST, GOOD_MIN, NAMED_MAX = 0.9, 10, 3
OUT_OF_ORDER_MIN = 5
READY_MIN = 10
STORM_TIMES, STORM_STEPS_MIN = 5, 12
"""How much more often messages go round than before, and steps in which this is seen."""
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
            words = (
                f"Message {worst.message}{identity} of {data.named(queue)} {often} {period}:"
                f" {FATES[worst.fate]}"
            )
        else:
            words = (
                f"{messages:,} messages of {data.named(queue)} were delivered {deliveries:,} times"
                f" {period}: {outcomes}. Message {worst.message}{identity} {often}"
            )
        yield Finding(
            POISON, Severity.BAD if is_open or lost else Severity.WARNING, queue.vhost,
            (queue.name,), f"{words}{in_common(data.traits.get((queue, REQUEUED), ()))}",
            f"Each delivery is wasted work of {_consumers(data, queue)}.",
            "Reject such a message without requeue after some attempts, to a queue with a"
            " dead-letter exchange, and look at its body.",
            f"leveret journey TRACE_DIR {worst.message}; {of_table('poison', queue)}",
            since_us, until_us, deliveries,
        )  # fmt: skip


def _consumers(data: Evidence, queue: Queue) -> str:
    own = [one for one in data.consumers if one.queue == queue and one.tag]
    busy = [one for one in own if one.sent_back] or own
    tags = [shown(one.tag) for one in busy]
    return listed(list(dict.fromkeys(tags))[:3]) or "a consumer"


def _who_requeues(data: Evidence, queue: Queue) -> tuple[str, str]:
    """Name the consumers that requeue, and those that do not and acknowledge."""
    own = [one for one in data.consumers if one.queue == queue]
    total = sum(one.sent_back for one in own)
    guilty = sorted((one for one in own if one.sent_back), key=lambda one: -one.sent_back)
    if guilty and guilty[0].sent_back >= MOST * total:
        guilty = guilty[:1]
    good = [one for one in own if one not in guilty and one.acknowledged >= GOOD_MIN
            and one.sent_back < 0.1 * one.settled]  # fmt: skip
    tags = [shown(one.tag or "basic.get") for one in guilty]
    if not tags or len(tags) > NAMED_MAX:
        return "Consumers", ""
    who = f"Consumer{'s' if len(tags) > 1 else ''} {listed(tags)}"
    if len(guilty) == 1:
        who += f" on {shown(guilty[0].connection)}"
    others = listed([
        f"{shown(one.tag or 'basic.get')} acknowledged {one.acknowledged:,} of {one.delivered:,}"
        for one in good[:NAMED_MAX]
    ])  # fmt: skip
    return who, f"; {others}" if others else ""


def _order(data: Evidence, queue: Queue) -> str:
    """Say that messages come in another order than they were published in."""
    moved = sum(one.out_of_order for one in data.consumers if one.queue == queue)
    if moved < OUT_OF_ORDER_MIN:
        return ""
    return f" {plural(moved, 'message')} came after later ones, out of order."


def out_of_order(data: Evidence, told: Collection[Queue]) -> Iterator[Finding]:
    """Yield a finding for each queue whose requeued messages came after later ones.

    told: queues of which another finding says so.
    """
    by_queue: dict[Queue, list[SeenConsumer]] = {}
    for one in data.consumers:
        if one.out_of_order and one.queue not in told:
            by_queue.setdefault(one.queue, []).append(one)
    for queue, consumers in by_queue.items():
        moved = sum(one.out_of_order for one in consumers)
        if moved < OUT_OF_ORDER_MIN:
            continue
        span = data.spans[queue.vhost]
        since_us = min(one.back_first_us or span.ends_us for one in consumers)
        last_us = max(one.back_last_us or 0 for one in consumers) + ACTIVITY_US
        until_us = None if span.ends_us - last_us <= 3 * span.step_us else last_us
        who, _ = _who_requeues(data, queue)
        yield Finding(
            OUT_OF_ORDER, Severity.WARNING, queue.vhost, (queue.name,),
            f"{who} of {data.named(queue)} requeued {plural(moved, 'message')} while holding later"
            f" ones {data.period(queue.vhost, since_us, until_us)}, so that messages were delivered"
            f" out of order",
            f"Messages from {data.senders(queue) or 'a publisher'} came after messages published"
            " later: an older state may replace a newer one.",
            "Where order matters, hold one message at a time (a prefetch limit of 1) in a single"
            " active consumer, or reject without requeue into a queue for retries.",
            of_table("consumer_activity", queue, ", columns sent_back and out_of_order"),
            since_us, until_us, moved,
        )  # fmt: skip


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
    storm, span = _storm(data, worst), data.spans[vhost]
    begun_us = since_us if storm is None else span.time_of(storm)
    often = "" if storm is None else f"; since {data.clock(vhost, begun_us)} much more often"
    return Finding(
        CIRCLE, Severity.BAD, vhost, tuple(names),
        f"{plural(worst.messages, 'message')} of {data.named(worst.queue)} go round in circles"
        f" through {through}, one of them {worst.visits_max:,} times,"
        f" about every {duration(round_us)}, {data.period(vhost, since_us, None)}"
        f" until {data.clock(vhost, last_us)}{often}",
        f"{worst.visits:,} attempts, none of which succeeded, kept"
        f" {_consumers(data, worst.queue)} busy.",
        "Count attempts with the x-death header, and park a message after some of them.",
        f"leveret journey TRACE_DIR {worst.message}; table dead_letter_paths, hops",
        begun_us, None, worst.visits,
    )  # fmt: skip


def _behind(steps: QueueSteps, since_us: int, until_us: int | None) -> str:
    """Say how many messages wait behind those that are delivered again, if any do."""
    most = max(between(steps, steps.ready_max, since_us, until_us), default=0)
    return f", and up to {most:,} wait behind them" if most >= READY_MIN else ""


def _storm(data: Evidence, worst: Circling) -> int | None:
    """Return the step since which messages go round much more often than before, if they do."""
    steps = data.queues.get(worst.queue)
    if steps is None:
        return None
    span = steps.span
    first = max(1, (worst.first_us - span.begins_us) // span.step_us)
    last = (worst.last_us - span.begins_us) // span.step_us
    came = {step: float(steps.came.get(step, 0)) for step in range(first, last)}
    ordered = sorted(came.values())
    if len(ordered) < STORM_STEPS_MIN:
        return None
    few, many = ordered[len(ordered) // 5], ordered[-len(ordered) // 5]
    if many < STORM_TIMES * max(1.0, few):
        return None
    return first_step(came, (few + many) / 2, grows=True)


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
    named = (
        f"; message {worst.message} was delivered {worst.deliveries_max:,} times" if worst else ""
    )
    named += in_common(data.traits.get((queue, REQUEUED), ()))
    who, others = _who_requeues(data, queue)
    return Finding(
        CIRCLE, Severity.WARNING, queue.vhost, (queue.name,),
        f"{who} of {data.named(queue)} requeued {total:,} of {delivered:,} deliveries"
        f" {data.period(queue.vhost, since_us, until_us)}{others}{named}",
        f"The same messages are delivered again and again, at once"
        f"{_behind(steps, since_us, until_us)}.{_order(data, queue)}",
        "Wait before the next attempt: reject without requeue to a queue with a TTL whose"
        " dead letters come back.",
        f"{of_table('redeliveries', queue)}; table poison", since_us, until_us, total,
    )  # fmt: skip
