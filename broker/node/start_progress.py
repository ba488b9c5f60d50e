"""The progress of a start, in the log: no line if it takes less than a second, then a few.

A start that restores many queues and messages blocks the loop, so no client gets an answer, and
only the log shows operators that it makes progress.
"""

import logging
from collections.abc import Callable
from time import perf_counter

FIRST_SECONDS, NEXT_SECONDS = 1.0, 2.0
"""The time before the first line, and between the next ones."""

logger = logging.getLogger("leveret.broker")


class StartProgress:
    """The progress of one start. clock_s: a clock in seconds."""

    def __init__(self, clock_s: Callable[[], float] = perf_counter) -> None:
        self._clock_s = clock_s
        self._due_s = clock_s() + FIRST_SECONDS

    def of_step(self, step: str, unit: str, scale: int = 1) -> Callable[[int, int], None]:
        """A callback for a step of the start, to be called with the amount done and the total.

        step: its description, such as `reading the log`. unit, scale: how the numbers are shown.
        """

        def note(done: int, total: int) -> None:
            now_s = self._clock_s()
            if now_s >= self._due_s:
                self._due_s = now_s + NEXT_SECONDS
                logger.info("starting: %s: %d of %d %s", step, done // scale, total // scale, unit)

        return note
