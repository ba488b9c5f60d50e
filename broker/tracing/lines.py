"""The lines of a trace in a format of RabbitMQ's plugin, which wait to be passed on (batches.py).

They are joined by the thousand, while they are still in the processor's cache.
"""

from collections.abc import Callable

from leveret.broker.runtime.clock import Clock
from leveret.broker.tracing.batches import Batches
from leveret.broker.tracing.output import TraceOutput

LINES_MAX = 1024
BYTES_MAX = 256 * 1024
"""Lines are joined when bodies exceed this size, or there are `LINES_MAX` lines."""
BATCH_BYTES = 2 * 1024 * 1024
"""Size of a batch."""

GapLine = Callable[[int, int, int], str]
"""Formats the line of a gap: its start and end in microseconds, and the number of lost lines."""


class TraceLines:
    """The lines of one trace. Lines are texts that end with a newline."""

    def __init__(self, output: TraceOutput, clock: Clock, gap_line: GapLine) -> None:
        self.batches = Batches(output, clock, self)
        self._gap_line = gap_line
        self._pending: list[str] = []
        self._body_bytes = 0
        self._joined: list[bytes] = []
        self._joined_bytes = self._joined_lines = 0

    def add(self, time_us: int, line: str, body_bytes: int) -> None:
        """Add a line, which has a body of this size."""
        if time_us >= self.batches.turns_us:
            self.batches.turn(time_us)
        self._pending.append(line)
        self._body_bytes += body_bytes
        if self._body_bytes >= BYTES_MAX or len(self._pending) >= LINES_MAX:
            self._join()
            if self._joined_bytes >= BATCH_BYTES:
                self.batches.flush()

    def take(self) -> tuple[bytes, int]:
        """Return all lines, and their number."""
        self._join()
        data, count = b"".join(self._joined), self._joined_lines
        self._joined.clear()
        self._joined_bytes = self._joined_lines = 0
        return data, count

    def gap(self, began_us: int, ended_us: int, lost: int) -> bytes:
        """Return the line of a gap."""
        return self._gap_line(began_us, ended_us, lost).encode()

    def _join(self) -> None:
        if self._pending:
            self._joined.append("".join(self._pending).encode("utf-8", "surrogateescape"))
            self._joined_bytes += len(self._joined[-1])
            self._joined_lines += len(self._pending)
            self._pending.clear()
        self._body_bytes = 0
