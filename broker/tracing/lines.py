"""What a trace has to say, gathered in the event loop until it is worth to hand it to the thread.

Lines wait for half a second at most, or until there are many: each time that it gets something the
thread takes turns with the loop at the interpreter, which costs both of them. But they are joined
by the thousand, while a processor's cache still has them.

If the output is full when they are to be handed over, they are left out and counted, and as soon as
there is room again a line says so: a gap.
"""

from collections.abc import Callable

from broker.clock import Clock, Timer
from broker.tracing.output import Output

LINES_MAX = 1024
BYTES_MAX = 256 * 1024
"""Of bodies, which can make lines long: more than this, or than `LINES_MAX`, is joined."""
BATCH_BYTES = 2 * 1024 * 1024
"""So much is handed over."""
WAIT_MS = 500
HOUR_US = 3_600_000_000

GapLine = Callable[[int, int, int], str]
"""Says, of a gap, when it began and ended and how many lines it has cost."""


class Lines:
    """The lines of one trace. They are texts, and end with a newline.

    pending: what waits to be joined. turns_us: when a call of `turn` is due before more is added.
    lost: lines left out since the last gap that was written. lost_in_all: since the start.
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
        """Say one thing. Whoever has many to say does in its loop what this does."""
        if time_us >= self.turns_us or len(self.pending) >= LINES_MAX:
            self.turn(time_us)
        self.pending.append(line)

    def turn(self, time_us: int) -> None:
        """Join what there is, or hand it over and begin anew: an hour is over, or there is much."""
        self._join()
        if time_us < self.turns_us and self._joined_bytes < BATCH_BYTES:
            return
        self.flush()
        self._began_us = time_us
        self.turns_us = time_us - time_us % HOUR_US + HOUR_US
        if self._timer is None:
            self._timer = self._clock.call_later_ms(WAIT_MS, self._flush_in_time)

    def added_body(self, size: int) -> None:
        """A line is longer by so many bytes than lines are."""
        self._body_bytes += size
        if self._body_bytes >= BYTES_MAX:
            self._join()
            if self._joined_bytes >= BATCH_BYTES:
                self.flush()

    def flush(self) -> None:
        """Hand over what there is, or leave it out."""
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
        """Hand over the rest, and close the output."""
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
