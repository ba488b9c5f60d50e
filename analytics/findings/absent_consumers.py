"""Finds queues in which messages waited without a consumer. Pure.

Queues that keep messages by design have none: those of which messages expire or are dropped by the
length, and those that are read by basic.get. Queues that one exchange fills with copies of the same
messages, and that have no consumer, are one finding.
"""

from collections.abc import Iterator, Sequence

from leveret.analytics.findings.evidence import Evidence, SeenConsumer, Unattended
from leveret.analytics.findings.finding import NO_CONSUMER, Finding, Queue, Severity, of_table
from leveret.analytics.formatting import MINUTE_US, SECOND_US, duration, listed, plural, shown

ALONE_MIN_US, HABIT_TIMES, HABIT_SHARE = MINUTE_US, 3, 0.5
COPIES_MIN, NAMED_MAX = 3, 3
SECONDS_OFF_US = 2 * SECOND_US
"""The table has whole seconds, and a consumer may have settled messages after the last one."""


def no_consumer(data: Evidence) -> Iterator[Finding]:
    """Yield a finding for each queue in which messages waited without a consumer."""
    by_queue: dict[Queue, list[Unattended]] = {}
    for one in data.unattended:
        by_queue.setdefault(one.queue, []).append(one)
    found: dict[Queue, list[Unattended]] = {}
    for queue, stretches in by_queue.items():
        if _is_by_design(data, queue):
            continue
        long = [one for one in stretches if _lasts_us(data, one) >= ALONE_MIN_US]
        if long and not _is_habit(data, stretches):
            found[queue] = long
    for (vhost, exchange), queues in _copies(data, found).items():
        yield _fan_out(data, vhost, exchange, {queue: found.pop(queue) for queue in queues})
    for queue, stretches in found.items():
        yield _no_consumer(data, queue, stretches)


def _lasts_us(data: Evidence, one: Unattended) -> int:
    return (one.until_us or data.ends_us(one.queue.vhost)) - one.since_us


def _is_by_design(data: Evidence, queue: Queue) -> bool:
    """Tell whether a queue keeps messages for a time or a number only, or is read by basic.get."""
    seen, steps = data.attendance.get(queue), data.queues.get(queue)
    if seen is not None and seen.consumed:
        return False
    if seen is not None and seen.got:
        return True
    return steps is not None and bool(sum(steps.expired.values()) or sum(steps.dropped.values()))


def _is_habit(data: Evidence, stretches: Sequence[Unattended]) -> bool:
    """Tell whether consumers of the queue come now and then, and go again."""
    lengths = sorted(_lasts_us(data, one) for one in stretches)
    if len(lengths) <= 4 or lengths[-1] >= HABIT_TIMES * lengths[len(lengths) // 2]:
        return False
    # One that stays for longer than it is away is meant to stay.
    begun_us = min(one.since_us for one in stretches)
    ends_us = max(one.since_us + _lasts_us(data, one) for one in stretches)
    return sum(lengths) >= HABIT_SHARE * (ends_us - begun_us)


def _copies(
    data: Evidence, found: dict[Queue, list[Unattended]]
) -> dict[tuple[str, str], list[Queue]]:
    """Return the queues without a consumer that get about the same messages of one exchange."""
    groups: dict[tuple[str, str], list[Queue]] = {}
    left = {queue for queue in found if not _had_consumer(data, queue)}
    for (vhost, exchange), shares in data.shares.items():
        own = [queue for queue in left if queue.vhost == vhost and queue.name in shares]
        if len(own) < COPIES_MIN:
            continue
        most = max(shares[queue.name] for queue in own)
        copies = sorted(queue for queue in own if 2 * shares[queue.name] >= most)
        if len(copies) >= COPIES_MIN:
            groups[vhost, exchange] = copies
            left -= set(copies)
    return groups


def _had_consumer(data: Evidence, queue: Queue) -> bool:
    seen = data.attendance.get(queue)
    return seen is not None and seen.consumed > 0


def _fan_out(
    data: Evidence, vhost: str, exchange: str, queues: dict[Queue, list[Unattended]]
) -> Finding:
    """Return one finding for all queues that an exchange fills."""
    stretches = [max(each, key=lambda one: one.ready_max) for each in queues.values()]
    names = [shown(queue.name) for queue in queues]
    more = len(names) - NAMED_MAX
    named = listed([*names[:NAMED_MAX], *([f"{more} more"] if more > 0 else [])])
    waiting = sum(one.ready_last for one in stretches)
    since_us = min(one.since_us for one in stretches)
    is_open = any(one.until_us is None for one in stretches)
    until_us = None if is_open else max(one.until_us or 0 for one in stretches)
    every = len(data.shares[vhost, exchange])
    in_vhost = f" in {shown(vhost)}" if len(data.spans) > 1 else ""
    return Finding(
        NO_CONSUMER, Severity.BAD if is_open else Severity.NOTE, vhost,
        (exchange, *(queue.name for queue in queues)),
        f"{len(names)} of the {every} queues of exchange {shown(exchange)}{in_vhost} had no"
        f" consumer {data.period(vhost, since_us, until_us)} ({named}), and"
        f" {waiting:,} messages wait in them",
        f"Each message is stored {len(names)} times, and no consumer reads it.",
        "Delete the queues or their bindings, or start their consumers.",
        f"table unattended; table topology, source {shown(exchange)}",
        since_us, until_us, waiting,
    )  # fmt: skip


def _no_consumer(data: Evidence, queue: Queue, stretches: Sequence[Unattended]) -> Finding:
    vhost = queue.vhost
    worst = max(stretches, key=lambda one: (one.ready_max, _lasts_us(data, one)))
    is_letters = any(queue.name in one.targets for one in data.deaths if one.queue.vhost == vhost)
    had_one, still = _had_consumer(data, queue), worst.until_us is None
    period = data.period(vhost, worst.since_us, worst.until_us)
    words = f"{data.named(queue, True)} had no consumer {period}, for"
    words += f" {duration(_lasts_us(data, worst))}, and "
    if still:
        words += f"{plural(worst.ready_last, 'message')} are waiting at the end"
    else:
        words += f"up to {plural(worst.ready_max, 'message')} waited"
    if len(stretches) > 1:
        words += f"; {len(stretches)} times in all"
    if gone := _last_one(data, worst):
        words += f". The last one, {shown(gone.tag or 'basic.get')} on {shown(gone.connection)},"
        words += f" was active until {data.clock(vhost, gone.last_us)}"
    elif back := _only_one(data, worst):
        words += f". Its consumer {shown(back.tag or 'basic.get')} on {shown(back.connection)}"
        words += " came back later"
    is_bad = not is_letters and (had_one or still)
    return Finding(
        NO_CONSUMER, Severity.BAD if is_bad else Severity.NOTE, vhost, (queue.name,), words,
        "No consumer reads these dead letters." if is_letters else
        f"Messages from {data.senders(queue) or 'its publishers'} were not handled"
        f"{' in this time' if not still else ''}.",
        "Start the consumer again, and find out why it ended." if had_one else
        "Start a consumer, or delete the queue or its bindings.",
        of_table("unattended", queue, "; table fates, fate never_delivered"),
        worst.since_us, worst.until_us, worst.ready_max,
    )  # fmt: skip


def _only_one(data: Evidence, time: Unattended) -> SeenConsumer | None:
    """Return the consumer that was the only one before a time without any, and came back."""
    before = [
        one for one in data.consumers if one.queue == time.queue and one.first_us <= time.since_us
    ]
    return before[0] if len(before) == 1 else None


def _last_one(data: Evidence, time: Unattended) -> SeenConsumer | None:
    """Return the consumer that was the last one before a time without any."""
    until_us = time.since_us + SECONDS_OFF_US
    before = [one for one in data.consumers if one.queue == time.queue and one.last_us <= until_us]
    return max(before, key=lambda one: one.last_us, default=None)
