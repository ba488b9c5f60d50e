"""Finds consumers of streams that fall behind, and those that retention has overtaken. Pure.

A consumer falls behind if its lag has grown in each third of the last while, and it has not caught
up from as much before. When it will lose messages follows from the rates of this while: either its
first unread message becomes older than the stream's max-age, or the messages behind it exceed
max-length-bytes.

One that has ended is no concern: it goes on where it has stored its offset. Neither is one that
reads nothing and has stored where it stopped, until retention has overtaken it.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import pairwise

from leveret.analytics.findings.evidence import Evidence, ReaderStep, StreamReaderSteps, StreamSteps
from leveret.analytics.findings.finding import (
    FALLS_BEHIND,
    OVERTAKEN,
    Finding,
    Queue,
    Severity,
    of_table,
)
from leveret.analytics.formatting import (
    DAY_US,
    MINUTE_US,
    SECOND_US,
    duration,
    listed,
    plural,
    shown,
)

WHILE_MIN_US, WHILE_MAX_US = 2 * MINUTE_US, 30 * MINUTE_US
"""How much of the end of a trace, a quarter of it, tells how fast a consumer reads."""
BEHIND_MIN_US = MINUTE_US
"""One that is less behind is in time."""
READ_SHARE_MAX = 0.95
"""It reads at most this part of what is published."""
THIRD_SHARE_MIN = 0.15
"""The part of the growth that comes in each third of the while."""
CAUGHT_UP_SHARE, RECOVERED_SHARE = 0.02, 0.8
"""It has caught up when its lag is this part of the last one; before that it may have been as large
as the second part says, and is not alarming then."""


def overtaken(data: Evidence) -> Iterator[Finding]:
    """Yield a finding for each consumer that did not get messages, since retention removed them."""
    for reader in data.stream_readers:
        found = _lost(reader)
        if found is None:
            continue
        lost, since_us, until_us = found
        queue, when = reader.queue, data.period(reader.queue.vhost, since_us, until_us)
        yield Finding(
            OVERTAKEN, Severity.BAD, queue.vhost, (queue.name, reader.name),
            f"{_named(data, queue)}: consumer {shown(reader.name)} lost"
            f" {plural(lost, 'message')}, which retention removed before it had read them, {when}",
            f"These messages{_from(data, queue)} were not handled by it, and no one can read them"
            " any longer.",
            "Publish them again if their source still has them. Raise max-age or max-length-bytes"
            " by a policy, so that the stream keeps more than the consumer is ever behind.",
            of_table("stream_consumers", queue, ", column lost; table stream_activity"),
            since_us, until_us, lost,
        )  # fmt: skip


def _lost(reader: StreamReaderSteps) -> tuple[int, int, int | None] | None:
    """The messages that a consumer did not get, since when, and until when."""
    lost, times = 0, list[int]()
    before: ReaderStep | None = None
    for step in reader.steps:
        if before is not None and step.first_offset > before.next_offset:
            gap = step.next_offset - before.next_offset - step.read
            if gap > 0:
                lost += gap
                times.append(step.at_us)
        before = step
    last = reader.steps[-1]
    if last.lost and not reader.has_ended:
        begun = next(step.at_us for step in reader.steps if step.next_offset >= last.next_offset
                     and step.lost)  # fmt: skip
        return lost + last.lost, min([*times, begun]), None
    return (lost, times[0], times[-1]) if lost else None


def falls_behind(data: Evidence) -> Iterator[Finding]:
    """Yield a finding for each consumer that falls behind more and more."""
    for reader in data.stream_readers:
        stream = data.streams.get(reader.queue)
        if stream is not None and not reader.has_ended and not reader.steps[-1].lost:
            found = _falling(data, reader, stream)
            if found is not None:
                yield found


def _falling(data: Evidence, reader: StreamReaderSteps, stream: StreamSteps) -> Finding | None:
    vhost, queue, last = reader.queue.vhost, reader.queue, reader.steps[-1]
    while_us = max(WHILE_MIN_US, min(WHILE_MAX_US, data.spans[vhost].length_us // 4))
    first = reader.at(last.at_us - while_us)
    took_us = last.at_us - first.at_us
    if took_us < WHILE_MIN_US or last.lag_us < BEHIND_MIN_US:
        return None
    published = stream.published(first.at_us, last.at_us)
    read, grown = last.next_offset - first.next_offset, last.lag - first.lag
    thirds = [first, *(reader.at(first.at_us + took_us * part // 3) for part in (1, 2)), last]
    least = THIRD_SHARE_MIN * grown
    grows = all(after.lag - before.lag >= least for before, after in pairwise(thirds))
    if grown <= 0 or not grows or read > READ_SHARE_MAX * published:
        return None
    since_us = _since(reader)
    if since_us is None or (not read and reader.stored_offset >= last.next_offset - 1):
        return None
    seconds = took_us / SECOND_US
    lost_us = _lost_from(last, first, stream, took_us)
    words = (
        f"{_named(data, queue)}: consumer {shown(reader.name)} reads"
        f" {_rate(read / seconds)} a second of {_rate(published / seconds, '')}"
    )
    if lost_us is None:
        words += (
            f"; it is {plural(last.lag, 'message')} behind, and nothing removes what it has not"
            " read"
        )
    elif lost_us <= last.at_us:
        words += "; it loses messages with the next segment that retention removes"
    else:
        words += f"; at this rate it loses messages from {_moment(last.at_us, lost_us)} UTC"
    is_soon = lost_us is not None and lost_us - last.at_us < DAY_US
    return Finding(
        FALLS_BEHIND, Severity.BAD if is_soon else Severity.WARNING, vhost,
        (queue.name, reader.name), words,
        f"It is {plural(last.lag, 'message')}{_from(data, queue)} behind, which is"
        f" {duration(last.lag_us)}: whatever it does with a message is that much later.",
        _advice(reader, stream, is_limited=lost_us is not None),
        of_table("stream_consumers", queue, ", columns lag and lag_us; table stream_activity"),
        since_us, None, last.lag_us,
    )  # fmt: skip


def _since(reader: StreamReaderSteps) -> int | None:
    """When the lag began to grow; None if the consumer has caught up from as much before."""
    steps, last = reader.steps, reader.steps[-1]
    least = min(step.lag for step in steps)
    low = max(least, CAUGHT_UP_SHARE * last.lag)
    begun = max(place for place, step in enumerate(steps) if step.lag <= low)
    if any(step.lag >= RECOVERED_SHARE * last.lag for step in steps[:begun]):
        return None
    return steps[begun].at_us


def _lost_from(
    last: ReaderStep, first: ReaderStep, stream: StreamSteps, took_us: int
) -> int | None:
    """When the consumer will lose messages at the rates of a while; None if it will not."""
    found = []
    if stream.age_max_us is not None:
        later = (last.lag_us - first.lag_us) / took_us
        if later > 0:
            found.append((stream.age_max_us - last.lag_us) / later)
    kept = stream.kept_messages(first.at_us)
    if kept is not None:
        found.append((kept - last.lag) * took_us / (last.lag - first.lag))
    return last.at_us + max(0, int(min(found))) if found else None


def _advice(reader: StreamReaderSteps, stream: StreamSteps, *, is_limited: bool) -> str:
    more = ""
    if is_limited:
        limit = "max-age" if stream.age_max_us is not None else "max-length-bytes"
        more = f"Raise {limit} by a policy until it has caught up. "
    return (
        f"{more}Find out what limits it at {shown(reader.connection)}: its work on a message, its"
        " credit or prefetch, its machine. A super stream shares the messages between several"
        " consumers."
    )


def _named(data: Evidence, queue: Queue) -> str:
    return data.named(queue).replace("queue", "stream", 1)


def _from(data: Evidence, queue: Queue) -> str:
    users = [shown(user) for user in data.users.get(queue, [])[:3] if user]
    return f" from {listed(users)}" if users else ""


def _rate(rate: float, unit: str = " messages") -> str:
    return f"{rate:,.0f}{unit}" if rate >= 10 else f"{rate:.1f}".removesuffix(".0") + unit


def _moment(now_us: int, time_us: int) -> str:
    """A time of the day; with its date if that is another one."""
    moment = datetime.fromtimestamp(time_us / SECOND_US, UTC)
    is_today = now_us // DAY_US == time_us // DAY_US
    return f"{moment:%H:%M}" if is_today else f"{moment:%Y-%m-%d %H:%M}"
