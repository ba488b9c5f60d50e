"""Which segments of a stream are too many or too old. Pure.

Whole segments go, oldest first. RabbitMQ looks at them only when a segment is full, and never
removes the last one. Here a timer also looks at them, and a last segment whose messages are all too
old is ended, so that it can be removed.

SLG6  The oldest segments go first, and the last one stays.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol


class SegmentFigures(Protocol):
    """A segment, as retention sees it. end_ms: the time of its last chunk."""

    size_bytes: int
    end_ms: int
    first_offset: int


class Retention(NamedTuple):
    """How much is kept. None: any amount."""

    bytes_max: int | None = None
    age_max_ms: int | None = None

    def times(self, factor: int) -> "Retention":
        """The same with larger limits."""
        octets, age_ms = self.bytes_max, self.age_max_ms
        return Retention(
            None if octets is None else octets * factor, None if age_ms is None else age_ms * factor
        )


def too_many(segments: Sequence[SegmentFigures], kept: Retention, now_ms: int) -> int:
    """How many of the oldest segments to remove; never all (SLG6)."""
    left = sum(segment.size_bytes for segment in segments)
    count = 0
    for segment in segments[:-1]:
        is_too_large = kept.bytes_max is not None and left > kept.bytes_max
        if not is_too_large and not _is_too_old(segment, kept, now_ms):
            break
        left -= segment.size_bytes
        count += 1
    return count


def is_last_too_old(last: SegmentFigures, next_offset: int, kept: Retention, now_ms: int) -> bool:
    """Whether to end the last segment: it has messages, and all are too old."""
    return next_offset > last.first_offset and _is_too_old(last, kept, now_ms)


def look_at_ms(segments: Sequence[SegmentFigures], next_offset: int, kept: Retention) -> int:
    """When the next segment becomes too old; 0 if none does."""
    if kept.age_max_ms is None:
        return 0
    oldest = segments[0]
    if len(segments) == 1 and next_offset == oldest.first_offset:
        return 0
    return oldest.end_ms + kept.age_max_ms + 1


def _is_too_old(segment: SegmentFigures, kept: Retention, now_ms: int) -> bool:
    return kept.age_max_ms is not None and segment.end_ms < now_ms - kept.age_max_ms
