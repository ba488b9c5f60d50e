"""A series of samples of some counters, kept at several resolutions, and the rates it gives.

A sample is a time and a row of numbers. A row that equals the one before is not kept. When the
numbers change after a pause, the old row is added once more, an interval before the new one. So an
idle queue costs nothing. Facts: RabbitMQ's `exometer_slide` and its documentation on management
(`sample_retention_policies`, and the query parameters `lengths_age`, `lengths_incr` and so on).
"""

from bisect import bisect_right
from typing import Any, NamedTuple

Row = tuple[int, ...]


class SeriesRetention(NamedTuple):
    """Samples every `interval_s` seconds are kept for `span_s`."""

    span_s: int
    interval_s: int


GLOBAL = (
    SeriesRetention(605, 5),
    SeriesRetention(3660, 60),
    SeriesRetention(29_400, 600),
    SeriesRetention(88_200, 1800),
)
BASIC = (SeriesRetention(605, 5), SeriesRetention(3660, 60))
"""Ten minutes, an hour, eight hours and a day. Each span is longer by an interval or more, because
the times of a window are rounded and it may begin earlier."""


class SampleWindow(NamedTuple):
    """The samples that a request asks for: of the last `age_s` seconds, one every `increment_s`."""

    age_s: int
    increment_s: int


class Series:
    """The samples of one object, or of a sum over objects."""

    __slots__ = ("_levels", "_retention")

    def __init__(self, retention: tuple[SeriesRetention, ...] = BASIC) -> None:
        self._retention = retention
        self._levels: list[tuple[list[int], list[Row]]] = [([], []) for _ in retention]

    @property
    def last(self) -> Row | None:
        """The row that was added last."""
        rows = self._levels[0][1]
        return rows[-1] if rows else None

    @property
    def changed_ms(self) -> int:
        """When the numbers changed last, in milliseconds of wall-clock time; 0 without samples."""
        times = self._levels[0][0]
        return times[-1] if times else 0

    def is_of_another(self, row: Row, counters: int) -> bool:
        """Whether a row cannot follow, since one of its counters is lower than before.

        counters: how many of the columns never decrease. The first and the last of them are
        compared: those of input and output.
        """
        rows = self._levels[0][1]
        if not rows:
            return False
        last = rows[-1]
        return row[0] < last[0] or row[counters - 1] < last[counters - 1]

    def add(self, time_ms: int, row: Row) -> None:
        """Add a sample. time_ms: wall-clock time."""
        # Rounds are not quite regular: a sample may come a tenth of the shortest interval early.
        early_ms = self._retention[0].interval_s * 100
        for (times, rows), (span_s, interval_s) in zip(self._levels, self._retention, strict=True):
            interval_ms = interval_s * 1000
            if times and time_ms - times[-1] < interval_ms - early_ms:
                continue
            if rows and rows[-1] == row:
                continue
            if times and time_ms - times[-1] > interval_ms * 3 // 2:
                times.append(time_ms - interval_ms)
                rows.append(rows[-1])
            times.append(time_ms)
            rows.append(row)
            self._forget_old(times, rows, time_ms - span_s * 1000)

    @staticmethod
    def _forget_old(times: list[int], rows: list[Row], before_ms: int) -> None:
        # The newest of the old rows holds the numbers at the beginning of the window.
        place = bisect_right(times, before_ms) - 1
        if place > 0:
            del times[:place], rows[:place]

    def rate(self, column: int, now_ms: int) -> float:
        """The rate a second between the last two samples; 0 if nothing has changed lately."""
        times, rows = self._levels[0]
        if len(times) < 2 or now_ms - times[-1] > self._retention[0].interval_s * 2000:
            return 0.0
        seconds = (times[-1] - times[-2]) / 1000
        return (rows[-1][column] - rows[-2][column]) / seconds if seconds > 0 else 0.0

    def details(
        self, column: int, now_ms: int, window: SampleWindow | None = None
    ) -> dict[str, Any]:
        """The fields that RabbitMQ shows beside a number: its rate, and the samples of a window."""
        samples = [] if window is None else self.samples(column, now_ms, window)
        return _details(self.rate(column, now_ms), samples, window)

    def samples(self, column: int, now_ms: int, window: SampleWindow) -> list[dict[str, int]]:
        """The numbers of a column at regular times, the newest first."""
        times, rows = self._level_for(window.age_s)
        step_ms = window.increment_s * 1000
        newest = now_ms // step_ms * step_ms
        found = []
        for time_ms in range(newest, newest - window.age_s * 1000 - 1, -step_ms):
            place = bisect_right(times, time_ms) - 1
            value = rows[place][column] if place >= 0 else 0
            found.append({"sample": value, "timestamp": time_ms})
        return found

    def _level_for(self, age_s: int) -> tuple[list[int], list[Row]]:
        for level, retention in zip(self._levels, self._retention, strict=True):
            if retention.span_s >= age_s:
                return level
        return self._levels[-1]


class SeriesSum:
    """Several series of the same columns as one: the sums of their numbers."""

    def __init__(self, parts: list[Series]) -> None:
        self._parts = parts

    @property
    def last(self) -> Row | None:
        """The sums of the rows that were added last; None without any."""
        rows = [part.last for part in self._parts if part.last is not None]
        return tuple(map(sum, zip(*rows, strict=True))) if rows else None

    def details(
        self, column: int, now_ms: int, window: SampleWindow | None = None
    ) -> dict[str, Any]:
        """The rate and the samples of the sum, as `Series.details` gives them."""
        rate = sum(part.rate(column, now_ms) for part in self._parts)
        if window is None:
            return _details(rate, [], None)
        listed = [part.samples(column, now_ms, window) for part in self._parts]
        samples = [
            {"sample": sum(one["sample"] for one in same), "timestamp": same[0]["timestamp"]}
            for same in zip(*listed, strict=True)
        ]
        return _details(rate, samples, window)


def _details(
    rate: float, samples: list[dict[str, int]], window: SampleWindow | None
) -> dict[str, Any]:
    details: dict[str, Any] = {"rate": round(rate, 2)}
    if window is None:
        return details
    details["samples"] = samples
    if len(samples) > 1:
        first, last = samples[-1], samples[0]
        seconds = (last["timestamp"] - first["timestamp"]) / 1000
        details["avg_rate"] = (last["sample"] - first["sample"]) / seconds
        details["avg"] = sum(sample["sample"] for sample in samples) / len(samples)
    return details
