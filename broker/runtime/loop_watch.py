"""Watches the event loop: counts and logs turns that take too long.

A turn is the loop's work between two polls of its sockets. During a turn no other client is served,
so no turn may take more than `LONG_SECONDS` of processor time.

Code that does the broker's work (a read of a socket, an actor's turn, a timer) measures each piece,
and notes the pieces that took longer than `NOTED_SECONDS`, with their objects. A timer checks the
notes, and its own delay: that finds turns of many short pieces, and the work of tasks, which is not
measured. A turn that waited for the disk, or for a processor that other programs use, took little
processor time, and is counted separately (`waits`).

**Promises.** A piece of more than `LONG_SECONDS` is counted. A turn of shorter ones, or of a task,
is counted if it takes more than `LONG_SECONDS` + `CHECK_SECONDS`. Nothing is done for each message.
**Not promised.** That a shorter turn of tasks or of short pieces is counted, and that the processor
time is exact: the time since the last check is an upper bound.
"""

import gc
import logging
from collections.abc import Callable
from time import perf_counter, thread_time
from typing import Any, Final, Protocol

LONG_SECONDS = 0.02
NOTED_SECONDS: Final = 0.004
CHECK_SECONDS = 0.05
LOGGED_SECONDS = 1.0
"""At most one line is logged in this time; it states the number of such turns."""
UNKNOWN = "tasks of the store or of management, or many short pieces of work"

logger = logging.getLogger("leveret.broker")


class TimerHandle(Protocol):
    """A timer of the event loop."""

    def cancel(self) -> None:
        """Cancel the call."""


class LoopWatch:
    """Counts the long turns of one event loop.

    long_turns: turns of more than `LONG_SECONDS` of processor time; long_seconds: the sum of that
    time. longest_seconds: the longest. waits: turns that took as long without using the processor.
    """

    def __init__(self, call_later: Callable[[float, Callable[[], None]], TimerHandle]) -> None:
        """call_later: the event loop's."""
        self._call_later = call_later
        self.long_turns = self.waits = 0
        self.long_seconds = self.longest_seconds = 0.0
        self._timer: TimerHandle | None = None
        self._due = self._processor_seconds = 0.0
        self._pieces: list[tuple[float, object]] = []
        self._collection_began = self._collection_seconds = 0.0
        self._logged_at = -LOGGED_SECONDS
        self._unlogged = 0
        self._longest_unlogged: tuple[float, str] = (0.0, "")

    def start(self) -> None:
        """Start watching, from the loop's thread."""
        gc.callbacks.append(self._collecting)
        self._look_again()

    def stop(self) -> None:
        """Stop watching."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            gc.callbacks.remove(self._collecting)

    # Pieces

    def note(self, seconds: float, cause: object) -> None:
        """Note work that took longer than `NOTED_SECONDS`. cause: the object that it was for."""
        self._pieces.append((seconds, cause))

    def run(self, work: Callable[[], object], cause: object = None) -> None:
        """Run and measure a piece of work. cause: the object it is for; by default `work`."""
        started = perf_counter()
        try:
            work()
        finally:
            elapsed = perf_counter() - started
            if elapsed > NOTED_SECONDS:
                self.note(elapsed, cause or work)

    def _collecting(self, phase: str, _info: dict[str, Any]) -> None:
        """The garbage collector starts or ends; it stops every thread."""
        if phase == "start":
            self._collection_began = perf_counter()
        else:
            self._collection_seconds += perf_counter() - self._collection_began

    # Looking

    def _look_again(self) -> None:
        self._pieces.clear()
        self._collection_seconds = 0.0
        self._processor_seconds = thread_time()
        self._due = perf_counter() + CHECK_SECONDS
        self._timer = self._call_later(CHECK_SECONDS, self._look)

    def _look(self) -> None:
        late_seconds = perf_counter() - self._due
        long = [seconds for seconds, _ in self._pieces if seconds > LONG_SECONDS]
        longest = max(late_seconds, *long) if long else late_seconds
        if longest > LONG_SECONDS:
            count, total = (len(long), sum(long)) if long else (1, late_seconds)
            processor_seconds = thread_time() - self._processor_seconds
            if processor_seconds > LONG_SECONDS:
                self._count(count, min(total, processor_seconds), min(longest, processor_seconds))
            else:
                self.waits += count
        if self._unlogged:
            self._log()
        self._look_again()

    def _count(self, count: int, total_seconds: float, longest_seconds: float) -> None:
        self.long_turns += count
        self.long_seconds += total_seconds
        self.longest_seconds = max(self.longest_seconds, longest_seconds)
        self._unlogged += count
        if longest_seconds > self._longest_unlogged[0]:
            self._longest_unlogged = longest_seconds, self._causes(longest_seconds)

    def _causes(self, turn_seconds: float) -> str:
        seconds, cause = max(self._pieces, key=lambda piece: piece[0], default=(0.0, None))
        # A turn of many short pieces has no cause of its own.
        cause_text = _described(cause) if seconds > turn_seconds / 2 else UNKNOWN
        if self._collection_seconds > turn_seconds / 2:
            collected_ms = self._collection_seconds * 1000
            return f"garbage collection ({collected_ms:.0f} ms), in {cause_text}"
        return cause_text

    def _log(self) -> None:
        now = perf_counter()
        if now - self._logged_at < LOGGED_SECONDS:
            return
        seconds, cause = self._longest_unlogged
        logger.warning(
            "turns of the event loop took more than %d ms of processor time: %d, the longest of "
            "them %.0f ms, for %s",
            LONG_SECONDS * 1000, self._unlogged, seconds * 1000, cause,
        )  # fmt: skip
        self._logged_at, self._unlogged, self._longest_unlogged = now, 0, (0.0, "")


def _described(cause: object) -> str:
    """The object of a piece of work; for a method, its object and its name."""
    owner = getattr(cause, "__self__", None)
    return repr(cause) if owner is None else f"{owner!r}.{getattr(cause, '__name__', '?')}"
