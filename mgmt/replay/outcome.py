"""How a replay's outcome differs from what the trace says, in lines. Pure."""

from collections.abc import Iterator

from analytics.wording import duration, exchange_shown, plural, shown
from mgmt.replay.original import Original, Tally
from mgmt.replay.player import Player, Watched
from mgmt.replay.source import Source

LISTED_MAX = 20
PROBLEMS_SHOWN_MAX = 10
DIFFERENCE_TIMES, DIFFERENCE_US = 2.0, 50_000.0
"""A mean wait is another one if it is so many times the first, and so much more or less."""


def told(source: Source, player: Player) -> list[str]:
    """All of it."""
    lines = [*_published(player), *left_out(source), *_missing(player)]
    lines += _confirms(player)
    lines += ["", "Unrouted:", *_unrouted(source.original, player)]
    lines += ["", "Queues:", *_queues(source.original, player)]
    return lines


def planned(source: Source, count: int, size: int, span_us: int, speed: float) -> list[str]:
    """What a replay would do, if it is not to be done."""
    takes = (
        f"at {speed:g} times its pace that takes {duration(int(span_us / speed))}"
        if speed
        else ("as fast as possible")
    )
    lines = [
        f"{plural(count, 'message')} would be published, {size:,} bytes of bodies; the trace takes"
        f" {duration(span_us)} for them, and {takes}"
    ]
    lines += [
        f"  {exchange_shown(name)}: {plural(messages, 'message')}"
        for name, messages in source.by_exchange.most_common(LISTED_MAX)
    ]
    queues = source.original.sent_to
    lines += [f"  then routed to queue {shown(name)}: {plural(messages, 'message')}"
              for name, messages in queues.most_common(LISTED_MAX)]  # fmt: skip
    if source.original.unrouted.total:
        lines.append(
            f"  then routed to no queue: {plural(source.original.unrouted.total, 'message')}"
        )
    return lines + list(left_out(source))


def left_out(source: Source) -> Iterator[str]:
    """What of the trace is not replayed, and why."""
    for reason, count in source.skipped.most_common():
        if count:
            yield f"{plural(count, 'message')} left out, {reason}"
    if source.adjusted:
        yield f"{plural(source.adjusted, 'message')} without the user-id of another user"
    samples = sorted(sample for sample in source.samples if sample > 1)
    if samples:
        yield f"The trace is a sample: it holds one message in {' or '.join(map(str, samples))}"
    for problem in source.problems[:PROBLEMS_SHOWN_MAX]:
        yield f"not read: {problem}"
    more = len(source.problems) + source.lost - PROBLEMS_SHOWN_MAX
    if more > 0:
        yield f"not read: {more:,} more places"


def _published(player: Player) -> Iterator[str]:
    took_s = max(player.ended_at - player.started_at, 1e-6)
    yield (
        f"{plural(player.sent, 'message')} published in {duration(int(took_s * 1e6))}"
        f" ({player.sent / took_s:,.0f} a second, {player.sent_bytes:,} bytes of bodies)"
    )
    if player.behind_s >= 1:
        yield (
            f"The pace was not kept: at worst it was {duration(int(player.behind_s * 1e6))} behind"
        )


def _missing(player: Player) -> Iterator[str]:
    for name, count in sorted(player.missing.items(), key=lambda item: -item[1])[:LISTED_MAX]:
        yield (
            f"{plural(count, 'message')} not sent to {exchange_shown(name)}:"
            f" {shown(player.reasons.get(name, ''))}"
        )


def _confirms(player: Player) -> Iterator[str]:
    latencies = player.confirms.latencies
    if latencies.total:
        median, high = (duration(int(latencies.percentile(share))) for share in (0.5, 0.99))
        longest = duration(latencies.maximum or 0)
        yield f"Confirms took {median} (median), {high} (p99), {longest} (longest)"
    if player.nacked:
        yield f"{plural(player.nacked, 'message')} refused by the broker (basic.nack)"
    if player.confirms.open:
        yield f"{plural(player.confirms.open, 'message')} without an answer from the broker"


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


def _queues(original: Original, player: Player) -> Iterator[str]:
    names = [name for name, _ in original.sent_to.most_common() if name in player.queues]
    if not names:
        yield "  none that the trace names"
    for name in names[:LISTED_MAX]:
        yield f"  {shown(name)}: {_queue(original, player.queues[name])}"
    if len(names) > LISTED_MAX:
        yield f"  and {len(names) - LISTED_MAX:,} more"


def _queue(original: Original, watched: Watched) -> str:
    came = original.sent_to[watched.name]
    if watched.problem:
        return f"{came:,} came in the trace; now it cannot be seen: {shown(watched.problem)}"
    before, after = watched.before or 0, watched.after or 0
    words = f"{came:,} came in the trace; {before:,} messages before, {after:,} after"
    then = original.waits[watched.name]
    if not watched.consumers:
        short = came - (after - before)
        if short:
            words += f", which is {abs(short):,} {'fewer' if short > 0 else 'more'} than came then"
        then_us = then.mean_us()
        waited = "" if then_us is None else f"; mean wait in the trace about {_wait(then_us)}"
        return f"{words}; no consumers now{waited}"
    now_us = watched.waits.mean_us(came) or 0.0
    words += (
        f"; {plural(watched.consumers, 'consumer')}; at most {watched.waits.depth_max:,} waited"
    )
    words += f" (in the trace {then.depth_max:,})"
    return f"{words}; mean wait about {_wait(now_us)} now{_then(then.mean_us(), now_us)}"


def _wait(wait_us: float) -> str:
    return "0 ms" if wait_us < 500 else duration(int(wait_us))


def _then(then_us: float | None, now_us: float) -> str:
    if then_us is None:
        return ""
    words = f", {_wait(then_us)} in the trace"
    if abs(now_us - then_us) < DIFFERENCE_US:
        return words
    if now_us > then_us * DIFFERENCE_TIMES:
        return f"{words}: longer"
    return f"{words}: shorter" if now_us * DIFFERENCE_TIMES < then_us else words
