"""Finds the time in which a figure differs from its usual, unless it may do so by chance. Pure.

Steps are told apart by whether they differ. A stretch is the run of steps with the largest sum, if
a step that differs counts 1 and another one -2: so a few others do not end it. It may be chance if
many steps outside differ, too: where a part p of them does, n that follow each other begin at p^n
of all steps.
"""

from collections.abc import Sequence
from typing import NamedTuple

OTHER_COUNTS, CHANCE_MAX = -2, 0.01
OTHERS_MAX = 0.3
"""The part of the steps outside that may differ: a figure that varies more has no usual."""
NEAR_MAX = 0.5
"""How many steps outside differ within the least length of a stretch."""


class Stretch(NamedTuple):
    """A run of steps: the first and the last one."""

    first: int
    last: int


def stretch(differs: Sequence[bool], least: int) -> Stretch | None:
    """Return the run in which most steps differ, at least `least` of them; None by chance."""
    best, total, begun, most = Stretch(0, -1), 0, 0, 0
    for step, one in enumerate(differs):
        if total <= 0:
            total, begun = 0, step
        total += 1 if one else OTHER_COUNTS
        if total > most:
            best, most = Stretch(begun, step), total
    inside, others = sum(differs[best.first : best.last + 1]), _others(differs, best)
    if inside < least or others > OTHERS_MAX or len(differs) * others**inside > CHANCE_MAX:
        return None
    whole = _extended(differs, best, least)
    # Where others differ anyway, those shortly before and after it say nothing.
    return whole if _others(differs, whole) * least < NEAR_MAX else best


def _others(differs: Sequence[bool], run: Stretch) -> float:
    """Return the part of the steps outside a run that differ; 0 if there are none."""
    outside = [*differs[: run.first], *differs[run.last + 1 :]]
    return (sum(outside) + 1) / (len(outside) + 2) if outside else 0.0


def _extended(differs: Sequence[bool], run: Stretch, within: int) -> Stretch:
    """Add steps that differ shortly before and after it: it begins and ends less densely."""
    first, last = run
    while earlier := [step for step in range(max(0, first - within), first) if differs[step]]:
        first = earlier[0]
    while later := [
        step for step in range(last + 1, min(len(differs), last + 1 + within)) if differs[step]
    ]:
        last = later[-1]
    return Stretch(first, last)


def usual(values: Sequence[float]) -> float:
    """Return the lower quartile, which stays where it is if half of a trace is slow."""
    return sorted(values)[len(values) // 4]
