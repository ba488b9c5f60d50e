"""Progress of the job on standard error: the step, its part, events and the estimated time left."""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple, TextIO

from leveret.analytics.job.estimate import Cost, Estimate

LOOK_SECONDS = 0.5
_WIDTH = 100

Parts = Callable[[], tuple[int, int]]
"""Returns how many parts of the running step are done, and all; 0 of 0 if unknown."""


class StepProgress(NamedTuple):
    """How far the job is. number, steps: of the step, and of all.

    took: seconds, if the step has ended. part: 0 to 1 of a step that runs; None if unknown. events:
    None until they are known. left: seconds until the last step ends.
    """

    number: int
    steps: int
    name: str
    took: float | None
    part: float | None
    events: int | None
    left: float


class JobProgress:
    """Shows the progress. On a terminal one line is updated; otherwise each step prints a line.

    is_watched: also steps that run are shown, if it is not a terminal.

    costs: the steps, and the time of each. events, blocks: how many the logs probably have.
    """

    is_watched = False

    def __init__(
        self,
        parts: Parts,
        costs: dict[str, Cost],
        events: int = 0,
        stream: TextIO = sys.stderr,
        blocks: int = 0,
    ) -> None:
        self._parts = parts
        self._steps = len(costs)
        self._estimate = Estimate(costs, events, blocks)
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
        if self.is_watched or self._stream.isatty():
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
        left = 0.0 if is_last else self._estimate.left()
        self.show(self._step(name, took, None, left))

    def _watch(self, name: str, started: float, ended: threading.Event) -> None:
        while not ended.wait(LOOK_SECONDS):
            done, total = self._parts()
            part = done / total if total else 0.0
            left = self._estimate.left(name, part, time.monotonic() - started)
            self.show(self._step(name, None, part if total else None, left))

    def _step(self, name: str, took: float | None, part: float | None, left: float) -> StepProgress:
        events = self.events if self._are_events_known else None
        return StepProgress(self._number, self._steps, name, took, part, events, left)

    def show(self, step: StepProgress) -> None:
        """Show how far the job is."""
        text = f"[{step.number}/{step.steps}] {step.name}"
        if step.took is not None:
            text += f": {step.took:.1f} s"
        elif step.part is not None:
            text += f", {step.part:.0%}"
        if step.events is not None:
            text += f", {step.events:,} events"
        if step.took is None or step.number != step.steps:
            text += f", about {shown_seconds(step.left)} left"
        if self._stream.isatty():
            text = text.ljust(_WIDTH)
        self._stream.write(text + ("\r" if step.took is None else "\n"))
        self._stream.flush()


def shown_seconds(seconds: float) -> str:
    """Format an estimated duration: 12 s, 4 min."""
    return f"{seconds / 60:.0f} min" if seconds > 90 else f"{seconds:.0f} s"
