"""Times in which messages wait in a queue. Pure."""

from typing import NamedTuple

from leveret.analytics.findings.evidence import QueueSteps

READY_MIN, PEAK_MIN, PEAK_SHARE = 10, 40, 0.1
"""An episode is a time when this number of messages waits, and a part of the longest backlog."""


class Episode(NamedTuple):
    """A time in which messages wait in a queue, in steps. ends: None if it lasts to the end."""

    begins: int
    ends: int | None
    peak_step: int
    peak: int


def episodes(steps: QueueSteps) -> list[Episode]:
    """Return the times in which many messages wait."""
    highest = max(steps.ready_max.values(), default=0)
    if highest < PEAK_MIN:
        return []
    usual = sorted(steps.ready_max.values())[len(steps.ready_max) // 2]
    least = max(READY_MIN, min(PEAK_SHARE * highest, 2 * usual))
    found, begun, rising = list[Episode](), None, None
    peak, peak_step = 0, 0
    for step in sorted(steps.ready_max):
        most, ready = steps.ready_max[step], steps.ready[step]
        if rising is None and most >= READY_MIN:
            rising = step
        if begun is None and most >= least:
            begun, peak, peak_step = rising, most, step
        elif begun is not None and most > peak:
            peak, peak_step = most, step
        if begun is not None and ready < least:
            found.append(Episode(begun, step, peak_step, peak))
            begun = None
        if ready < READY_MIN:
            rising = None
    if begun is not None:
        found.append(Episode(begun, None, peak_step, peak))
    return [one for one in found if one.peak >= PEAK_MIN]


def times(steps: QueueSteps, episode: Episode) -> tuple[int, int | None]:
    """Return when an episode begins and ends."""
    span = steps.span
    until_us = None if episode.ends is None else span.time_of(episode.ends + 1)
    return span.time_of(episode.begins), until_us


def waiting(steps: QueueSteps, episode: Episode) -> str:
    """Return how many messages wait, in words."""
    if episode.ends is not None:
        return f"up to {episode.peak:,} waited"
    return f"{steps.ready[max(steps.ready)]:,} are waiting at the end"
