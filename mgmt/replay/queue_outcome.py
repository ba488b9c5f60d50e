"""Compares the queues of the target with those of the trace, as lines of text. Pure.

If copies were consumed, the wait of each message is known, in the trace and now. Otherwise the mean
is estimated from the queue's length over time (Little's law), in both cases.
"""

from collections.abc import Iterator

from leveret.analytics.formatting import duration, plural, shown
from leveret.mgmt.perf.histogram import LatencyHistogram
from leveret.mgmt.replay.inquiry import WatchedQueue
from leveret.mgmt.replay.original import Original
from leveret.mgmt.replay.wait_times import QueueWaits, WaitTimes

LISTED_MAX = 20
DIFFERENCE_TIMES = 2.0
ESTIMATE_DIFFERENCE_US, DIFFERENCE_US = 50_000.0, 5_000.0
"""A wait differs if it is DIFFERENCE_TIMES the other one, and longer or shorter by this much."""


def queue_lines(
    original: Original, watched: dict[str, WatchedQueue], now: WaitTimes | None
) -> Iterator[str]:
    """Describe all queues named in the trace, and those that messages were routed to now."""
    names = [name for name, _ in original.sent_to.most_common() if name in watched]
    if not names:
        yield "  none named in the trace"
    for name in names[:LISTED_MAX]:
        waits = None if now is None else now.queues.get(name, QueueWaits())
        yield f"  {shown(name)}: {_queue(original, watched[name], waits)}"
        if waits is not None and original.wait_times is not None:
            then = original.wait_times.queues.get(name, QueueWaits())
            yield f"    waits now: {_waits(waits)}{_difference(then.taken, waits.taken)}"
            yield f"    waits in the trace: {_waits(then)}"
    if len(names) > LISTED_MAX:
        yield f"  and {len(names) - LISTED_MAX:,} more"
    if now is not None:
        yield from _others(original, now)


def percentiles(waits: LatencyHistogram) -> str:
    """Format the percentiles of durations."""
    shares = (("median", 0.5), ("p95", 0.95), ("p99", 0.99), ("longest", 1.0))
    return ", ".join(f"{duration(int(waits.percentile(share)))} ({name})" for name, share in shares)


def _queue(original: Original, watched: WatchedQueue, waits: QueueWaits | None) -> str:
    came = original.sent_to[watched.name]
    words = f"{came:,} in the trace"
    if waits is not None:
        words += f", {waits.came:,} now{_more(waits.came - came)}"
    if watched.problem:
        return f"{words}; now unavailable: {shown(watched.problem)}"
    before, after = watched.before or 0, watched.after or 0
    words += f"; {before:,} messages before, {after:,} after"
    if not watched.consumers:
        if waits is None and after - before != came:
            words += f", {_more(after - before - came)[2:]} than in the trace"
        return f"{words}; no consumers now{_estimate(original, watched) if waits is None else ''}"
    then = original.waits[watched.name]
    words += (
        f"; {plural(watched.consumers, 'consumer')}; at most {watched.waits.depth_max:,} ready"
        f" (in the trace {then.depth_max:,})"
    )
    return words + (_estimate(original, watched) if waits is None else "")


def _more(difference: int) -> str:
    if not difference:
        return ""
    return f": {abs(difference):,} {'more' if difference > 0 else 'fewer'}"


def _others(original: Original, now: WaitTimes) -> Iterator[str]:
    others = [(one.came, name) for name, one in now.queues.items() if name not in original.sent_to]
    for came, name in sorted(others, reverse=True)[:LISTED_MAX]:
        yield f"  {shown(name)}: none in the trace, {came:,} now"


# Measured waits


def _waits(waits: QueueWaits) -> str:
    if not waits.came:
        return "no messages"
    if not waits.taken.total:
        return f"none of {plural(waits.came, 'message')} was delivered"
    words = f"{percentiles(waits.taken)}, of {plural(waits.taken.total, 'message')} delivered"
    left = waits.came - waits.taken.total
    return f"{words}; {left:,} were not" if left else words


def _difference(then: LatencyHistogram, now: LatencyHistogram) -> str:
    if not then.total or not now.total:
        return ""
    return _compared(then.percentile(0.99), now.percentile(0.99), DIFFERENCE_US)


def _compared(then_us: float, now_us: float, least_us: float) -> str:
    if abs(now_us - then_us) < least_us:
        return ""
    if now_us > then_us * DIFFERENCE_TIMES:
        return ": longer"
    return ": shorter" if now_us * DIFFERENCE_TIMES < then_us else ""


# Estimated waits


def _estimate(original: Original, watched: WatchedQueue) -> str:
    """Return the mean wait that the queue's lengths give."""
    then_us = original.waits[watched.name].mean_us()
    if not watched.consumers:
        if then_us is None:
            return ""
        return f"; in the trace the mean wait was about {_about(then_us)}"
    now_us = watched.waits.mean_us(original.sent_to[watched.name]) or 0.0
    words = f"; mean wait estimated from its length: {_about(now_us)} now"
    if then_us is None:
        return words
    difference = _compared(then_us, now_us, ESTIMATE_DIFFERENCE_US)
    return f"{words}, {_about(then_us)} in the trace{difference}"


def _about(wait_us: float) -> str:
    return "0 ms" if wait_us < 500 else duration(int(wait_us))
