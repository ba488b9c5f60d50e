"""A worker as the process that started it sees it: told words, and heard out (worker.py)."""

import asyncio
import json
import os
import sys
from collections.abc import Callable
from typing import Any

from mgmt.perf.connection import PerfError
from mgmt.perf.options import Options
from mgmt.perf.worker import LINE_BYTES_MAX


class WorkerProcess:
    """One worker.

    on_report: is given each report's counts. on_notice: is given texts for the user.
    failure: why it ended; None as long as all is well.
    """

    def __init__(
        self, on_report: Callable[[dict[str, Any]], object], on_notice: Callable[[str], object]
    ) -> None:
        self.failure: PerfError | None = None
        self._on_report = on_report
        self._on_notice = on_notice
        self._process: asyncio.subprocess.Process | None = None
        self._is_over = False
        self._heard: dict[str, asyncio.Event] = {}
        self._listening: asyncio.Task[None] | None = None

    async def start(self, options: Options, producers: list[int], consumers: list[int]) -> None:
        """Start it with its share of the clients."""
        # A signal at the terminal is for the process that steers, which tells its workers.
        self._process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "mgmt.perf.worker", stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE, limit=LINE_BYTES_MAX, start_new_session=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )  # fmt: skip
        task = {"options": options.to_json(), "producers": producers, "consumers": consumers}
        self.tell(json.dumps(task))
        self._listening = asyncio.create_task(self._listen())

    def tell(self, word: str) -> None:
        """Tell it something; one that has ended does not hear it."""
        if self._process is not None and self._process.stdin is not None and not self._is_over:
            self._process.stdin.write(word.encode() + b"\n")

    async def wait_for(self, kind: str) -> None:
        """Wait until it says this, or ends."""
        await self._event(kind).wait()

    def check(self) -> None:
        """Raise PerfError if it has failed."""
        if self.failure is not None:
            raise self.failure

    def forget(self, kind: str) -> None:
        """What it said of this kind is as if it had not been said."""
        if not self._is_over:
            self._event(kind).clear()

    async def ended(self) -> None:
        """Wait until it has said all and is gone."""
        if self._listening is not None:
            await asyncio.shield(self._listening)

    async def kill(self) -> None:
        """End it, whatever it does."""
        if self._process is None or self._listening is None:
            return
        if self._process.returncode is None:
            self._process.kill()
        await self._listening

    def _event(self, kind: str) -> asyncio.Event:
        event = self._heard.setdefault(kind, asyncio.Event())
        if self._is_over:
            event.set()
        return event

    async def _listen(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            said = json.loads(line)
            match said["kind"]:
                case "report":
                    self._on_report(said["counts"])
                case "notice":
                    self._on_notice(said["text"])
                case "failed":
                    self.failure = PerfError(said["text"])
            self._event(said["kind"]).set()
        code = await self._process.wait()
        if code and self.failure is None:
            self.failure = PerfError(f"a worker ended with {code}")
        # Nothing more will be said, so nobody is to wait for it.
        self._is_over = True
        for event in self._heard.values():
            event.set()
