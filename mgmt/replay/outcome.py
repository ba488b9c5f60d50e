"""Compares the result of a replay with the trace, as lines of text. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass

from leveret.analytics.formatting import duration, exchange_shown, plural, shown
from leveret.mgmt.replay.copies import Copies
from leveret.mgmt.replay.inquiry import Inquiry
from leveret.mgmt.replay.original import Original, Tally
from leveret.mgmt.replay.player import Player
from leveret.mgmt.replay.queue_outcome import LISTED_MAX, percentiles, queue_lines
from leveret.mgmt.replay.source import ReplaySource
from leveret.mgmt.replay.wait_times import FOLLOWED_MAX, QUEUES_MAX

PROBLEMS_SHOWN_MAX = 10


@dataclass
class ReplayOutcome:
    """A replay and its result. copies: None if waits are not measured."""

    source: ReplaySource
    player: Player
    inquiry: Inquiry
    copies: Copies | None = None
    has_all_copies: bool = False


def outcome_lines(outcome: ReplayOutcome) -> list[str]:
    """Return all lines."""
    source, player = outcome.source, outcome.player
    lines = [*_published(player), *left_out(source), *_missing(player, outcome.inquiry)]
    lines += _confirms(player)
    lines += ["", "Unrouted:", *_unrouted(source.original, player)]
    copies = outcome.copies
    waits = None if copies is None else copies.waits
    lines += ["", "Queues:"]
    lines += queue_lines(source.original, outcome.inquiry.queues, waits)
    if copies is not None:
        lines += ["", *_copies(copies, player, outcome.has_all_copies)]
    return lines


def planned(source: ReplaySource, size: int, span_us: int, speed: float) -> list[str]:
    """Describe the messages that a replay would publish."""
    takes = (
        f"at {speed:g} times its speed that takes {duration(int(span_us / speed))}"
        if speed
        else ("as fast as possible")
    )
    lines = [
        f"{plural(source.count, 'message')} would be published, {size:,} bytes of bodies; the trace"
        f" spans {duration(span_us)}, and {takes}"
    ]
    lines += [
        f"  {exchange_shown(name)}: {plural(messages, 'message')}"
        for name, messages in source.by_exchange.most_common(LISTED_MAX)
    ]
    queues = source.original.sent_to
    lines += [f"  originally routed to queue {shown(name)}: {plural(messages, 'message')}"
              for name, messages in queues.most_common(LISTED_MAX)]  # fmt: skip
    if source.original.unrouted.total:
        lines.append(
            f"  originally routed to no queue: {plural(source.original.unrouted.total, 'message')}"
        )
    return lines + list(left_out(source))


def left_out(source: ReplaySource) -> Iterator[str]:
    """Describe the messages that are not replayed, and why."""
    for reason, count in source.skipped.most_common():
        if count:
            yield f"{plural(count, 'message')} skipped, {reason}"
    if source.adjusted:
        yield f"{plural(source.adjusted, 'message')} without the user-id of another user"
    samples = sorted(sample for sample in source.samples if sample > 1)
    if samples:
        yield f"The trace is a sample of one message in {' or '.join(map(str, samples))}"
    for problem in source.problems[:PROBLEMS_SHOWN_MAX]:
        yield f"not read: {problem}"
    more = len(source.problems) + source.lost - PROBLEMS_SHOWN_MAX
    if more > 0:
        yield f"not read: {more:,} more problems"


def _published(player: Player) -> Iterator[str]:
    took_s = max(player.ended_at - player.started_at, 1e-6)
    yield (
        f"{plural(player.sent, 'message')} published in {duration(int(took_s * 1e6))}"
        f" ({player.sent / took_s:,.0f} per second, {player.sent_bytes:,} bytes of bodies)"
    )
    if player.late.total:
        most, latest = (duration(int(player.late.percentile(share))) for share in (0.99, 1))
        yield f"They were sent at most {most} late (99 % of them), the latest {latest}"


def _missing(player: Player, inquiry: Inquiry) -> Iterator[str]:
    for name, count in sorted(player.missing.items(), key=lambda item: -item[1])[:LISTED_MAX]:
        yield (
            f"{plural(count, 'message')} not sent to {exchange_shown(name)}:"
            f" {shown(inquiry.refusals.get(name, ''))}"
        )


def _confirms(player: Player) -> Iterator[str]:
    if player.confirms.latencies.total:
        yield f"Confirms took {percentiles(player.confirms.latencies)}"
    if player.nacked:
        yield f"{plural(player.nacked, 'message')} refused by the broker (basic.nack)"
    if player.confirms.open:
        yield f"{plural(player.confirms.open, 'message')} not confirmed"


def _copies(copies: Copies, player: Player, has_all: bool) -> Iterator[str]:
    if copies.lags.total:
        yield f"Waits were measured by copies, which arrived {percentiles(copies.lags)} later"
    if missing := player.sent - copies.seen:
        yield (
            f"{plural(missing, 'copy', 'copies')} of publishes did not arrive: waits are known for"
            " the others only"
        )
    if not has_all:
        yield "The last copies did not arrive in time: some waits may be missing"
    if unfollowed := copies.waits.unfollowed:
        yield (
            f"{plural(unfollowed, 'message')} not measured: more than {FOLLOWED_MAX:,} waited at"
            f" the same time, or in more than {QUEUES_MAX:,} queues"
        )


def _unrouted(original: Original, player: Player) -> Iterator[str]:
    then, now = original.unrouted, player.returned
    if not then.total and not now.total:
        yield "  none, in the trace and now"
        return
    yield f"  {then.total:,} in the trace, {now.total:,} now"
    differences = _differences(then, now)
    for difference, exchange, key in differences[:LISTED_MAX]:
        where = f"{exchange_shown(exchange)}, routing key {shown(key) or '(none)'}"
        was, is_now = then.counts[exchange, key], now.counts[exchange, key]
        more = "more" if difference > 0 else "fewer"
        yield f"  {where}: {was:,} in the trace, {is_now:,} now: {abs(difference):,} {more}"
    if len(differences) > LISTED_MAX:
        yield f"  and {len(differences) - LISTED_MAX:,} more routing keys"


def _differences(then: Tally, now: Tally) -> list[tuple[int, str, str]]:
    addresses = then.counts.keys() | now.counts.keys()
    found = [(now.counts[one] - then.counts[one], *one) for one in addresses]
    return sorted((one for one in found if one[0]), key=lambda one: (-abs(one[0]), one[1:]))
