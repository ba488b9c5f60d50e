"""The audit log: who moved, edited or removed messages by hand, and when.

One line of JSON for each act, in a file in the data directory; the last ones are in memory for
whoever asks over the API. A line is written before the act is answered.
"""

import time
from collections import deque
from pathlib import Path
from typing import Any

import msgspec

KEPT_MAX = 1000


class AuditLog:
    """path: None keeps it in memory only."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._last: deque[dict[str, Any]] = deque(maxlen=KEPT_MAX)
        if path is not None and path.exists():
            with path.open("rb") as file:
                for line in deque(file, maxlen=KEPT_MAX):
                    self._take_in(line)

    def _take_in(self, line: bytes) -> None:
        try:
            self._last.append(msgspec.json.decode(line))
        except msgspec.DecodeError:
            # The last line of a process that was killed while it wrote.
            return

    def note(self, user: str, action: str, vhost: str, queue: str, detail: dict[str, Any]) -> None:
        """Write a line. Raises OSError if that fails: then the act has to be refused."""
        line = {
            "time": int(time.time() * 1000), "user": user, "action": action, "vhost": vhost,
            "queue": queue, "detail": detail,
        }  # fmt: skip
        if self._path is not None:
            with self._path.open("ab") as file:
                file.write(msgspec.json.encode(line) + b"\n")
        self._last.append(line)

    def last(self, count: int) -> list[dict[str, Any]]:
        """The last lines, the newest first."""
        return list(reversed(self._last))[:count]
