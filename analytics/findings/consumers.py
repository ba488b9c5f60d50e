"""Finds consumers that stall, that hold too many messages, and that take some without acks. Pure.

A stall is a pause far longer than is usual in the queue, whatever a message usually takes there.
"""

from collections.abc import Iterator, Sequence

from leveret.analytics.findings.changes import large_ones
from leveret.analytics.findings.evidence import (
    ConsumerPause,
    Evidence,
    SeenConsumer,
    between,
)
from leveret.analytics.findings.finding import (
    PREFETCH_HIGH,
    STALLED,
    WITHOUT_ACKS,
    Finding,
    Queue,
    Severity,
    of_table,
)
from leveret.analytics.findings.paces import consumers_shown, tags_shown
from leveret.analytics.findings.slow_kinds import slow_kind
from leveret.analytics.formatting import (
    MINUTE_US,
    SECOND_US,
    duration,
    listed,
    plural,
    shown,
)

PAUSE_MIN_US, PAUSE_TIMES = 15 * SECOND_US, 5
HOLD_MIN_US, HOLD_TIMES = MINUTE_US, 10
HELD_MIN, IN_HAND_MIN_US = 50, 2 * MINUTE_US
"""Messages that a consumer holds, and how long they take it, to be too many."""
TAKEN_MIN, TAKEN_SHARE = 20, 0.05
"""Messages taken without acknowledgements, and their part of those delivered meanwhile."""


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
            f"{who} of {data.named(queue)} kept {plural(held, 'message')} {since}, and settled"
            " others in this time"
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
        words += f"; this happened {times} times, for up to {duration(lasted_us)}"
    words += _large(data, queue, pauses)
    return Finding(
        STALLED, Severity.BAD if lasted_us >= MINUTE_US else Severity.WARNING, vhost, (queue.name,),
        words, _hurt(data, queue, longest),
        f"Find out what it waited for: a database, a lock, a call without a timeout. Closing"
        f" {shown(longest.connection)} requeues what it holds, and consumer_timeout does so by"
        " itself.",
        of_table("consumer_activity", queue, ", columns pause_us and held; table fates"),
        told.since_us, until_us, lasted_us,
    )  # fmt: skip


def _large(data: Evidence, queue: Queue, pauses: Sequence[ConsumerPause]) -> str:
    """Say what the messages that came when consumers paused are like."""
    steps, ends_us = data.queues.get(queue), data.ends_us(queue.vhost)
    if steps is None:
        return ""
    span = steps.span
    # What it works on came in the step before, at the earliest. Damaged records may have any times.
    during = {
        step for one in pauses for step in range(
            max(0, (one.since_us - span.begins_us) // span.step_us - 1),
            min(span.steps, ((one.until_us or ends_us) - span.begins_us) // span.step_us + 1),
        )
    }  # fmt: skip
    kinds = data.held_kinds.get(queue, ())
    return slow_kind(kinds, during, span.step_us) or large_ones(steps, during)


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
    words = f"{plural(came, 'message')}{_from(data, queue)} arrived in this time"
    if behind:
        words += f", and up to {behind:,} waited in the queue"
    return words + (f", for up to {duration(waited_us)}." if waited_us > SECOND_US else ".")


def _from(data: Evidence, queue: Queue) -> str:
    users = data.senders(queue)
    return f" from {users}" if users else ""


def _tag(tag: str | None) -> str:
    return "(basic.get)" if tag is None else shown(tag)


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
            if others else "no other consumer could take them"
        )  # fmt: skip
        yield Finding(
            PREFETCH_HIGH, Severity.WARNING, vhost, (one.queue.name,),
            f"Consumer {_tag(one.tag)} of {data.named(one.queue)} held up to {one.held_max:,}"
            f" messages at a time and takes {duration(pace_us)} for each,"
            f" {data.period(vhost, one.first_us, until_us)}",
            f"It held messages for up to {duration(one.hold_max_us or 0)}, and {helped}: they"
            " return to the queue only when its channel closes.",
            f"Lower its prefetch limit: {plural(wanted, 'message')} would be about 10 s of work.",
            of_table("consumer_activity", one.queue, ", columns held_max and hold_max_us"),
            one.first_us, until_us, in_hand_us,
        )  # fmt: skip


# Messages without acknowledgements


def without_acks(data: Evidence) -> Iterator[Finding]:
    """Yield a finding for each queue of which a new consumer takes messages without acks.

    The others acknowledge what they get. What one takes that is there from the beginning, as the
    copy of a monitoring program, is usual.
    """
    by_queue: dict[Queue, list[SeenConsumer]] = {}
    for one in data.consumers:
        if one.tag is not None:
            by_queue.setdefault(one.queue, []).append(one)
    for queue, consumers in by_queue.items():
        span = data.spans[queue.vhost]
        takers = [
            one for one in consumers
            if one.no_ack and one.first_us >= span.begins_us + 3 * span.step_us
        ]  # fmt: skip
        others = [one for one in consumers if one.acknowledged and not one.no_ack]
        was_usual = len(takers) < sum(1 for one in consumers if one.no_ack)
        if takers and others and not was_usual and queue in data.queues:
            yield from _taken(data, queue, takers, others)


def _taken(
    data: Evidence, queue: Queue, takers: Sequence[SeenConsumer], others: Sequence[SeenConsumer]
) -> Iterator[Finding]:
    vhost, steps, taken = queue.vhost, data.queues[queue], sum(one.no_ack for one in takers)
    since_us, last_us = min(one.first_us for one in takers), max(one.last_us for one in takers)
    until_us = None if steps.span.ends_us - last_us <= 3 * steps.span.step_us else last_us
    delivered = sum(between(steps, steps.delivered, since_us, until_us))
    if taken < max(TAKEN_MIN, TAKEN_SHARE * delivered):
        return
    first, last = takers[0], len(takers) - 1
    more = f" and {plural(last, 'other connection')}" if last else ""
    yield Finding(
        WITHOUT_ACKS, Severity.WARNING, vhost, (queue.name, *{one.user: 1 for one in takers}),
        f"{consumers_shown([one.tag for one in takers])} of user {shown(first.user)} on"
        f" {shown(first.connection)}{more} took {taken:,} of the {delivered:,} messages that"
        f" {data.named(queue)} delivered {data.period(vhost, since_us, until_us)}, without"
        " acknowledgements",
        f"{tags_shown(one.tag for one in others)} never got these messages, and none of them comes"
        " back if their work fails.",
        "If this program only looks at messages, give it a queue of its own, bound to the same"
        " exchange. If it does the work of the queue, let it acknowledge.",
        of_table("consumers", queue, ", column no_ack"),
        since_us, until_us, taken,
    )  # fmt: skip
