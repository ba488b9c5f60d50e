"""Finds consumers that stall, that are slow, and that hold too many messages. Pure.

A stall is a pause far longer than is usual in the queue, whatever a message usually takes there.
The time of a message is the time that consumers are busy, divided by the messages that they settle:
a queue that fills does not make it longer.
"""

from collections.abc import Iterator, Sequence
from statistics import median

from leveret.analytics.findings.changes import size_of
from leveret.analytics.findings.evidence import (
    ConsumerPause,
    Evidence,
    QueueSteps,
    SeenConsumer,
    between,
)
from leveret.analytics.findings.finding import (
    PREFETCH_HIGH,
    SLOW,
    STALLED,
    Finding,
    Queue,
    Severity,
    of_table,
)
from leveret.analytics.formatting import (
    MINUTE_US,
    SECOND_US,
    amount,
    duration,
    listed,
    plural,
    shown,
)

PAUSE_MIN_US, PAUSE_TIMES = 15 * SECOND_US, 5
HOLD_MIN_US, HOLD_TIMES = MINUTE_US, 10
SLOW_TIMES, SLOW_MIN_US = 5, 50_000
SIZE_TIMES = 2
"""Messages that are so much larger explain why they take longer."""
PEER_TIMES, PEER_MIN_US, SETTLED_MIN = 5, 20_000, 20
SLOW_STEPS_MIN, SLOW_SHARE_MIN = 6, 0.05
"""Steps, and part of the steps with settlements, for which a queue must be slower."""
HELD_MIN, IN_HAND_MIN_US = 50, 2 * MINUTE_US
"""Messages that a consumer holds, and how long they take it, to be too many."""


def stalled(data: Evidence) -> Iterator[Finding]:
    """Yield a finding for each queue whose consumers stall, and each time at which they do."""
    by_queue: dict[Queue, list[ConsumerPause]] = {}
    for pause in [*data.pauses, *_unfinished(data)]:
        by_queue.setdefault(pause.queue, []).append(pause)
    for queue, pauses in by_queue.items():
        whole = [one for one in pauses if not one.is_one]
        alone = [one for one in pauses if one.is_one and not _overlaps(data, one, whole)]
        for group in (whole, alone):
            if group:
                yield _stall(data, queue, group)


def _unfinished(data: Evidence) -> Iterator[ConsumerPause]:
    """Yield pauses of consumers that hold messages for unusually long when the trace ends."""
    for one in data.consumers:
        if not one.unacknowledged or one.oldest_us is None or one.queue not in data.queues:
            continue
        ends_us, usual = data.ends_us(one.queue.vhost), data.usual.get(one.queue)
        usual_pause, usual_hold = (0, 0) if usual is None else usual
        since_us = max(one.mark_us or 0, one.oldest_us)
        who = (one.queue, one.connection, one.tag)
        if ends_us - since_us >= max(PAUSE_MIN_US, PAUSE_TIMES * usual_pause):
            yield ConsumerPause(*who, one.mark_us or one.oldest_us, None, one.unacknowledged)
        elif (
            ends_us - one.oldest_us >= max(HOLD_MIN_US, HOLD_TIMES * usual_hold)
            and one.settled_since >= 3 * one.unacknowledged
        ):
            yield ConsumerPause(*who, one.oldest_us, None, one.unacknowledged, is_one=True)


def _overlaps(data: Evidence, pause: ConsumerPause, others: Sequence[ConsumerPause]) -> bool:
    ends_us = data.ends_us(pause.queue.vhost)
    until_us = pause.until_us or ends_us
    return any(
        one.since_us <= until_us and pause.since_us <= (one.until_us or ends_us) for one in others
    )


def _stall(data: Evidence, queue: Queue, pauses: Sequence[ConsumerPause]) -> Finding:
    vhost, ends_us = queue.vhost, data.ends_us(queue.vhost)
    longest = max(pauses, key=lambda one: (one.until_us or ends_us) - one.since_us)
    first = min(pauses, key=lambda one: one.since_us)
    # Pauses that overlap are one event; others are the same event again.
    times = len(_separate(pauses, ends_us))
    told = longest if times == 1 else first
    is_over = all(one.until_us is not None for one in pauses)
    until_us = max(one.until_us or ends_us for one in pauses) if is_over else None
    lasted_us = (longest.until_us or ends_us) - longest.since_us
    tags = list(dict.fromkeys(_tag(one.tag) for one in pauses))
    more = f" and {len(tags) - 4} more" if len(tags) > 4 else ""
    who = f"Consumer{'s' if len(tags) > 1 else ''} {listed(tags[:4])}{more}"
    held = max(one.held for one in pauses)
    since = data.period(vhost, told.since_us, told.until_us)
    if longest.is_one:
        words = (
            f"{who} of {data.named(queue)} kept {plural(held, 'message')} {since} and settled"
            " others meanwhile"
        )
    else:
        begun = "stopped acknowledging" if told.until_us is None else "acknowledged nothing"
        at = since.replace("since ", "at ", 1) if told.until_us is None else since
        words = (
            f"{who} of {data.named(queue)} {begun} {at}, for"
            f" {duration((told.until_us or ends_us) - told.since_us)}, while holding"
            f" {plural(held, 'message')}{_waits_now(data, queue, is_over)}"
        )
    if times > 1:
        words += f"; {times} times in all, for up to {duration(lasted_us)}"
    return Finding(
        STALLED, Severity.BAD if lasted_us >= MINUTE_US else Severity.WARNING, vhost, (queue.name,),
        words, _hurt(data, queue, longest),
        f"Find out what it waited for: a database, a lock, a call without a timeout. Closing"
        f" {shown(longest.connection)} requeues what it holds, and consumer_timeout does so by"
        " itself.",
        of_table("consumer_activity", queue, ", columns pause_us and held; table fates"),
        told.since_us, until_us, lasted_us,
    )  # fmt: skip


def _waits_now(data: Evidence, queue: Queue, is_over: bool) -> str:
    steps = data.queues.get(queue)
    ready = steps.ready[max(steps.ready)] if steps is not None and steps.ready else 0
    return f"; {ready:,} wait in the queue" if ready and not is_over else ""


def _separate(pauses: Sequence[ConsumerPause], ends_us: int) -> list[int]:
    """Return when pauses begin that do not overlap an earlier one."""
    begun: list[int] = []
    until_us = 0
    for one in sorted(pauses, key=lambda one: one.since_us):
        if one.since_us > until_us:
            begun.append(one.since_us)
        until_us = max(until_us, one.until_us or ends_us)
    return begun


def _hurt(data: Evidence, queue: Queue, pause: ConsumerPause) -> str:
    steps = data.queues.get(queue)
    if steps is None:
        return ""
    came = sum(between(steps, steps.came, pause.since_us, pause.until_us))
    waited_us = steps.longest_wait_us(pause.since_us, pause.until_us)
    behind = max(between(steps, steps.ready_max, pause.since_us, pause.until_us), default=0)
    words = f"{plural(came, 'message')} came meanwhile{_from(data, queue)}"
    if behind:
        words += f", and up to {behind:,} waited behind it"
    return words + (f", up to {duration(waited_us)}." if waited_us > SECOND_US else ".")


def _from(data: Evidence, queue: Queue) -> str:
    users = data.senders(queue)
    return f" from {users}" if users else ""


def _tag(tag: str | None) -> str:
    return "(basic.get)" if tag is None else shown(tag)


# Slow consumers


def slow(data: Evidence) -> Iterator[Finding]:
    """Yield a finding for each queue with a consumer slower than others, or slower than before."""
    by_queue: dict[Queue, list[SeenConsumer]] = {}
    for one in data.consumers:
        if one.work_us is not None and one.settled >= SETTLED_MIN:
            by_queue.setdefault(one.queue, []).append(one)
    for queue, consumers in by_queue.items():
        found = _slower_than_others(data, queue, consumers)
        if found is None and queue in data.queues:
            found = _slower_than_before(data, data.queues[queue])
        if found is not None:
            yield found


def _slower_than_others(
    data: Evidence, queue: Queue, consumers: list[SeenConsumer]
) -> Finding | None:
    if len(consumers) < 2:
        return None
    ordered = sorted(consumers, key=lambda one: (one.work_us or 0, one.connection))
    slowest, others = ordered[-1], ordered[:-1]
    quick_us = int(median(one.work_us or 0 for one in others))
    slow_us = slowest.work_us or 0
    if slow_us < max(PEER_TIMES * quick_us, PEER_MIN_US):
        return None
    vhost = queue.vhost
    # Consumers that served the queue at other times are no measure.
    at_once = [one for one in others if one.first_us < slowest.last_us
               and slowest.first_us < one.last_us]  # fmt: skip
    if not at_once:
        return None
    share = slowest.settled / max(1, sum(one.settled for one in consumers))
    return Finding(
        SLOW, Severity.WARNING, vhost, (queue.name,),
        f"Consumer {_tag(slowest.tag)} of {data.named(queue)} takes {duration(slow_us)} for a"
        f" message, and the other {len(others)} take {duration(quick_us)},"
        f" {data.period(vhost, slowest.first_us, None)}",
        f"It got {share:.0%} of the messages, each of which was that much later"
        f"{_from(data, queue)}.",
        f"Compare the machine, version and settings of {shown(slowest.connection)} with the others;"
        " a prefetch limit of 1 gives it less.",
        of_table("consumers", queue, "; table consumer_activity, busy_us / settled"),
        slowest.first_us, None, slow_us / max(1, quick_us),
    )  # fmt: skip


def _slower_than_before(data: Evidence, steps: QueueSteps) -> Finding | None:
    worked = sorted(step for step, count in steps.settled.items() if count)
    if len(worked) < 2 * SLOW_STEPS_MIN:
        return None
    work = [steps.busy_us.get(step, 0) / steps.settled[step] for step in worked]
    holds = [steps.hold_p50_us.get(step, 0) for step in worked]
    run = _longest_run(work, holds)
    if run is None or run[1] - run[0] < max(SLOW_STEPS_MIN, SLOW_SHARE_MIN * len(worked)):
        return None
    first, last = run
    before_us, after_us = _usual(work), median(work[first:last])
    vhost, span = steps.queue.vhost, steps.span
    since_us = span.time_of(worked[first])
    until_us = None if last == len(worked) else span.time_of(worked[last])
    came = sum(between(steps, steps.came, since_us, until_us))
    cause, advice = _why_slower(data, steps, worked[first], worked[last - 1])
    return Finding(
        SLOW, Severity.WARNING, vhost, (steps.queue.name,),
        f"Consumers of {data.named(steps.queue)} take {duration(int(after_us))} for a message"
        f" {data.period(vhost, since_us, until_us)}, and usually {duration(int(before_us))}{cause}",
        f"{plural(came, 'message')} came in this time{_from(data, steps.queue)}; the longest wait"
        f" was {duration(steps.longest_wait_us(since_us, until_us))}.",
        advice,
        of_table("consumer_activity", steps.queue, ", busy_us / settled and hold_p50_us"),
        since_us, until_us, after_us / max(1, before_us),
    )  # fmt: skip


def _why_slower(data: Evidence, steps: QueueSteps, first: int, last: int) -> tuple[str, str]:
    """Return what the time of a message follows, in words, and what to do about it."""
    sizes = {step: size for step in range(last + 1) if (size := size_of(steps, step)) is not None}
    before = [size for step, size in sizes.items() if step < first] or [*sizes.values()]
    after = [size for step, size in sizes.items() if step >= first]
    small, large = sorted(before)[len(before) // 4] if before else 0, median(after or [0])
    if large >= SIZE_TIMES * max(1, small):
        return (
            f": messages grew from {amount(small)} to {amount(large)}",
            "Find out who publishes larger messages; keep large bodies elsewhere and send a"
            " reference.",
        )
    begun_us, span = steps.span.time_of(first), steps.span
    begun = [
        one for one in data.consumers if one.queue == steps.queue and one.settled
        and span.begins_us + 2 * span.step_us < one.first_us
        and abs(one.first_us - begun_us) <= 3 * span.step_us
    ]  # fmt: skip
    if begun:
        tags = listed([_tag(one.tag) for one in begun[:3]])
        return (
            f", since consumer {tags} started" if len(begun) == 1 else
            f", since consumers {tags} started",
            f"Compare the version and settings of {tags} with those before.",
        )  # fmt: skip
    return (
        "; messages are as large as before",
        "Look at what changed in the consumers then: an update, or a service that they call.",
    )


def _usual(values: Sequence[float]) -> float:
    """Return the lower quartile, which stays where it is if half of a trace is slow."""
    return sorted(values)[len(values) // 4]


def _longest_run(work: Sequence[float], holds: Sequence[float]) -> tuple[int, int] | None:
    """Return the longest run of steps in which messages take much longer than usual."""
    work_us, hold_us = _usual(work), _usual(holds)
    is_slow = [
        one >= max(SLOW_TIMES * work_us, work_us + SLOW_MIN_US) and held >= 3 * hold_us
        for one, held in zip(work, holds, strict=True)
    ]
    best, begun = None, None
    for index, value in enumerate([*is_slow, False]):
        if value and begun is None:
            begun = index
        elif not value and begun is not None:
            if best is None or index - begun > best[1] - best[0]:
                best = begun, index
            begun = None
    return best


# Messages in hand


def prefetch_high(data: Evidence) -> Iterator[Finding]:
    """Yield a finding for each consumer that holds far more messages than it can handle soon."""
    for one in data.consumers:
        if one.held_max < HELD_MIN or one.settled < HELD_MIN or one.mark_us is None:
            continue
        pace_us = one.work_us or 0
        in_hand_us = one.held_max * pace_us
        if in_hand_us < IN_HAND_MIN_US or (one.hold_max_us or 0) < IN_HAND_MIN_US:
            continue
        others = sum(other.queue == one.queue for other in data.consumers) - 1
        vhost, wanted = one.queue.vhost, max(1, int(10 * SECOND_US / pace_us))
        until_us = None if one.unacknowledged else one.last_us
        helped = (
            f"the {plural(others, 'other consumer')} of the queue could not take them"
            if others else "no other consumer could have taken them"
        )  # fmt: skip
        yield Finding(
            PREFETCH_HIGH, Severity.WARNING, vhost, (one.queue.name,),
            f"Consumer {_tag(one.tag)} of {data.named(one.queue)} held up to {one.held_max:,}"
            f" messages at a time and takes {duration(pace_us)} for each,"
            f" {data.period(vhost, one.first_us, until_us)}",
            f"Messages waited in it for up to {duration(one.hold_max_us or 0)}, and {helped};"
            " they are lost to it until its channel ends.",
            f"Set a prefetch limit: {wanted} would be 10 s of work.",
            of_table("consumer_activity", one.queue, ", columns held_max and hold_max_us"),
            one.first_us, until_us, in_hand_us,
        )  # fmt: skip
