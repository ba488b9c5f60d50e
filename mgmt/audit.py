"""The audit log: who moved, edited or removed messages by hand, and when.

Each action is one line of JSON in a file in the data directory; the newest lines are also in memory
for the API. The line is written before the action is carried out.
"""

import asyncio
import time
from collections import deque
from pathlib import Path
from typing import Any

import aiofiles
import msgspec

from leveret.broker.private_files import opened

KEPT_MAX = 1000


class AuditLog:
    """The log of one node. path: of its file; None keeps it in memory only."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._writing = asyncio.Lock()
        """Keeps the lines in memory in the order of those in the file."""
        self._last: deque[dict[str, Any]] = deque(maxlen=KEPT_MAX)
        if path is not None and path.exists():
            with path.open("rb") as file:
                for line in deque(file, maxlen=KEPT_MAX):
                    self._add_line(line)

    def _add_line(self, line: bytes) -> None:
        try:
            self._last.append(msgspec.json.decode(line))
        except msgspec.DecodeError:
            # The process was killed while it wrote its last line.
            return

    async def note(
        self, user: str, action: str, vhost: str, queue: str, detail: dict[str, Any]
    ) -> None:
        """Write a line. Raises OSError if that fails: the action must then be refused."""
        line = {
            "time": int(time.time() * 1000), "user": user, "action": action, "vhost": vhost,
            "queue": queue, "detail": detail,
        }  # fmt: skip
        async with self._writing:
            if self._path is not None:
                async with aiofiles.open(self._path, "ab", opener=opened) as file:
                    await file.write(msgspec.json.encode(line) + b"\n")
            self._last.append(line)

    def last(self, count: int) -> list[dict[str, Any]]:
        """The newest lines, the latest first."""
        return list(reversed(self._last))[:count]
