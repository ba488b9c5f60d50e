"""Finds short-lived connections, repeated message-ids and dominant routing keys. Pure."""

from collections import Counter
from collections.abc import Iterator

from leveret.analytics.findings.evidence import Evidence
from leveret.analytics.findings.finding import (
    CHURN,
    DUPLICATES,
    GAP,
    HOT_KEY,
    UNREAD,
    Finding,
    Severity,
)
from leveret.analytics.formatting import MINUTE_US, duration, exchange_shown, plural, shown

SHORT_MIN, PER_MINUTE_MIN = 20, 4
PARTS, EACH_SHARE, LEFT_SHARE = 3, 0.2, 0.8
"""Parts of the trace, each of which has this part of the opened connections; how many stay open."""
HOT_SHARE_MIN = 0.3
MOST = 0.8
"""The part of the repeated message-ids that one user has published last, to be named."""


def churn(data: Evidence) -> Iterator[Finding]:
    """Yield a finding for each user who opens connections again and again."""
    for one in data.short_lived:
        span = data.spans[one.vhost]
        minutes = max(1.0, (one.last_us - one.first_us) / MINUTE_US)
        if one.connections < SHORT_MIN or one.connections < PER_MINUTE_MIN * minutes:
            continue
        until_us = None if span.ends_us - one.last_us < MINUTE_US else one.last_us
        each = f", and published {one.published / one.connections:.1f} messages each"
        yield Finding(
            CHURN, Severity.WARNING, one.vhost, (one.user,),
            f"User {shown(one.user)}: {one.connections:,} connections lasted less than 10 s (half"
            f" of them at most {duration(one.median_us)}), {one.connections / minutes:,.0f} per"
            f" minute, {data.period(one.vhost, one.first_us, until_us)}"
            f"{each if one.published else ''}",
            "Each costs a handshake and a login; all connections become slower to open.",
            "Keep connections open and share them: one connection for a process, a channel for"
            " a thread.",
            f"tables connections (user {shown(one.user)}) and connection_churn",
            one.first_us, until_us, one.connections,
        )  # fmt: skip


def leaks(data: Evidence) -> Iterator[Finding]:
    """Yield a finding for each user who opens connections all the time, and closes none."""
    for (vhost, user), lives in data.opened.items():
        span, left = data.spans[vhost], sum(not is_closed for _, is_closed in lives)
        parts = Counter(
            PARTS * (opened_us - span.begins_us) // (span.length_us + 1) for opened_us, _ in lives
        )
        # Programs that start together open many at once.
        if (
            left < LEFT_SHARE * len(lives)
            or min(parts[part] for part in range(PARTS)) < EACH_SHARE * len(lives)
        ):  # fmt: skip
            continue
        minutes = max(1.0, span.length_us / MINUTE_US)
        yield Finding(
            CHURN, Severity.WARNING, vhost, (user,),
            f"User {shown(user)} opened {len(lives):,} connections, {len(lives) / minutes:.1f} a"
            f" minute, and {left:,} of them are open at the end",
            "Each takes memory and a file descriptor of the broker, which will refuse new ones.",
            "Close connections that are not used, or share them: one for a process, a channel for"
            " a thread. The user's limit max-connections keeps them in bounds.",
            f"table connections, user {shown(user)}, column closed_us", lives[0][0], None, left,
        )  # fmt: skip


def duplicates(data: Evidence) -> Iterator[Finding]:
    """Yield a finding for each queue with message-ids that were published again.

    Programs that each number their messages from one on use the same ids, now one first and now
    the other: these messages are different ones. A program that repeats those of others is always
    the later one.
    """
    for one in data.duplicates:
        if one.once >= MOST * one.ids and one.own < MOST * one.ids:
            continue
        period = data.period(one.queue.vhost, one.first_us, one.last_us)
        ids, most = plural(one.ids, "message-id"), shown(one.message_id)
        if one.user and one.own >= MOST * one.ids:
            words = (
                f"User {shown(one.user)} published {plural(one.own, 'message-id')} to"
                f" {data.named(one.queue)} again, {period}"
            )
            words += f"; {most} came {one.messages:,} times"
        else:
            words = (
                f"{data.named(one.queue, True)} got {ids} more than once {period};"
                f" {most} {one.messages:,} times"
            )
        yield Finding(
            DUPLICATES, Severity.WARNING, one.queue.vhost,
            (one.queue.name, *([one.user] if one.user else [])), words,
            "Consumers get such messages twice.",
            "Publishers repeat messages after a lost confirm, and programs publish dead letters or"
            " exports again; consumers must tolerate it.",
            f"leveret journey TRACE_DIR --message-id {most}; table duplicates",
            one.first_us, one.last_us, one.ids,
        )  # fmt: skip


def hot_keys(data: Evidence) -> Iterator[Finding]:
    """Yield a finding for each routing key that has most of an exchange's messages."""
    for one in data.hot_keys:
        if one.share >= HOT_SHARE_MIN:
            name, key = exchange_shown(one.exchange), shown(one.routing_key) or "(none)"
            yield Finding(
                HOT_KEY, Severity.NOTE, one.vhost, (one.exchange,),
                f"{name[0].upper() + name[1:]}: {one.share:.0%} of its messages have the routing"
                f" key {key}",
                "One queue receives them all, whatever the number of queues.",
                "A consistent-hash exchange, or a key with more parts, would spread them.",
                f"table routing_keys, exchange {shown(one.exchange)}", weight=one.messages,
            )  # fmt: skip


def gaps(data: Evidence) -> Iterator[Finding]:
    """Yield a finding for each virtual host whose trace is incomplete."""
    for one in data.gaps:
        yield Finding(
            GAP, Severity.WARNING, one.vhost, (one.vhost,),
            f"The trace has {plural(one.gaps, 'gap')}, the first at"
            f" {data.clock(one.vhost, one.first_us)}:"
            f" {plural(one.lost, 'record')} could not be written",
            "Other findings may overstate a problem.",
            "The disk of the trace directory is too slow: use another, or sample.",
            "table gaps", one.first_us, one.last_us, one.lost,
        )  # fmt: skip


def unread(data: Evidence) -> Iterator[Finding]:
    """Yield a finding for each reason for which lines or files could not be read."""
    for one in data.unread:
        yield Finding(
            UNREAD, Severity.WARNING, "", (one.example,),
            f"{plural(one.times, 'line or file', 'lines or files')} of the trace could not be used:"
            f" {shown(one.reason)} (such as {shown(one.example)})",
            "", "The table rejected lists them.", "table rejected", weight=one.times,
        )  # fmt: skip
