"""Finds messages that are lost or set aside, by reason. Pure.

Messages that a queue drops by design are not lost: those of a queue without consumers that keeps
messages for a time or up to a number, of a queue that delays messages, and retries that come back.
"""

from collections.abc import Iterator

from leveret.analytics.findings.evidence import DeadLetterFlow, Evidence, Loss, Unroutable
from leveret.analytics.findings.finding import (
    DEAD_LETTERS,
    EXPIRED,
    LOST_LETTERS,
    OVERFLOW,
    REJECTED,
    REMOVED,
    UNROUTABLE,
    Finding,
    Queue,
    Severity,
    of_table,
)
from leveret.analytics.findings.retries import reached
from leveret.analytics.findings.trait import in_common
from leveret.analytics.formatting import duration, exchange_shown, listed, plural, shown

LAST_MAX, NAMED_MAX = 10, 3
"""A queue that never has more messages, and drops others, keeps the last ones only."""
FILTER_SHARE, FILTER_STEPS, FILTER_CHANGE = 0.9, 3, 2.0
"""Part of the dead letters that are consumed; parts of the trace, and how much they differ, if
rejecting is what consumers usually do.
"""
_WHY = {
    "expired": "they expired", "rejected": "consumers rejected them",
    "maxlen": "the queue was full (maxlen)",
    "delivery_limit": "they were delivered too often (delivery_limit)",
}  # fmt: skip

_REMOVED = {
    "purge": "the queue was purged", "queue_deleted": "the queue was deleted",
    "discarded": "an operator discarded delayed retries",
}  # fmt: skip


def losses(data: Evidence) -> Iterator[Finding]:
    """Yield a finding for each queue and reason for which messages were lost."""
    for one in data.losses:
        if one.first_us is None or one.last_us is None:
            continue
        if one.fate == "rejected":
            yield _rejected(data, one)
        elif one.fate == "dropped" and one.reason in _REMOVED:
            yield _removed(data, one)
        elif one.fate == "dropped" and one.reason == "duplicate":
            # The queue has the message already.
            continue
        elif is_consumed(data, one.queue) and not _keeps_the_last(data, one):
            yield _expired(data, one) if one.fate == "expired" else _overflow(data, one)


def is_consumed(data: Evidence, queue: Queue) -> bool:
    """Tell whether a queue has consumers, so that it is not there to keep or delay messages."""
    seen = data.attendance.get(queue)
    return seen is not None and seen.consumed > 0


def _keeps_the_last(data: Evidence, one: Loss) -> bool:
    """Tell whether a queue is there to keep the last few messages only."""
    steps = data.queues.get(one.queue)
    if steps is None or one.fate != "dropped":
        return False
    return max(steps.ready_max.values(), default=0) <= LAST_MAX


def _period(data: Evidence, one: Loss | DeadLetterFlow) -> tuple[int, int | None]:
    """Return when it happened; no end if it went on until the end of the trace."""
    vhost, first_us, last_us = one.queue.vhost, one.first_us or 0, one.last_us or 0
    span = data.spans[vhost]
    each_us = (last_us - first_us) / max(1, one.messages)
    is_open = span.ends_us - last_us <= max(3 * span.step_us, 5 * each_us)
    return first_us, None if is_open else last_us


def _count(data: Evidence, one: Loss | DeadLetterFlow) -> str:
    return plural(one.messages * data.spans[one.queue.vhost].sample, "message")


def _were(data: Evidence, one: Loss | DeadLetterFlow) -> str:
    return "was" if one.messages * data.spans[one.queue.vhost].sample == 1 else "were"


def _of(data: Evidence, one: Loss | DeadLetterFlow) -> str:
    """Return the share of the messages that came to the queue, in words."""
    steps = data.queues.get(one.queue)
    came = 0 if steps is None else sum(steps.came.values())
    return f" ({min(1.0, one.messages / came):.1%} of its messages)" if came else ""


def _expired(data: Evidence, one: Loss) -> Finding:
    since_us, until_us = _period(data, one)
    vhost, steps = one.queue.vhost, data.queues.get(one.queue)
    waited = "" if steps is None else duration(steps.longest_wait_us(since_us, until_us))
    longest = f" Others were delivered after up to {waited}." if waited else ""
    return Finding(
        EXPIRED, Severity.WARNING, vhost, (one.queue.name,),
        f"{_count(data, one)} of {data.named(one.queue)}{_of(data, one)} expired and were lost"
        f" {data.period(vhost, since_us, until_us)}: the queue has no dead-letter exchange",
        f"No consumer got them. They came from{_users(data, one.queue)}.{longest}",
        "Consume faster, raise the TTL, or give the queue a dead-letter exchange to keep them.",
        of_table("fates", one.queue, ", fate expired"), since_us, until_us, one.messages,
    )  # fmt: skip


def _users(data: Evidence, queue: Queue) -> str:
    return f" {data.senders(queue) or 'their publishers'}"


def _in_common(data: Evidence, queue: Queue, reason: str) -> str:
    return in_common(data.traits.get((queue, reason), ()))


def _overflow(data: Evidence, one: Loss) -> Finding:
    since_us, until_us = _period(data, one)
    vhost = one.queue.vhost
    return Finding(
        OVERFLOW, Severity.WARNING, vhost, (one.queue.name,),
        f"{_count(data, one)} of {data.named(one.queue)}{_of(data, one)}"
        f" {_were(data, one)} dropped or refused,"
        f" because it was full ({shown(one.reason or 'maxlen')}),"
        f" {data.period(vhost, since_us, until_us)}",
        f"They came from{_users(data, one.queue)}, and are lost, unless the queue refused them and"
        " a publisher with confirms knows.",
        "Consume faster, raise the maximum length, or give the queue a dead-letter exchange.",
        of_table("fates", one.queue, ", fate dropped"), since_us, until_us, one.messages,
    )  # fmt: skip


def _rejected(data: Evidence, one: Loss) -> Finding:
    since_us, until_us = _period(data, one)
    vhost = one.queue.vhost
    return Finding(
        REJECTED, Severity.WARNING, vhost, (one.queue.name,),
        f"{_who(data, one.queue)} rejected {_count(data, one)} of {data.named(one.queue)}"
        f"{_of(data, one)}, which has no dead-letter exchange,"
        f" {data.period(vhost, since_us, until_us)}{_in_common(data, one.queue, 'rejected')}",
        f"They came from{_users(data, one.queue)}, and are lost.",
        "Give the queue a dead-letter exchange, and find out why consumers reject them.",
        of_table("fates", one.queue, ", fate rejected"), since_us, until_us, one.messages,
    )  # fmt: skip


def _removed(data: Evidence, one: Loss) -> Finding:
    vhost, since_us = one.queue.vhost, one.first_us or 0
    how = _REMOVED[one.reason or "queue_deleted"]
    return Finding(
        REMOVED, Severity.WARNING, vhost, (one.queue.name,),
        f"{_count(data, one)} of {data.named(one.queue)} {_were(data, one)} removed when {how}, at"
        f" {data.clock(vhost, since_us)}",
        f"They came from{_users(data, one.queue)}, and are lost.",
        "Move messages to another queue before a queue is deleted."
        if one.reason == "queue_deleted" else "Ask who did it: the log of the broker has it.",
        of_table("fates", one.queue, f", reason {one.reason}"), since_us, one.last_us, one.messages,
    )  # fmt: skip


# Dead letters


def dead_letters(data: Evidence) -> Iterator[Finding]:
    """Yield a finding for each queue and reason whose dead letters do not come back."""
    for one in data.deaths:
        if not one.targets:
            yield _lost_letters(data, one)
        elif not (is_retry(data, one) or is_delay(data, one) or is_filter(data, one)):
            yield _set_aside(data, one)


def is_retry(data: Evidence, one: DeadLetterFlow) -> bool:
    """Tell whether dead letters come back to the queue through others."""
    return one.queue in reached(data.deaths, one.queue)


def is_filter(data: Evidence, one: DeadLetterFlow) -> bool:
    """Tell whether dead letters are consumed, and came all the time: it has always been so."""
    if one.reason != "rejected" or not one.targets:
        return False
    for name in one.targets:
        target = Queue(one.queue.vhost, name)
        steps, seen = data.queues.get(target), data.attendance.get(target)
        came = 0 if steps is None else sum(steps.came.values())
        if seen is None or steps is None or seen.consumed < FILTER_SHARE * came:
            return False
        span = steps.span
        parts = [
            sum(count for step, count in steps.came.items()
                if step * FILTER_STEPS // span.steps == part)
            for part in range(FILTER_STEPS)
        ]  # fmt: skip
        if max(parts) > FILTER_CHANGE * min(parts):
            return False
    return True


def is_delay(data: Evidence, one: DeadLetterFlow) -> bool:
    """Tell whether the queue only keeps messages until they expire."""
    return one.reason == "expired" and not is_consumed(data, one.queue)


def _lost_letters(data: Evidence, one: DeadLetterFlow) -> Finding:
    since_us, until_us = _period(data, one)
    vhost = one.queue.vhost
    return Finding(
        LOST_LETTERS, Severity.BAD, vhost, (one.queue.name,),
        f"{_count(data, one)} of {data.named(one.queue)}{_of(data, one)}"
        f" {_were(data, one)} dead-lettered to"
        f" {exchange_shown(one.exchange)}, because {_why(one)}, and lost: no queue took them,"
        f" {data.period(vhost, since_us, until_us)}{_in_common(data, one.queue, one.reason)}",
        f"They came from{_users(data, one.queue)}, and are lost.",
        "Bind a queue to the dead-letter exchange, or correct x-dead-letter-routing-key.",
        of_table("dead_letters", one.queue, ", queues is empty"), since_us, until_us, one.messages,
    )  # fmt: skip


def _why(one: DeadLetterFlow) -> str:
    return _WHY.get(one.reason, shown(one.reason))


def _who(data: Evidence, queue: Queue) -> str:
    """Name the consumers that reject messages, if they are few."""
    own = [one for one in data.consumers if one.queue == queue and one.rejected]
    total = sum(one.rejected for one in own)
    tags = list(
        dict.fromkeys(shown(one.tag or "basic.get") for one in own if one.rejected > 0.02 * total)
    )
    if not tags or len(tags) > NAMED_MAX:
        return "Consumers"
    return f"Consumer{'s' if len(tags) > 1 else ''} {listed(tags)}"


def _set_aside(data: Evidence, one: DeadLetterFlow) -> Finding:
    since_us, until_us = _period(data, one)
    vhost, targets = one.queue.vhost, listed([shown(name) for name in one.targets[:4]])
    steps = data.queues.get(one.queue)
    came = 0 if steps is None else sum(steps.came.values())
    is_rare = one.messages < 0.005 * came
    is_dropped = one.reason == "maxlen"
    count = f"{_count(data, one)} of {data.named(one.queue)}{_of(data, one)}"
    words = f"{count} {_were(data, one)} dead-lettered to {targets}, because {_why(one)}"
    if one.reason == "rejected":
        words = f"{_who(data, one.queue)} rejected {count}, which are now in {targets}"
    common = _in_common(data, one.queue, one.reason)
    return Finding(
        OVERFLOW if is_dropped else EXPIRED if one.reason == "expired" else DEAD_LETTERS,
        Severity.NOTE if is_rare else Severity.WARNING, vhost, (one.queue.name,),
        f"{words}, {data.period(vhost, since_us, until_us)}{common}",
        f"They came from{_users(data, one.queue)}, and were not handled; {targets} keeps them.",
        "Look at some of them: leveret journey shows how they got there.",
        of_table("dead_letters", one.queue, f", reason {one.reason}"), since_us, until_us,
        one.messages,
    )  # fmt: skip


# Unroutable


def unroutable(data: Evidence) -> Iterator[Finding]:
    """Yield a finding for each exchange and key whose messages had no queue."""
    for one in data.unroutable:
        yield _unroutable(data, one)


def _unroutable(data: Evidence, one: Unroutable) -> Finding:
    silent, vhost = one.messages - one.returned, one.vhost
    span = data.spans[vhost]
    since_us, last_us = max(span.begins_us, one.first_us), one.last_us + 60_000_000
    until_us = None if last_us >= span.ends_us else last_us
    key = shown(one.routing_key) or "(none)"
    if not silent:
        told = "all were returned to their publisher"
    elif not one.returned:
        told = "none was returned, so no publisher was told"
    else:
        told = (
            f"{one.returned:,} were returned to their publisher, and no publisher was told of the"
            f" other {silent:,}"
        )
    name = exchange_shown(one.exchange)
    return Finding(
        UNROUTABLE, Severity.BAD if silent else Severity.WARNING, vhost,
        (one.exchange or "default exchange",),
        f"{name[0].upper() + name[1:]}: {plural(one.messages, 'message')} with routing key {key}"
        f" had no queue, {data.period(vhost, since_us, until_us)}; {told}",
        f"Published by user {shown(one.user)} on {shown(one.connection)}, among others."
        if one.user else "",
        "Bind a queue with this key, correct the key, or publish with the mandatory flag."
        if silent else "Bind a queue with this key, or correct the key.",
        f"table unroutable, routing_key {key}", since_us, until_us, one.messages,
    )  # fmt: skip
