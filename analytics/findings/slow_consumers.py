"""Finds consumers that take much longer for a message than before, or than others. Pure.

The time of a message is the time that consumers are busy, divided by the messages that they settle:
a queue that fills does not make it longer. Consumers are compared with their own past first: some
that became slower while others of the queue did not (paces.py), and all of a queue. Then those that
have always been slow are compared with the others.
"""

from collections.abc import Iterator, Mapping, Sequence
from statistics import median

from leveret.analytics.findings.changes import large_ones, size_of
from leveret.analytics.findings.evidence import (
    ConsumerSteps,
    Evidence,
    QueueSteps,
    SeenConsumer,
    between,
)
from leveret.analytics.findings.finding import SLOW, Finding, Queue, Severity, of_table
from leveret.analytics.findings.paces import (
    NAMED_MAX,
    SLOW_MIN_US,
    SLOW_SHARE_MIN,
    SLOW_STEPS_MIN,
    SLOW_TIMES,
    Slower,
    consumers_shown,
    own_host,
    some_slower,
    tags_shown,
)
from leveret.analytics.findings.slow_kinds import slow_kind
from leveret.analytics.findings.stretches import stretch, usual
from leveret.analytics.formatting import amount, duration, listed, plural, shown

SIZE_TIMES = 2
"""Messages that are so much larger explain why they take longer."""
PEER_TIMES, PEER_MIN_US, SETTLED_MIN = 5, 20_000, 20


def slow(data: Evidence) -> Iterator[Finding]:
    """Yield a finding for each queue with a consumer slower than others, or slower than before."""
    became = {
        queue: slower for queue, consumers in data.consumer_steps.items()
        if queue in data.queues and (slower := some_slower(consumers)) is not None
    }  # fmt: skip
    known: dict[Queue, list[SeenConsumer]] = {}
    for one in data.consumers:
        if one.work_us is not None and one.settled >= SETTLED_MIN:
            known.setdefault(one.queue, []).append(one)
    for queue in {**became, **known}:
        if queue in became:
            yield _some_became(data, queue, became)
        elif (found := _slower_than_others(data, queue, known[queue])) or (
            queue in data.queues and (found := _slower_than_before(data, data.queues[queue]))
        ):
            yield found


def _some_became(data: Evidence, queue: Queue, became: Mapping[Queue, Slower]) -> Finding:
    """Return the finding that some consumers of a queue are slower, and others are not."""
    found, steps = became[queue], data.queues[queue]
    span, vhost = steps.span, queue.vhost
    since_us, is_over = span.time_of(found.first), found.last < span.steps - 2
    until_us = span.time_of(found.last + 1) if is_over else None
    on = own_host(_connections(found.consumers), _connections(found.others))
    connections = listed([shown(one.connection) for one in found.consumers[:2]])
    return Finding(
        SLOW, Severity.WARNING, vhost, (queue.name,),
        f"{consumers_shown([one.tag for one in found.consumers])} of {data.named(queue)}"
        f"{f' on host {shown(on)}' if on else ''} {_take(found.consumers)}"
        f" {duration(found.after_us)} for a message {data.period(vhost, since_us, until_us)},"
        f" instead of the usual {duration(found.before_us)};"
        f" {tags_shown(one.tag for one in found.others)} {_take(found.others)}"
        f" {duration(found.quick_us)} at the same time",
        f"{_taken(data, steps, found)}{_longest_wait(steps, since_us, until_us)}."
        f"{_on_same_host(data, queue, on, became)}",
        f"Look at {f'host {shown(on)}' if on else connections}: find out what else runs there, and"
        " what these consumers call that the others do not.",
        of_table("consumer_activity", queue, ", busy_us / settled by connection"),
        since_us, until_us, found.after_us / max(1, found.before_us),
    )  # fmt: skip


def _connections(consumers: Sequence[ConsumerSteps]) -> list[str]:
    return [one.connection for one in consumers]


def _take(consumers: Sequence[ConsumerSteps]) -> str:
    return "takes" if len({one.tag for one in consumers}) == 1 else "take"


def _taken(data: Evidence, steps: QueueSteps, found: Slower) -> str:
    """Say how many messages came to those that are slower."""
    during = sum(
        count for one in found.consumers for step, count in one.settled.items()
        if found.first <= step <= found.last
    )  # fmt: skip
    came = sum(count for step, count in steps.settled.items() if found.first <= step <= found.last)
    of_senders = _of_senders(data, steps.queue)
    return f"They handled {during:,} of {came:,} messages{of_senders} in this time"


def _on_same_host(data: Evidence, queue: Queue, on: str, became: Mapping[Queue, Slower]) -> str:
    """Name the other queues whose consumers on a host are slower at the same time."""
    if not on:
        return ""
    here = became[queue]
    names = sorted(
        shown(other.name) for other, found in became.items()
        if other != queue and other.vhost == queue.vhost
        and found.first <= here.last and here.first <= found.last
        and own_host(_connections(found.consumers), _connections(found.others)) == on
    )  # fmt: skip
    if not names:
        return ""
    return f" Consumers of {listed(names[:NAMED_MAX])} on this host are slow at the same time."


def _slower_than_others(
    data: Evidence, queue: Queue, consumers: list[SeenConsumer]
) -> Finding | None:
    ordered = sorted(consumers, key=lambda one: (one.work_us or 0, one.connection))
    works = [max(1, one.work_us or 0) for one in ordered]
    # At most half of them are slow: those above the widest gap.
    places = range((len(ordered) + 1) // 2, len(ordered))
    cut = max(places, key=lambda place: works[place] / works[place - 1], default=0)
    others, slow_ones = ordered[:cut], ordered[cut:]
    if not cut or works[cut] < max(PEER_TIMES * median(works[:cut]), PEER_MIN_US):
        return None
    slowest, quick_us, slow_us = slow_ones[-1], int(median(works[:cut])), int(median(works[cut:]))
    # Consumers that served the queue at other times are no measure.
    if not any(one.first_us < slowest.last_us and slowest.first_us < one.last_us for one in others):
        return None
    vhost, since_us = queue.vhost, min(one.first_us for one in slow_ones)
    share = sum(one.settled for one in slow_ones) / max(1, sum(one.settled for one in consumers))
    on = own_host([one.connection for one in slow_ones], [one.connection for one in others])
    is_one = len(slow_ones) == 1
    return Finding(
        SLOW, Severity.WARNING, vhost, (queue.name,),
        f"{consumers_shown([one.tag for one in slow_ones])} of {data.named(queue)}"
        f"{f' on host {shown(on)}' if on else ''} {'takes' if is_one else 'take'}"
        f" {duration(slow_us)} for a message, and the other {len(others)} take"
        f" {duration(quick_us)}, {data.period(vhost, since_us, None)}",
        f"{'It' if is_one else 'They'} got {share:.0%} of the messages{_of_senders(data, queue)},"
        " each of which was done that much later.",
        f"Compare the machine, version and settings of {shown(slowest.connection)} with the others;"
        " a prefetch limit of 1 gives it less.",
        of_table("consumers", queue, "; table consumer_activity, busy_us / settled"),
        since_us, None, slow_us / quick_us,
    )  # fmt: skip


def _slower_than_before(data: Evidence, steps: QueueSteps) -> Finding | None:
    worked = sorted(step for step, count in steps.settled.items() if count)
    if len(worked) < 2 * SLOW_STEPS_MIN:
        return None
    work = [steps.busy_us.get(step, 0) / steps.settled[step] for step in worked]
    holds = [steps.hold_p50_us.get(step, 0) for step in worked]
    least = max(SLOW_STEPS_MIN, int(SLOW_SHARE_MIN * len(worked)))
    run = stretch(_are_slow(work, holds), least)
    if run is None:
        return None
    before_us, after_us = usual(work), median(work[run.first : run.last + 1])
    vhost, span = steps.queue.vhost, steps.span
    first, last = worked[run.first], worked[run.last]
    if _are_sent_back(steps, first, last):
        return None
    since_us = span.time_of(first)
    until_us = None if run.last == len(worked) - 1 else span.time_of(last + 1)
    came = sum(between(steps, steps.came, since_us, until_us))
    cause, advice = _why_slower(data, steps, first, last)
    return Finding(
        SLOW, Severity.WARNING, vhost, (steps.queue.name,),
        f"{_all_of(data, steps.queue, first, last)} take {duration(int(after_us))} for a message"
        f" {data.period(vhost, since_us, until_us)}, instead of the usual"
        f" {duration(int(before_us))}{cause}",
        f"{plural(came, 'message')}{_of_senders(data, steps.queue)} arrived in this time"
        f"{_longest_wait(steps, since_us, until_us)}.",
        advice,
        of_table("consumer_activity", steps.queue, ", busy_us / settled and hold_p50_us"),
        since_us, until_us, after_us / max(1, before_us),
    )  # fmt: skip


def _are_sent_back(steps: QueueSteps, first: int, last: int) -> bool:
    """Tell whether consumers requeue most messages: that is the cause then, and not their work."""
    back = sum(count for step, count in steps.sent_back.items() if first <= step <= last)
    settled = sum(count for step, count in steps.settled.items() if first <= step <= last)
    return 2 * back >= settled


def _longest_wait(steps: QueueSteps, since_us: int, until_us: int | None) -> str:
    """Return the longest wait of those delivered in a time, as the end of a sentence."""
    waited_us = steps.longest_wait_us(since_us, until_us)
    return f"; the longest wait was {duration(waited_us)}" if waited_us else ""


def _are_slow(work: Sequence[float], holds: Sequence[float]) -> list[bool]:
    """Tell for each step whether messages take much longer in it than usual."""
    work_us, hold_us = usual(work), usual(holds)
    limit_us = max(SLOW_TIMES * work_us, work_us + SLOW_MIN_US)
    return [one >= limit_us and held >= 3 * hold_us for one, held in zip(work, holds, strict=True)]


def _all_of(data: Evidence, queue: Queue, first: int, last: int) -> str:
    """Begin a sentence about all consumers of a queue in some steps."""
    tags = {
        one.tag for one in data.consumer_steps.get(queue, ())
        if any(first <= step <= last for step in one.settled)
    }  # fmt: skip
    of = f" of {data.named(queue)}"
    return f"All consumers{of} ({tags_shown(sorted(tags))})" if tags else f"Consumers{of}"


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
        tags = tags_shown(one.tag for one in begun)
        return (
            f", since consumer {tags} started" if len(begun) == 1 else
            f", since consumers {tags} started",
            f"Compare the version and settings of {tags} with those before.",
        )  # fmt: skip
    during = range(first, last + 1)
    return (
        slow_kind(data.held_kinds.get(steps.queue, ()), during, steps.span.step_us)
        or large_ones(steps, during)
        or "; messages are as large as before",
        "Look at what changed in the consumers then: an update, or a service that they call.",
    )


def _of_senders(data: Evidence, queue: Queue) -> str:
    users = data.senders(queue)
    return f" from {users}" if users else ""
