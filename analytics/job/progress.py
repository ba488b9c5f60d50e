"""Progress of the job on standard error: the step, its part, events and the estimated time left."""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

from leveret.analytics.job.estimate import Cost, Estimate

LOOK_SECONDS = 0.5
_WIDTH = 100

Parts = Callable[[], tuple[int, int]]
"""Returns how many parts of the running step are done, and all; 0 of 0 if unknown."""


class JobProgress:
    """Shows the progress. On a terminal one line is updated; otherwise each step prints a line.

    costs: the steps, and the time of each. events: how many the logs probably have.
    """

    def __init__(
        self, parts: Parts, costs: dict[str, Cost], events: int = 0, stream: TextIO = sys.stderr
    ) -> None:
        self._parts = parts
        self._steps = len(costs)
        self._estimate = Estimate(costs, events)
        self._are_events_known = False
        self._stream = stream
        self._number = 0

    @property
    def events(self) -> int:
        """The number of events, estimated until it is set."""
        return self._estimate.events

    @events.setter
    def events(self, events: int) -> None:
        self._estimate.events = events
        self._are_events_known = True

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Show a step while it runs."""
        self._number += 1
        started, ended = time.monotonic(), threading.Event()
        watch = threading.Thread(target=self._watch, args=(name, started, ended), daemon=True)
        if self._stream.isatty():
            watch.start()
        try:
            yield
        finally:
            ended.set()
            if watch.is_alive():
                watch.join()
        took = time.monotonic() - started
        self._estimate.done(name, took)
        is_last = self._number == self._steps
        left = "" if is_last else self._left(self._estimate.left())
        self._show(f"{self._title(name)}: {took:.1f} s{self._shown_events()}{left}", "\n")

    def _watch(self, name: str, started: float, ended: threading.Event) -> None:
        while not ended.wait(LOOK_SECONDS):
            done, total = self._parts()
            part = done / total if total else 0.0
            shown = f", {part:.0%}" if total else ""
            left = self._estimate.left(name, part, time.monotonic() - started)
            line = f"{self._title(name)}{shown}{self._shown_events()}{self._left(left)}"
            self._show(line, "\r")

    def _title(self, name: str) -> str:
        return f"[{self._number}/{self._steps}] {name}"

    def _shown_events(self) -> str:
        return f", {self.events:,} events" if self._are_events_known else ""

    def _left(self, seconds: float) -> str:
        return f", about {shown_seconds(seconds)} left"

    def _show(self, line: str, end: str) -> None:
        text = line.ljust(_WIDTH) if self._stream.isatty() else line
        self._stream.write(text + end)
        self._stream.flush()


def shown_seconds(seconds: float) -> str:
    """Format an estimated duration: 12 s, 4 min."""
    return f"{seconds / 60:.0f} min" if seconds > 90 else f"{seconds:.0f} s"
