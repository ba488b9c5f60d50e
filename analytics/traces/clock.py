"""Notices that the clock of a node went back: records of a log are in the order of events."""

import pyarrow as pa
import pyarrow.compute as pc

from leveret.analytics.traces.log_blocks import Problem

BACK_US, YEARS_US = 10_000_000, 30 * 86_400_000_000
"""A jump of less than the first is ignored; a record that is off by more than the second is itself
wrong (tables/plausible.py)."""
WENT_BACK = "the clock went back"
"""How the reason of such a problem begins."""


class RecordClock:
    """The times of the records of a log, in their order."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._last: int | None = None

    def jumps_of(self, times_us: pa.Array) -> list[Problem]:
        """Return a problem for each jump within the next records, or before them."""
        if self._last is not None:
            times_us = pa.concat_arrays([pa.array([self._last], pa.int64()), times_us])
        times_us = times_us.drop_null()
        if not len(times_us):
            return []
        self._last = times_us[-1].as_py()
        steps = pc.pairwise_diff(times_us)
        back = pc.and_(pc.less(steps, -BACK_US), pc.greater(steps, -YEARS_US))
        return [
            Problem(self._path, None, f"{WENT_BACK} by {-step / 1e6:,.0f} s; the records are used")
            for step in steps.filter(back).to_pylist()
        ]
