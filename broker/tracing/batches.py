"""Passes a trace's records to the writer thread, in batches.

Records wait in the event loop for at most half a second, or until there are many: each batch makes
the thread compete with the event loop for the interpreter, which slows both down. All records of a
batch are of one hour.

If the output is full when a batch is passed on, its records are dropped and counted. When there is
room again, a record reports the gap.
"""

from typing import Final, Protocol

from leveret.broker.runtime.clock import Clock, Timer
from leveret.broker.tracing.output import TraceOutput

WAIT_MS: Final = 500
HOUR_US: Final = 3_600_000_000


class PendingRecords(Protocol):
    """The records that wait to be passed on."""

    def take(self) -> tuple[bytes, int]:
        """Return them as a batch, and their number; later records are in the next batch."""

    def gap(self, began_us: int, ended_us: int, lost: int) -> bytes:
        """Return a batch that reports the number of missing records in this period."""


class _Nothing:
    """Stands for the pending records of a trace that has ended."""

    def take(self) -> tuple[bytes, int]:
        """Return no records."""
        return b"", 0

    def gap(self, began_us: int, ended_us: int, lost: int) -> bytes:
        """Return no report."""
        return b""


NOTHING: Final = _Nothing()


class Batches:
    """The batches of one trace.

    turns_us: time from which `turn` must be called before a record is added. lost: records dropped
    since the last reported gap. lost_in_all: records dropped since the start.
    """

    def __init__(self, output: TraceOutput, clock: Clock, pending: PendingRecords) -> None:
        self.output = output
        self.lost = self.lost_in_all = self.written = 0
        self.turns_us = 0
        self._clock = clock
        self._pending: PendingRecords = pending
        self._began_us = 0
        self._gap_began_us = self._gap_ended_us = 0
        self._timer: Timer | None = None

    def turn(self, time_us: int) -> None:
        """Pass the batch on, and start another one with a record of this time."""
        self.flush()
        self._began_us = time_us
        self.turns_us = time_us - time_us % HOUR_US + HOUR_US
        if self._timer is None:
            self._timer = self._clock.call_later_ms(WAIT_MS, self._flush_in_time)

    def flush(self) -> None:
        """Pass all records on, or drop them if the output is full."""
        output = self.output
        data, count = self._pending.take()
        self.turns_us = 0
        if output.is_full or (self.lost and not output.has_room_again):
            self._lose(count)
            return
        self._report_gap()
        if count:
            self.written += count
            output.hand(data, self._began_us)

    def close(self) -> None:
        """Pass the rest on, and close the output."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.flush()
        self._report_gap()
        self.output.close()
        # This refers to the owner of these batches: breaking the cycle frees both immediately.
        self._pending = NOTHING

    def _flush_in_time(self) -> None:
        self._timer = None
        self.flush()
        if self.lost:
            self._timer = self._clock.call_later_ms(WAIT_MS, self._flush_in_time)

    def _lose(self, count: int) -> None:
        if not count:
            return
        if not self.lost:
            self._gap_began_us = self._began_us
        self._gap_ended_us = int(self._clock.wall_time_s() * 1_000_000)
        self.lost += count
        self.lost_in_all += count

    def _report_gap(self) -> None:
        if self.lost:
            gap = self._pending.gap(self._gap_began_us, self._gap_ended_us, self.lost)
            self.lost = 0
            self.output.hand(gap, self._gap_ended_us)
