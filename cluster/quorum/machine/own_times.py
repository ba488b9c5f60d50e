"""When each message of a run expires, if not all of the run expire at once.

The times are kept as they come in a publish: one number of 32 bits for each message, little-endian,
in milliseconds from a time that all have in common.
"""

from struct import Struct, pack, unpack
from typing import Final

from mypy_extensions import i64, mypyc_attr

TIME_BYTES: Final = 4
"""What the time of a message takes."""
LIFE_MAX_MS: Final = (1 << 32) - 1
_TIME: Final = Struct("<I")


@mypyc_attr(acyclic=True)
class OwnTimes:
    """Expiry times. Not changed: runs, their parts and effects share them.

    base_ms: from which the times in `data` count. first: the place of the message that has the
    first of them.
    """

    __slots__ = ("base_ms", "data", "first")

    def __init__(self, base_ms: int, first: int, data: bytes) -> None:
        self.base_ms: i64 = base_ms
        self.first: i64 = first
        self.data = data

    def at(self, place: int) -> int:
        """When the message at a place expires."""
        (left_ms,) = _TIME.unpack_from(self.data, (place - self.first) * TIME_BYTES)
        return self.base_ms + int(left_ms)

    def expired(self, place: int, count: int, now_ms: int) -> int:
        """How many of these messages have expired, up to the first that has not."""
        return self._alike(place, count, now_ms, True)

    def unexpired(self, place: int, count: int, now_ms: int) -> int:
        """How many of these messages have not expired, up to the first that has."""
        return self._alike(place, count, now_ms, False)

    def _alike(self, place: i64, count: i64, now_ms: i64, have_expired: bool) -> i64:
        data = self.data
        limit: i64 = now_ms - self.base_ms
        at: i64 = (place - self.first) * TIME_BYTES
        found: i64 = 0
        while found < count and (_time_at(data, at) <= limit) == have_expired:
            found += 1
            at += TIME_BYTES
        return found

    def due(self, place: int, count: int, now_ms: int) -> list[int]:
        """Which of these messages have expired, counted from 0."""
        found: list[int] = []
        data = self.data
        limit: i64 = now_ms - self.base_ms
        at: i64 = (place - self.first) * TIME_BYTES
        number: i64 = 0
        end: i64 = count
        while number < end:
            if _time_at(data, at) <= limit:
                found.append(number)
            number += 1
            at += TIME_BYTES
        return found

    def earliest(self, place: int, count: int) -> int:
        """When the first of these messages expires."""
        data = self.data
        at: i64 = (place - self.first) * TIME_BYTES
        end: i64 = at + count * TIME_BYTES
        least: i64 = _time_at(data, at)
        while at < end:
            time: i64 = _time_at(data, at)
            least = min(least, time)
            at += TIME_BYTES
        return self.base_ms + least

    def part(self, place: int, count: int) -> bytes:
        """The times of these messages, as bytes."""
        at = (place - self.first) * TIME_BYTES
        return self.data[at : at + count * TIME_BYTES]


def lives_of(times: bytes) -> list[int]:
    """Times as numbers."""
    return list(unpack(f"<{len(times) // TIME_BYTES}I", times))


def times_of(lives_ms: list[int]) -> bytes:
    """Numbers as times."""
    return pack(f"<{len(lives_ms)}I", *lives_ms)


def limited(lives: bytes, first: int, now_ms: int, earliest_ms: int, limit_ms: int) -> OwnTimes:
    """The times of published messages, of which the first expires at `earliest_ms`.

    lives: how long each lives. first: the place of the first one. limit_ms: how long messages may
    live; below 0: for ever. They live for a millisecond at least.
    """
    if limit_ms >= 0 or earliest_ms <= now_ms + 1:
        most_ms = max(limit_ms, 1) if limit_ms >= 0 else LIFE_MAX_MS
        lives = times_of([min(max(life_ms, 1), most_ms) for life_ms in lives_of(lives)])
    return OwnTimes(now_ms, first, lives)


def _time_at(data: bytes, at: i64) -> i64:
    time: i64 = data[at] | data[at + 1] << 8 | data[at + 2] << 16
    last: i64 = data[at + 3]
    return time | last << 24
