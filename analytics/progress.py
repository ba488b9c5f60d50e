"""Progress of the job on standard error: the step, its tasks, rows and the estimated time left."""

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

from pyspark import SparkContext

LOOK_SECONDS = 0.5
_WIDTH = 100


class Progress:
    """Shows the progress. On a terminal one line is updated; otherwise each step prints a line.

    weights: the steps, and the expected share of the run time of each.
    """

    def __init__(
        self, context: SparkContext, weights: dict[str, float], stream: TextIO = sys.stderr
    ) -> None:
        self.rows = 0
        self._tracker = context.statusTracker()
        self._weights = weights
        self._stream = stream
        self._started = time.monotonic()
        self._done = 0.0
        self._number = 0

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Show a step while it runs."""
        self._number += 1
        started, ended = time.monotonic(), threading.Event()
        watch = threading.Thread(target=self._watch, args=(name, ended), daemon=True)
        if self._stream.isatty():
            watch.start()
        try:
            yield
        finally:
            ended.set()
            if watch.is_alive():
                watch.join()
        self._done += self._weights.get(name, 0.0)
        line = f"{self._title(name)}: {time.monotonic() - started:.1f} s"
        self._show(f"{line}{self._rows()}{self._left(0.0)}", "\n")

    def _watch(self, name: str, ended: threading.Event) -> None:
        while not ended.wait(LOOK_SECONDS):
            done, total = self._tasks()
            part = self._weights.get(name, 0.0) * done / total if total else 0.0
            tasks = f", {done} of {total} tasks" if total else ""
            self._show(f"{self._title(name)}{tasks}{self._rows()}{self._left(part)}", "\r")

    def _tasks(self) -> tuple[int, int]:
        """Return the completed tasks, and all tasks, of the running stages."""
        found = [self._tracker.getStageInfo(stage) for stage in self._tracker.getActiveStageIds()]
        stages = [stage for stage in found if stage is not None]
        done = sum(stage.numCompletedTasks for stage in stages)
        return done, sum(stage.numTasks for stage in stages)

    def _title(self, name: str) -> str:
        return f"[{self._number}/{len(self._weights)}] {name}"

    def _rows(self) -> str:
        return f", {self.rows:,} events" if self.rows else ""

    def _left(self, part: float) -> str:
        done = (self._done + part) / sum(self._weights.values())
        if done <= 0 or done >= 1:
            return ""
        left = (time.monotonic() - self._started) * (1 - done) / done
        return f", about {left / 60:.0f} min left" if left > 90 else f", about {left:.0f} s left"

    def _show(self, line: str, end: str) -> None:
        text = line.ljust(_WIDTH) if self._stream.isatty() else line
        self._stream.write(text + end)
        self._stream.flush()
