"""The last lines of the log in memory, for `leveretctl log_tail` on a node without a log file.

Each line has a number, counted from 1 since the start of the process, so that a reader can ask for
the lines after the last one it has seen.
"""

import logging
from collections import deque
from typing import NamedTuple

LINES_MAX = 1000
LINE_CHARACTERS_MAX = 4000
"""The maximum length of a line; the rest is cut: all lines take a few megabytes at most."""


class LogLines(NamedTuple):
    """Lines of the log. last_number: the number of the newest line."""

    lines: list[str]
    last_number: int


class RecentLines(logging.Handler):
    """Keeps the last lines."""

    def __init__(self) -> None:
        super().__init__()
        self._lines: deque[str] = deque(maxlen=LINES_MAX)
        self._last_number = 0

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a record as a line."""
        try:
            line = self.format(record)
        except Exception:
            self.handleError(record)
            return
        self._lines.append(line[:LINE_CHARACTERS_MAX])
        self._last_number += 1

    def last(self, count: int) -> LogLines:
        """Return up to `count` of the last lines."""
        assert self.lock is not None, "a handler has a lock"
        with self.lock:
            kept = list(self._lines)
            return LogLines(kept[-count:] if count > 0 else [], self._last_number)

    def after(self, number: int) -> LogLines:
        """Return the kept lines after a number."""
        return self.last(max(0, self._last_number - number))
