"""A process that analyses the logs of this node (analytics/background.py), and what it has told.

There is one at a time. It ends with the node: it is killed when the broker stops, and reads the end
of its standard input if the node is killed. However it ends, its intermediate data is removed.
"""

import asyncio
import json
import logging
import os
import shutil
import signal
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import Any

LINE_BYTES_MAX = 4 * 1024 * 1024
"""Of a line that the process tells: at most 60 findings."""
ERROR_CHARACTERS_MAX = 1_000
ENVIRONMENT = {"ARROW_DEFAULT_MEMORY_POOL": "system", "MALLOC_ARENA_MAX": "1"}
"""Memory that is freed goes back to the machine."""
COMMAND = (sys.executable, "-m", "leveret.analytics.background")

logger = logging.getLogger("leveret.management")


class JobState(StrEnum):
    """The state of a job. NONE: none was started since the node did."""

    NONE = "none"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


class JobRunsError(Exception):
    """A job is running already."""


class BackgroundJob:
    """A job. kind: as in its task. name: for people. work: the directory of its intermediate data.

    reason: why it has failed. started_s, ended_s: seconds since 1970. told: what the process has
    told last, by key.
    """

    def __init__(self, kind: str, name: str, work: Path | None = None) -> None:
        self.kind = kind
        self.name = name
        self._work = work
        self.state = JobState.NONE
        self.reason = ""
        self.started_s = 0.0
        self.ended_s = 0.0
        self.told: dict[str, Any] = {}
        self._process: asyncio.subprocess.Process | None = None
        self._listening: asyncio.Task[None] | None = None

    async def start(self, task: Mapping[str, Any]) -> None:
        """Start the process. Raises JobRunsError, and OSError."""
        if self.state is JobState.RUNNING:
            raise JobRunsError(f"{self.name} is running: wait until it ends, or cancel it")
        before, self.state = self.state, JobState.RUNNING
        try:
            process = await asyncio.create_subprocess_exec(
                *COMMAND, json.dumps(task),
                stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE, limit=LINE_BYTES_MAX,
                env={**os.environ, **ENVIRONMENT, "PYTHONPATH": os.pathsep.join(sys.path)},
            )  # fmt: skip
        except OSError:
            self.state = before
            raise
        self.told, self.reason = {}, ""
        self.started_s, self.ended_s = time.time(), 0.0
        self._process = process
        self._listening = asyncio.get_running_loop().create_task(self._listen(process))

    async def cancel(self) -> None:
        """End the process, if there is one, and wait until it has ended."""
        if self._process is None or self._listening is None:
            return
        if self.state is JobState.RUNNING:
            self.state = JobState.CANCELLED
            with suppress(ProcessLookupError):
                self._process.kill()
        await asyncio.shield(self._listening)

    async def _listen(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        assert process.stderr is not None
        errors = asyncio.get_running_loop().create_task(_end_of(process.stderr))
        try:
            async for line in process.stdout:
                self.told.update(json.loads(line))
        except ValueError:
            # A line that is too long, or none of the process: the packages that it uses may print.
            self.told["failed"] = "it has told something that this node cannot read"
            process.kill()
        code, said = await process.wait(), await errors
        if self._work is not None:
            await asyncio.to_thread(shutil.rmtree, self._work, ignore_errors=True)
        self.ended_s = time.time()
        if self.state is not JobState.RUNNING:
            return
        if code == 0:
            self.state = JobState.DONE
            return
        self.state = JobState.FAILED
        self.reason = str(self.told.get("failed") or _ending(code, said))
        logger.warning("%s has failed: %s", self.name, self.reason)


def _ending(code: int, said: str) -> str:
    """Say how a process has ended that has not told why. said: the last line of its errors."""
    if code == -signal.SIGKILL:
        return (
            "its process was killed (SIGKILL), by an operator or since the machine had too little"
            " memory: see the log of the system"
        )
    how = f"signal {-code} ({signal.strsignal(-code)})" if code < 0 else f"exit code {code}"
    return f"its process has ended with {how}{f': {said}' if said else ''}"


async def _end_of(stream: asyncio.StreamReader) -> str:
    """Return the last line of what is written to a stream, until it ends."""
    kept = b""
    while data := await stream.read(1 << 16):
        kept = (kept + data)[-ERROR_CHARACTERS_MAX:]
    return kept.decode(errors="replace").strip().rpartition("\n")[2]
