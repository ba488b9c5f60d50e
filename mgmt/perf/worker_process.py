"""The handle of a worker process in the parent: sends commands and receives reports (worker.py)."""

import asyncio
import json
import os
import sys
from collections.abc import Callable
from typing import Any

from leveret.mgmt.perf.connection import PerfError
from leveret.mgmt.perf.options import PerfOptions
from leveret.mgmt.perf.worker import LINE_BYTES_MAX


class WorkerProcess:
    """One worker.

    on_report: called with the counts of each report. on_notice: called with texts for the user.
    failure: why it ended; None if it has not failed.
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

    async def start(self, options: PerfOptions, producers: list[int], consumers: list[int]) -> None:
        """Start the process with its share of the clients."""
        # Ctrl-C is for the parent only, which then ends its workers.
        self._process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "leveret.mgmt.perf.worker", stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE, limit=LINE_BYTES_MAX, start_new_session=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )  # fmt: skip
        task = {"options": options.to_json(), "producers": producers, "consumers": consumers}
        self.tell(json.dumps(task))
        self._listening = asyncio.create_task(self._listen())

    def tell(self, word: str) -> None:
        """Send a command, unless the worker has ended."""
        if self._process is not None and self._process.stdin is not None and not self._is_over:
            self._process.stdin.write(word.encode() + b"\n")

    async def wait_for(self, kind: str) -> None:
        """Wait for an event of this kind, or the end of the worker."""
        await self._event(kind).wait()

    def check(self) -> None:
        """Raise PerfError if it has failed."""
        if self.failure is not None:
            raise self.failure

    def forget(self, kind: str) -> None:
        """Forget the events of this kind."""
        if not self._is_over:
            self._event(kind).clear()

    async def ended(self) -> None:
        """Wait until the process has ended."""
        if self._listening is not None:
            await asyncio.shield(self._listening)

    async def kill(self) -> None:
        """Kill the process."""
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
        # No more events will come, so all waiters are released.
        self._is_over = True
        for event in self._heard.values():
            event.set()
