"""The audit log: changes on this node with user, origin and time (broker/declarations/audit.py).

Each act is one line of JSON in a file in the data directory; the newest lines are also in memory
for the API. A thread writes the lines in the order of the acts, all waiting lines at once. An
operator's act on messages waits for its line (`note`), and is refused if the line cannot be
written. Declarations are logged after they have been applied, so they do not wait (`add`).

The file is opened for each write and never shortened: an operator may move it away at any time.
"""

import asyncio
import json
import logging
import time
from collections import deque
from pathlib import Path
from typing import Any

import aiofiles
import msgspec

from leveret.broker.declarations.audit import AuditedChange, log_act
from leveret.broker.declarations.requester import Requester
from leveret.broker.runtime.private_files import opened

KEPT_MAX = 1000

logger = logging.getLogger("leveret.audit")


class AuditLog:
    """The log of one node. path: its file; None keeps it in memory only."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._waiting: list[tuple[bytes, asyncio.Future[None]]] = []
        self._writing: asyncio.Task[None] | None = None
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

    async def note(self, requester: Requester, act: AuditedChange) -> None:
        """Write an act to the log of the node and to this one. Raises OSError if that fails."""
        log_act(requester, act)
        await self._write_later(requester, act)

    def add(self, requester: Requester, act: AuditedChange) -> None:
        """Write an act soon. If that fails, the act is only in the log of the node."""

        def written(future: asyncio.Future[None]) -> None:
            error = future.exception()
            if error is not None:
                logger.error(
                    "%s cannot be written: %s; not recorded: %s", self._path, error, act.text
                )

        self._write_later(requester, act).add_done_callback(written)

    def _write_later(self, requester: Requester, act: AuditedChange) -> asyncio.Future[None]:
        line = {
            "time": int(time.time() * 1000), "user": requester.user, "address": requester.address,
            "way": requester.way, "action": act.action, "vhost": act.vhost, "kind": act.kind,
            "name": act.name, "text": act.text, "detail": act.detail,
        }  # fmt: skip
        written: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((_encoded(line) + b"\n", written))
        if self._writing is None:
            self._writing = asyncio.ensure_future(self._write_all())
        return written

    async def _write_all(self) -> None:
        try:
            while self._waiting:
                taken, self._waiting = self._waiting, []
                await self._write(taken)
        finally:
            self._writing = None

    async def _write(self, taken: list[tuple[bytes, asyncio.Future[None]]]) -> None:
        try:
            if self._path is not None:
                async with aiofiles.open(self._path, "ab", opener=opened) as file:
                    await file.write(b"".join(line for line, _ in taken))
        except OSError as error:
            for _, written in taken:
                _settle(written, error)
            return
        for line, written in taken:
            self._add_line(line)
            _settle(written, None)

    async def wait_until_written(self) -> None:
        """Wait until all acts so far are in the file."""
        if self._writing is not None:
            await asyncio.wait([self._writing])

    def last(self, count: int) -> list[dict[str, Any]]:
        """The newest lines, the latest first."""
        return list(reversed(self._last))[:count]


def _settle(written: asyncio.Future[None], error: OSError | None) -> None:
    if written.done():
        # The request that waited for it was cancelled.
        return
    if error is None:
        written.set_result(None)
    else:
        written.set_exception(error)


def _encoded(line: dict[str, Any]) -> bytes:
    """JSON; bytes of names that are not UTF-8 become question marks."""
    try:
        return msgspec.json.encode(line)
    except UnicodeEncodeError:
        return json.dumps(line, ensure_ascii=False).encode("utf-8", "replace")
