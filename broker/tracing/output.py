"""From the event loop to files: one thread that writes, and what keeps it from being overrun.

The loop hands over batches of bytes, each for one `Output`, and goes on at once. An output takes
batches up to a number of bytes; when the thread does not keep up with them it is full, and whoever
writes to it has to leave things out, and to count them, until there is room again (lines.py).

The thread writes a batch where the output's `Destination` says. If that fails, for a full disk or a
directory that cannot be written, it keeps the batch and tries again each second: a disk in trouble
is like one that is slow. The problem is logged once, and `Output.problem` says what it is.
"""

import logging
import threading
from collections import deque
from collections.abc import Callable
from queue import Empty, SimpleQueue
from time import monotonic
from typing import NamedTuple, Protocol

TICK_SECONDS = 1.0
"""How often what failed is tried again, and destinations look after their files."""
STOP_SECONDS_MAX = 5.0
"""How long the end of the node may wait for a slow disk."""

logger = logging.getLogger("leveret.tracing")


class Batch(NamedTuple):
    """Bytes that are written together, all of one hour. time_us: of the first that is in it."""

    data: bytes
    time_us: int


NOTHING = Batch(b"", 0)
"""Makes an output known to the thread, which then looks after its files."""


class Destination(Protocol):
    """Where an output's batches go. All is called by the thread, and may raise OSError."""

    def write(self, batch: Batch) -> None:
        """Write a batch, or nothing of it."""

    def tick(self, time_us: int) -> None:
        """Look after the files: called each second."""

    def close(self) -> None:
        """There is nothing to come."""


class Output:
    """Where one trace is written to. Made by `Writer.open`.

    problem: why nothing can be written at the moment; empty if all is well.
    """

    def __init__(self, writer: "Writer", name: str, destination: Destination, room: int) -> None:
        self.name = name
        self.problem = ""
        self.destination = destination
        self.backlog: deque[Batch] = deque()
        self.is_ending = False
        self.has_ended = threading.Event()
        self._writer = writer
        self._room = room
        # Each is changed by one thread only.
        self._handed = self._written = 0

    @property
    def waiting_bytes(self) -> int:
        """What is handed over and not written."""
        return self._handed - self._written

    @property
    def is_full(self) -> bool:
        """It takes nothing more for now."""
        return self.waiting_bytes >= self._room

    @property
    def has_room_again(self) -> bool:
        """Half of what it holds is written: it is worth to begin again."""
        return self.waiting_bytes <= self._room // 2

    def hand(self, data: bytes, time_us: int) -> None:
        """Have bytes written. Called by the loop."""
        self._handed += len(data)
        self._writer.put(self, Batch(data, time_us))

    def close(self) -> None:
        """Have the rest written and the files finished. Called by the loop."""
        self._writer.put(self, None)

    # Called by the thread

    def take(self, batch: Batch | None) -> None:
        """Note what was handed over."""
        if batch is None:
            self.is_ending = True
        elif batch.data:
            self.backlog.append(batch)

    def write_backlog(self) -> None:
        """Write what there is; what cannot be written stays."""
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
        """Once a second: try again what failed, and look after the files."""
        self.write_backlog()
        if self.problem or self.has_ended.is_set():
            return
        try:
            self.destination.tick(time_us)
        except Exception as error:
            self._failed(error)

    def _failed(self, error: Exception) -> None:
        if not self.problem:
            logger.error(
                "trace %s cannot be written: %s; it is tried again each second", self.name, error
            )
        self.problem = str(error) or repr(error)

    def _recovered(self) -> None:
        if self.problem:
            logger.info("trace %s can be written again", self.name)
        self.problem = ""


class Writer:
    """The thread that writes all traces of a node. It runs from the first output to `stop`.

    wall_time_s: the broker's clock.
    """

    def __init__(self, wall_time_s: Callable[[], float]) -> None:
        self._wall_time_s = wall_time_s
        self._queue: SimpleQueue[tuple[Output | None, Batch | None]] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._outputs: set[Output] = set()

    def open(self, name: str, destination: Destination, room: int) -> Output:
        """A new output. room: bytes that it takes before it is full."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="trace writer", daemon=True)
            self._thread.start()
        output = Output(self, name, destination, room)
        self._queue.put((output, NOTHING))
        return output

    @property
    def is_running(self) -> bool:
        """There are outputs, or were."""
        return self._thread is not None

    def put(self, output: Output, batch: Batch | None) -> None:
        """Have a batch written. None: the output is closed."""
        self._queue.put((output, batch))

    def stop(self) -> None:
        """End when all is written, or when a disk in trouble has had its time."""
        if self._thread is None:
            return
        self._queue.put((None, None))
        self._thread.join(STOP_SECONDS_MAX)
        for output in self._outputs:
            if output.waiting_bytes:
                logger.error(
                    "trace %s: %d bytes could not be written before the end: %s",
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

    def _take(self, output: Output, batch: Batch | None) -> None:
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
