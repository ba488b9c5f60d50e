"""Buffers the lines of a trace in the event loop, and passes them to the writer thread in batches.

Lines wait for at most half a second, or until there are many: each batch makes the thread compete
with the event loop for the interpreter, which costs both of them. They are joined by the thousand,
while they are still in the processor's cache.

If the output is full when a batch is passed on, its lines are dropped and counted. When there is
room again, a line reports the gap.
"""

from collections.abc import Callable

from leveret.broker.clock import Clock, Timer
from leveret.broker.tracing.output import Output

LINES_MAX = 1024
BYTES_MAX = 256 * 1024
"""Lines are joined when bodies exceed this size, or there are `LINES_MAX` lines."""
BATCH_BYTES = 2 * 1024 * 1024
"""Size of a batch."""
WAIT_MS = 500
HOUR_US = 3_600_000_000

GapLine = Callable[[int, int, int], str]
"""Formats the line of a gap: its start and end in microseconds, and the number of lost lines."""


class Lines:
    """The lines of one trace. Lines are texts that end with a newline.

    pending: lines to be joined. turns_us: time from which `turn` must be called before adding a
    line. lost: lines dropped since the last reported gap. lost_in_all: lines dropped since the
    start.
    """

    def __init__(self, output: Output, clock: Clock, gap_line: GapLine) -> None:
        self.output = output
        self.lost = self.lost_in_all = self.written = 0
        self._clock = clock
        self._gap_line = gap_line
        self.pending: list[str] = []
        self.turns_us = 0
        self._body_bytes = 0
        self._joined: list[bytes] = []
        self._joined_bytes = self._joined_lines = 0
        self._began_us = 0
        self._gap_began_us = self._gap_ended_us = 0
        self._timer: Timer | None = None

    def add(self, time_us: int, line: str) -> None:
        """Add a line. Code that adds many lines repeats this in its own loop."""
        if time_us >= self.turns_us or len(self.pending) >= LINES_MAX:
            self.turn(time_us)
        self.pending.append(line)

    def turn(self, time_us: int) -> None:
        """Join the lines, and pass them on if the hour has ended or the batch is full."""
        self._join()
        if time_us < self.turns_us and self._joined_bytes < BATCH_BYTES:
            return
        self.flush()
        self._began_us = time_us
        self.turns_us = time_us - time_us % HOUR_US + HOUR_US
        if self._timer is None:
            self._timer = self._clock.call_later_ms(WAIT_MS, self._flush_in_time)

    def added_body(self, size: int) -> None:
        """Note that a line has a body of this size."""
        self._body_bytes += size
        if self._body_bytes >= BYTES_MAX:
            self._join()
            if self._joined_bytes >= BATCH_BYTES:
                self.flush()

    def flush(self) -> None:
        """Pass all lines on, or drop them if the output is full."""
        output = self.output
        self._join()
        self.turns_us = 0
        if output.is_full or (self.lost and not output.has_room_again):
            self._lose()
            return
        gap = self._take_gap()
        if self._joined:
            self.written += self._joined_lines
            output.hand(b"".join((gap, *self._joined)), self._began_us)
            self._forget_joined()
        elif gap:
            output.hand(gap, self._gap_ended_us)

    def close(self) -> None:
        """Pass the rest on, and close the output."""
        if self._timer is not None:
            self._timer.cancel()
        self.flush()
        if gap := self._take_gap():
            self.output.hand(gap, self._gap_ended_us)
        self.output.close()

    def _flush_in_time(self) -> None:
        self._timer = None
        self.flush()
        if self.lost:
            self._timer = self._clock.call_later_ms(WAIT_MS, self._flush_in_time)

    def _join(self) -> None:
        if self.pending:
            self._joined.append("".join(self.pending).encode("utf-8", "surrogateescape"))
            self._joined_bytes += len(self._joined[-1])
            self._joined_lines += len(self.pending)
            self.pending.clear()
        self._body_bytes = 0

    def _forget_joined(self) -> None:
        self._joined.clear()
        self._joined_bytes = self._joined_lines = 0

    def _lose(self) -> None:
        if not self._joined:
            return
        if not self.lost:
            self._gap_began_us = self._began_us
        self._gap_ended_us = int(self._clock.wall_time_s() * 1_000_000)
        self.lost += self._joined_lines
        self.lost_in_all += self._joined_lines
        self._forget_joined()

    def _take_gap(self) -> bytes:
        if not self.lost:
            return b""
        lost, self.lost = self.lost, 0
        return self._gap_line(self._gap_began_us, self._gap_ended_us, lost).encode()
