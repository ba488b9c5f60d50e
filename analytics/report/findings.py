"""Findings: problems of a trace as sentences that an operator can act on. Pure.

A finding names the queue (or exchange, or user), what happened, since when and, if the trace shows
it, the cause; `advice` says what to do. The most severe findings come first.
"""

from collections.abc import Callable, Iterator, Sequence
from enum import IntEnum
from typing import NamedTuple

from leveret.analytics.formatting import duration, exchange_shown, moment, plural, shown
from leveret.analytics.report.aggregates import MINUTE_US, Aggregates, Queue
from leveret.analytics.report.latency_findings import Rise, rises

FINDINGS_MAX = 60
OF_ONE_KIND_MAX = 5
BACKLOG_MIN = 100
CHURN_PER_MINUTE_MIN = 60
SHORT_LIVED_MIN = 100
HOT_SHARE_MIN = 0.3
NOT_ACKNOWLEDGED_MIN = 1


class Severity(IntEnum):
    """How severe a finding is."""

    BAD = 0
    WARNING = 1
    NOTE = 2


class Finding(NamedTuple):
    """A sentence with advice. weight: sorts findings of one kind and severity, greatest first."""

    severity: Severity
    sentence: str
    advice: str = ""
    weight: float = 0.0


def findings(data: Aggregates) -> list[Finding]:
    """Return all findings, the most severe first."""
    found: list[Finding] = []
    for find in _FINDERS:
        of_kind = sorted(find(data), key=_order)
        found += of_kind[:OF_ONE_KIND_MAX]
        if len(of_kind) > OF_ONE_KIND_MAX:
            found.append(_more(of_kind[OF_ONE_KIND_MAX:]))
    # The sort is stable: within a severity, kinds stay in the order of the finders.
    return sorted(found, key=lambda finding: finding.severity)[:FINDINGS_MAX]


def _order(finding: Finding) -> tuple[int, float]:
    return finding.severity, -finding.weight


def _more(rest: Sequence[Finding]) -> Finding:
    first = rest[0]
    words = f"{len(rest)} more of this kind; the next: {first.sentence}"
    return Finding(Severity.NOTE, words, first.advice, first.weight)


def queue_shown(data: Aggregates, queue: Queue) -> str:
    """Return a queue's name, with its virtual host if there are several."""
    name = f"queue {shown(queue.name)}"
    return name if len(data.vhosts) < 2 else f"{name} in {shown(queue.vhost)}"


# Queues


def _latency(data: Aggregates) -> Iterator[Finding]:
    for rise in rises(data):
        yield Finding(
            Severity.BAD, f"{queue_shown(data, rise.queue)}: {_rise(data, rise)}",
            rise.advice, rise.peak_us / max(1, rise.before_us),
        )  # fmt: skip


def _rise(data: Aggregates, rise: Rise) -> str:
    words = (
        f"p99 wait rose from {duration(rise.before_us)} to {duration(rise.peak_us)} at"
        f" {data.clock(data.time_of(rise.step))}"
    )
    words += f", when {rise.cause}" if rise.cause else "; the trace shows no cause"
    if rise.last_step is None:
        return f"{words}; it stayed so"
    return f"{words}; it was over at {data.clock(data.time_of(rise.last_step))}"


def _backlogs(data: Aggregates) -> Iterator[Finding]:
    for series in data.queues:
        end = series.ready_at_end
        highest = max(series.ready.values(), default=0)
        if end < BACKLOG_MIN or end < highest / 2:
            continue
        first = min(series.ready)
        start = series.ready[first]
        name = queue_shown(data, series.queue)
        if not any(series.delivered.values()):
            sentence = f"{name}: {end:,} messages are ready, and none has been consumed"
            yield Finding(Severity.BAD, sentence, "Start a consumer, or delete the queue.", end)
        elif end > 3 * start:
            minutes = max(1.0, (data.ends_us - data.time_of(first)) / MINUTE_US)
            yield Finding(
                Severity.BAD,
                f"{name}: {end:,} messages are ready at the end, up from {start:,} at"
                f" {data.clock(data.time_of(first))}: {(end - start) / minutes:,.0f} more per"
                " minute",
                "Add consumers or make them faster; a max-length or a TTL limits the queue.", end,
            )  # fmt: skip


def _stalled(data: Aggregates) -> Iterator[Finding]:
    # A consumer that is named as the cause of a rise is not reported again.
    reported = {(rise.queue, rise.consumer) for rise in rises(data)}
    for one in data.consumers:
        if one.unacknowledged < NOT_ACKNOWLEDGED_MIN or (one.queue, one.tag) in reported:
            continue
        who = f"consumer {shown(one.tag)}" if one.tag is not None else "a client of basic.get"
        since = "has acknowledged none of them"
        if one.last_ack_us is not None:
            since = f"last acknowledged one at {data.clock(one.last_ack_us)}"
        is_stalled = data.ends_us - (one.last_ack_us or one.first_us) > 5 * data.step_us
        yield Finding(
            Severity.WARNING if is_stalled else Severity.NOTE,
            f"{queue_shown(data, one.queue)}: {who} ({shown(one.connection)}) holds"
            f" {plural(one.unacknowledged, 'unacknowledged message')}, and {since}",
            "Check what it is doing; closing its connection requeues them." if is_stalled
            else "", one.unacknowledged,
        )  # fmt: skip


def _slow_consumers(data: Aggregates) -> Iterator[Finding]:
    by_queue: dict[Queue, list[tuple[int, str]]] = {}
    for one in data.consumers:
        if one.ack_p50_us is not None and one.acknowledged >= 20:
            name = shown(one.tag) if one.tag is not None else "basic.get"
            by_queue.setdefault(one.queue, []).append((one.ack_p50_us, name))
    for queue, speeds in by_queue.items():
        speeds.sort()
        quick, (slow, name) = speeds[len(speeds) // 2][0], speeds[-1]
        if len(speeds) > 1:
            quick = speeds[(len(speeds) - 1) // 2][0]
            if slow >= 5 * max(1, quick) and slow > 10_000:
                yield Finding(
                    Severity.WARNING,
                    f"{queue_shown(data, queue)}: consumer {name} takes {duration(slow)} to"
                    f" acknowledge (median), the others {duration(quick)}",
                    "Check the machine it runs on, and its prefetch count.", slow / quick,
                )  # fmt: skip


# Messages


def _poison(data: Aggregates) -> Iterator[Finding]:
    for one in data.poison:
        named = f" (message-id {shown(one.message_id)})" if one.message_id else ""
        yield Finding(
            Severity.BAD,
            f"{queue_shown(data, one.queue)}: {plural(one.messages, 'message')} delivered too"
            f" often; message {one.message}{named} {one.deliveries:,} times, and its fate is"
            f" {one.fate.replace('_', ' ')}",
            "leveret journey shows its history; a dead-letter exchange and a reject without"
            " requeue remove such messages.", one.deliveries,
        )  # fmt: skip


def _from_to(data: Aggregates, first_us: int, last_us: int) -> str:
    first, last = data.clock(first_us), data.clock(last_us)
    return f"at {first}" if first == last else f"from {first} to {last}"


def _deaths(data: Aggregates) -> Iterator[Finding]:
    for one in data.deaths:
        why = _DEATHS.get(one.reason, shown(one.reason))
        words = (
            f"{queue_shown(data, one.queue)}: {plural(one.messages, 'message')} dead-lettered to"
            f" {exchange_shown(one.exchange)} because {why},"
            f" {_from_to(data, one.first_us, one.last_us)}"
        )
        if one.lost:
            words += f"; {plural(one.lost, 'dead letter')} routed to no queue, and lost"
            yield Finding(
                Severity.BAD, words, "Bind a queue to the dead-letter exchange.", one.lost
            )
        else:
            yield Finding(Severity.WARNING, words, "", one.messages)


def _lost(data: Aggregates) -> Iterator[Finding]:
    for (queue, fate), count in data.outcomes.items():
        if fate in _FATES and count:
            yield Finding(
                Severity.WARNING,
                f"{queue_shown(data, queue)}: {plural(count, 'message')} {_FATES[fate]}",
                "The table fates lists them.", count,
            )  # fmt: skip


def _unroutable(data: Aggregates) -> Iterator[Finding]:
    for one in data.unroutable:
        is_silent = one.returned < one.messages
        words = (
            f"{exchange_shown(one.exchange)}: {plural(one.messages, 'message')} with routing key"
            f" {shown(one.routing_key) or '(none)'} routed to no queue"
        )
        if one.user:
            words += f", by user {shown(one.user)} on {shown(one.connection)}"
        words += "; not returned" if is_silent else "; returned to the publisher"
        yield Finding(
            Severity.BAD if is_silent else Severity.WARNING, words,
            "Bind a queue with this key, or publish with the mandatory flag." if is_silent else "",
            one.messages,
        )  # fmt: skip


def _duplicates(data: Aggregates) -> Iterator[Finding]:
    if data.duplicates_total and data.duplicates:
        worst = data.duplicates[0]
        yield Finding(
            Severity.WARNING,
            f"{plural(data.duplicates_total, 'message-id')} published more than once;"
            f" {shown(worst.message_id)} {worst.messages:,} times",
            "Publishers repeat messages after a lost confirm; consumers must tolerate it.",
            data.duplicates_total,
        )  # fmt: skip


# Traffic


def _hot_keys(data: Aggregates) -> Iterator[Finding]:
    for one in data.hot_keys:
        if one.share >= HOT_SHARE_MIN:
            yield Finding(
                Severity.NOTE,
                f"{exchange_shown(one.exchange)}: {one.share:.0%} of its messages have the routing"
                f" key {shown(one.routing_key) or '(none)'}",
                "One queue receives them all: a consistent-hash exchange would spread them.",
                one.messages,
            )  # fmt: skip


def _churn(data: Aggregates) -> Iterator[Finding]:
    if data.churn:
        step, opened = max(data.churn.items(), key=lambda item: item[1])
        rate = opened / data.step_minutes
        if rate >= CHURN_PER_MINUTE_MIN:
            yield Finding(
                Severity.WARNING,
                f"{rate:,.0f} connections per minute opened at {data.clock(data.time_of(step))}",
                "Clients should keep connections open, and open channels on them.", rate,
            )  # fmt: skip
    for user, count in data.short_lived.items():
        if count >= SHORT_LIVED_MIN:
            yield Finding(
                Severity.WARNING,
                f"user {shown(user)}: {count:,} connections lasted less than 10 s",
                "Clients should keep connections open, and open channels on them.", count,
            )  # fmt: skip


def _anomalies(data: Aggregates) -> Iterator[Finding]:
    for one in data.anomalies:
        words = f"{data.clock(one.time_us)}: {shown(one.reason)}"
        yield Finding(Severity.NOTE, words, "", abs(one.score))


# The trace itself


def _gaps(data: Aggregates) -> Iterator[Finding]:
    if data.gaps:
        yield Finding(
            Severity.WARNING,
            f"The trace has {plural(data.gaps, 'gap')}, the first at {moment(data.first_gap_us)}:"
            f" {plural(data.lost_records, 'record')} could not be written, so other findings may"
            " overstate a problem",
            "The disk of the trace directory is too slow: use another, or sample.",
        )  # fmt: skip


def _rejected(data: Aggregates) -> Iterator[Finding]:
    for one in data.rejected:
        yield Finding(
            Severity.WARNING,
            f"{plural(one.times, 'line or file', 'lines or files')} of the trace could not be used:"
            f" {shown(one.reason)} (such as {shown(one.example)})",
            "The table rejected lists them.", one.times,
        )  # fmt: skip


_DEATHS = {
    "expired": "they expired",
    "rejected": "consumers rejected them",
    "maxlen": "the queue was full",
}
_FATES = {
    "expired": "expired, without dead-lettering",
    "rejected": "rejected, without dead-lettering",
    "dropped": "dropped by a full queue, a purge or the deletion of the queue",
}
_FINDERS: tuple[Callable[[Aggregates], Iterator[Finding]], ...] = (
    _gaps, _latency, _backlogs, _stalled, _slow_consumers, _poison, _deaths, _lost, _unroutable,
    _duplicates, _hot_keys, _churn, _anomalies, _rejected,
)  # fmt: skip
