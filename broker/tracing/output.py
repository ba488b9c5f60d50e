"""Writes the batches of all traces in one thread, with a bounded buffer for each trace.

The event loop passes batches of bytes to a `TraceOutput` and does not wait. An output accepts
batches up to a number of bytes. If the thread cannot keep up, the output is full, and its user must
drop and count lines until there is room again (lines.py).

The thread writes a batch to the output's `TraceDestination`. If that fails, for example because the
disk is full, it keeps the batch and retries each second: a failing disk is treated like a slow one.
The problem is logged once, and `TraceOutput.problem` describes it.
"""

import logging
import threading
from collections import deque
from collections.abc import Callable
from queue import Empty, SimpleQueue
from time import monotonic
from typing import NamedTuple, Protocol

TICK_SECONDS = 1.0
"""Interval at which failed writes are retried and destinations maintain their files."""
STOP_SECONDS_MAX = 5.0
"""How long the shutdown of the node waits for a slow disk."""

logger = logging.getLogger("leveret.tracing")


class OutputBatch(NamedTuple):
    """Bytes that are written together, all of one hour. time_us: time of the first record."""

    data: bytes
    time_us: int


NOTHING = OutputBatch(b"", 0)
"""Registers an output with the thread, which then maintains its files."""


class TraceDestination(Protocol):
    """Writes an output's batches. The thread calls all methods; they may raise OSError."""

    def write(self, batch: OutputBatch) -> None:
        """Write a batch completely, or not at all."""

    def tick(self, time_us: int) -> None:
        """Maintain the files; called each second."""

    def close(self) -> None:
        """Close the files: no more batches follow."""


class TraceOutput:
    """The buffer of one trace. Created by `TraceWriter.open`.

    problem: why writing fails at the moment; empty if it does not.
    """

    def __init__(
        self, writer: "TraceWriter", name: str, destination: TraceDestination, room: int
    ) -> None:
        self.name = name
        self.problem = ""
        self.destination = destination
        self.backlog: deque[OutputBatch] = deque()
        self.is_ending = False
        self.has_ended = threading.Event()
        self._writer = writer
        self._room = room
        # Each of the two is changed by one thread only.
        self._handed = self._written = 0

    @property
    def waiting_bytes(self) -> int:
        """Bytes that have been passed on and not written yet."""
        return self._handed - self._written

    @property
    def is_full(self) -> bool:
        """Whether the buffer accepts no more batches."""
        return self.waiting_bytes >= self._room

    @property
    def has_room_again(self) -> bool:
        """Whether half of the buffer is free, so passing on batches is worthwhile again."""
        return self.waiting_bytes <= self._room // 2

    def hand(self, data: bytes, time_us: int) -> None:
        """Pass bytes to the thread. Called by the event loop."""
        self._handed += len(data)
        self._writer.put(self, OutputBatch(data, time_us))

    def close(self) -> None:
        """Write the rest and finish the files. Called by the event loop."""
        self._writer.put(self, None)

    # Called by the thread

    def take(self, batch: OutputBatch | None) -> None:
        """Add a batch to the backlog."""
        if batch is None:
            self.is_ending = True
        elif batch.data:
            self.backlog.append(batch)

    def write_backlog(self) -> None:
        """Write the backlog; batches that cannot be written stay in it."""
        try:
            while self.backlog:
                self.destination.write(self.backlog[0])
                self._written += len(self.backlog.popleft().data)
            self._recovered()
            if self.is_ending:
                self.destination.close()
                self.has_ended.set()
        except Exception as error:
            self._failed(error)

    def tick(self, time_us: int) -> None:
        """Once a second: retry what failed, and maintain the files."""
        self.write_backlog()
        if self.problem or self.has_ended.is_set():
            return
        try:
            self.destination.tick(time_us)
        except Exception as error:
            self._failed(error)

    def _failed(self, error: Exception) -> None:
        if not self.problem:
            logger.error("trace %s cannot be written: %s; retrying each second", self.name, error)
        self.problem = str(error) or repr(error)

    def _recovered(self) -> None:
        if self.problem:
            logger.info("trace %s can be written again", self.name)
        self.problem = ""


class TraceWriter:
    """The thread that writes all traces of a node. It runs from the first output until `stop`.

    wall_time_s: the broker's clock.
    """

    def __init__(self, wall_time_s: Callable[[], float]) -> None:
        self._wall_time_s = wall_time_s
        self._queue: SimpleQueue[tuple[TraceOutput | None, OutputBatch | None]] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._outputs: set[TraceOutput] = set()

    def open(self, name: str, destination: TraceDestination, room: int) -> TraceOutput:
        """Create an output. room: size of its buffer in bytes."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="trace writer", daemon=True)
            self._thread.start()
        output = TraceOutput(self, name, destination, room)
        self._queue.put((output, NOTHING))
        return output

    @property
    def is_running(self) -> bool:
        """Whether an output has been created."""
        return self._thread is not None

    def put(self, output: TraceOutput, batch: OutputBatch | None) -> None:
        """Write a batch. None: the output is closed."""
        self._queue.put((output, batch))

    def stop(self) -> None:
        """Stop when everything is written, or after STOP_SECONDS_MAX."""
        if self._thread is None:
            return
        self._queue.put((None, None))
        self._thread.join(STOP_SECONDS_MAX)
        for output in self._outputs:
            if output.waiting_bytes:
                logger.error(
                    "trace %s: %d bytes could not be written before shutdown: %s",
                    output.name, output.waiting_bytes, output.problem or "the disk is too slow",
                )  # fmt: skip
        self._thread = None

    def _run(self) -> None:
        next_tick = monotonic() + TICK_SECONDS
        while True:
            try:
                output, batch = self._queue.get(timeout=max(0.0, next_tick - monotonic()))
            except Empty:
                next_tick = monotonic() + TICK_SECONDS
                self._tick()
                continue
            if output is None:
                self._tick()
                return
            self._take(output, batch)
            if monotonic() >= next_tick:
                next_tick = monotonic() + TICK_SECONDS
                self._tick()

    def _take(self, output: TraceOutput, batch: OutputBatch | None) -> None:
        self._outputs.add(output)
        output.take(batch)
        if not output.problem or output.is_ending:
            output.write_backlog()
        self._forget_ended()

    def _tick(self) -> None:
        time_us = int(self._wall_time_s() * 1_000_000)
        for output in self._outputs:
            output.tick(time_us)
        self._forget_ended()

    def _forget_ended(self) -> None:
        self._outputs = {output for output in self._outputs if not output.has_ended.is_set()}
