"""Which messages of a queue take its consumers long, while others do not. Pure.

How long a consumer holds a message includes the work on those that it got before, so kinds of
messages are compared by the least time of each minute: one that met no other. A routing key or a
size explains slow consumers if the least time of its messages is far above that of all others.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from statistics import median
from typing import NamedTuple

from leveret.analytics.findings.changes import first_step
from leveret.analytics.findings.evidence import HeldKind
from leveret.analytics.formatting import MINUTE_US, amount, duration, shown

TIMES_MIN, LEAST_MIN_US, MESSAGES_MIN = 5, 50_000, 5


class _Slow(NamedTuple):
    """What slow messages have, in words, and the least times of these and of the others.

    since: the step since which they are slow, if they were quick before.
    """

    words: str
    least_us: float
    others_us: float
    since: int | None


def slow_kind(kinds: Sequence[HeldKind], during: Collection[int], step_us: int) -> str:
    """Say which messages took long in some steps, as the end of a sentence; empty if all did."""
    best = _slowest(kinds, during, step_us)
    if best is None:
        return ""
    return (
        f"; messages with {best.words} take at least {duration(int(best.least_us))}, and others"
        f" {duration(int(best.others_us))}"
    )


def slow_since(kinds: Sequence[HeldKind], during: Collection[int], step_us: int) -> int | None:
    """Return the step since which those messages are slow; None if they have always been."""
    best = _slowest(kinds, during, step_us)
    return None if best is None else best.since


def _slowest(kinds: Sequence[HeldKind], during: Collection[int], step_us: int) -> _Slow | None:
    # A minute counts if one of its steps does.
    later = range(max(1, MINUTE_US // step_us))
    during = {step - more for step in during for more in later}
    found = [
        _Slow(words, slow_us, others_us, _since([one for one in kinds if has(one)], slow_us))
        for words, has in _candidates(kinds)
        if (slow_us := _least_us([one for one in kinds if has(one)], during)) is not None
        and (others_us := _least_us([one for one in kinds if not has(one)], during)) is not None
        and slow_us >= max(LEAST_MIN_US, TIMES_MIN * others_us)
    ]  # fmt: skip
    return max(found, key=lambda one: one.least_us / max(1, one.others_us), default=None)


def _since(kinds: Sequence[HeldKind], slow_us: float) -> int | None:
    """Return the step since which the least time of most minutes is like that of slow ones."""
    least: dict[int, float] = {}
    for one in kinds:
        for step, (_, least_us) in one.held.items():
            least[step] = min(least_us, least.get(step, least_us))
    since = first_step(least, slow_us / 2, grows=True)
    return None if since == min(least) else since


def _candidates(kinds: Sequence[HeldKind]) -> Iterator[tuple[str, Callable[[HeldKind], bool]]]:
    for key in sorted({one.routing_key for one in kinds}):
        yield f"routing key {shown(key)}", _with_key(key)
    for size in sorted({one.up_to_bytes for one in kinds})[1:]:
        yield f"a size above {amount(size / 2)}", _at_least(size)


def _with_key(key: str) -> Callable[[HeldKind], bool]:
    return lambda one: one.routing_key == key


def _at_least(size: int) -> Callable[[HeldKind], bool]:
    return lambda one: one.up_to_bytes >= size


def _least_us(kinds: Sequence[HeldKind], during: Collection[int]) -> float | None:
    """Return the least time of a minute that is usual in some steps; None of few messages."""
    least: dict[int, int] = {}
    messages = 0
    for one in kinds:
        for step, (count, least_us) in one.held.items():
            if step in during:
                messages += count
                least[step] = min(least_us, least.get(step, least_us))
    return median(least.values()) if messages >= MESSAGES_MIN else None
