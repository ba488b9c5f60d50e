"""Runs the jobs that read and write retained messages: in a thread, or at once in memory."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Protocol, TypeVar

from leveret.storage.disk.worker import Worker
from leveret.storage.retained.retained_file import RetainedFile

Result = TypeVar("Result")
Done = Callable[[Result | None, Exception | None], object]
"""Called in the event loop with the result of a job, or with its error."""


class RetainedWork(Protocol):
    """Runs jobs on the file, one after the other."""

    @property
    def file(self) -> RetainedFile:
        """The open file. Its `sums` may be read at any time, the rest by jobs only."""

    def submit(self, job: Callable[[RetainedFile], Result], done: Done[Result]) -> None:
        """Run a job after those that were submitted before."""

    def close(self) -> None:
        """Run the submitted jobs, and close the file."""


class WorkInMemory:
    """The rows are in memory, and lost when the node stops. Jobs run at once."""

    def __init__(self, forget_after_ms: int) -> None:
        self.file = RetainedFile(None, forget_after_ms)

    def submit(self, job: Callable[[RetainedFile], Result], done: Done[Result]) -> None:
        """Run a job."""
        try:
            result = job(self.file)
        except Exception as error:
            done(None, error)
        else:
            done(result, None)

    def close(self) -> None:
        """Drop the rows."""
        self.file.close()


class WorkInThread:
    """The rows are in a file, and a thread runs the jobs. Raises RetainedFileError."""

    def __init__(self, path: Path, forget_after_ms: int, loop: asyncio.AbstractEventLoop) -> None:
        self.file = RetainedFile(path, forget_after_ms)
        self._worker = Worker(loop, "leveret-retained")

    def submit(self, job: Callable[[RetainedFile], Result], done: Done[Result]) -> None:
        """Run a job in the thread."""
        self._worker.submit(lambda: job(self.file), done)

    def close(self) -> None:
        """Run the submitted jobs, end the thread, and close the file."""
        self._worker.stop()
        self.file.close()
