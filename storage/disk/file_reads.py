"""Reads files for callers in the event loop, which must not wait for the disk.

Data in the system's page cache are read at once. A thread reads all other data: the caller gets
`BeingRead`, and asks again when it is called back. The thread also has the system read ahead, so
that about one in sixteen parts of a file that is read in order waits for the thread.

The thread also does long work on data that were read: checking a body of 100 MB takes 100 ms.

Without a thread everything is read at once, for callers that may wait.

Invariants:

LR1  Data that a thread has read are kept only while their waiting callers are called back. So they
     take no memory when no caller wants them.
LR2  The loop opens a file only after a thread has read from it, when the system knows its place.
"""

from collections.abc import Callable, Hashable
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol, TypeVar

from leveret.storage.contract.backing_queue import BeingRead
from leveret.storage.disk.callbacks import call_each
from leveret.storage.disk.disk import Disk, StoreError

READ_AHEAD_BYTES = 4 * 1024 * 1024
"""The bytes for the system to read ahead."""

Result = TypeVar("Result")


class ReadingWorker(Protocol):
    """A thread that reads, such as a `leveret.storage.disk.worker.Worker`."""

    def submit(
        self, job: Callable[[], Any], done: Callable[[Any, Exception | None], object]
    ) -> None:
        """Run the job in the thread, then call `done` in the loop."""


class FileReads:
    """The reads of one store. worker: the thread; None if callers wait for the disk."""

    def __init__(self, disk: Disk, worker: ReadingWorker | None = None) -> None:
        self.worker = worker
        self._disk = disk
        self._waiting: dict[Hashable, list[Callable[[], object]]] = {}
        self._read: dict[Hashable, tuple[Any, Exception | None]] = {}

    def read(self, path: Path, descriptor: int, offset: int, size: int) -> bytes:
        """Up to `size` bytes of a file; fewer at its end. Raises BeingRead and StoreError.

        descriptor: the file's, if it is open, else -1.
        """
        if self.worker is None:
            if descriptor < 0:
                return self._disk.read(path, offset, size)
            return self._disk.read_from(descriptor, path, offset, size)
        what = path, offset, size
        if descriptor >= 0 and what not in self._read:
            data = self._disk.read_cached(descriptor, offset, size)
            if data is not None:
                return data
        return self.done_by_thread(what, lambda: self._read_ahead(path, offset, size), path, offset)

    def _read_ahead(self, path: Path, offset: int, size: int) -> bytes:
        """In the thread: read, and have the system read ahead."""
        descriptor = self._disk.open(path)
        try:
            data = self._disk.read_from(descriptor, path, offset, size)
            self._disk.will_read(descriptor, offset + size, READ_AHEAD_BYTES)
        finally:
            self._disk.close(descriptor)
        return data

    def will_read(self, path: Path, offset: int) -> None:
        """Have the system read ahead in a file from an offset on."""
        if self.worker is not None:
            self.worker.submit(lambda: self._ask_ahead(path, offset), lambda _, error: None)

    def _ask_ahead(self, path: Path, offset: int) -> None:
        # The read itself reports the error.
        with suppress(StoreError):
            descriptor = self._disk.open(path)
            try:
                self._disk.will_read(descriptor, offset, READ_AHEAD_BYTES)
            finally:
                self._disk.close(descriptor)

    def done_by_thread(
        self, key: Hashable, job: Callable[[], Result], path: Path, offset: int
    ) -> Result:
        """Return or raise the job's result. Raises BeingRead until the job has ended.

        key: identifies the job, which runs once for all callers that ask before it ends. path,
        offset: where the job reads, for texts.
        """
        if self.worker is None:
            return job()
        if key in self._read:
            result: Result
            result, error = self._read[key]
            if error is not None:
                raise error
            return result
        waiting = self._waiting.get(key)
        if waiting is None:
            waiting = self._waiting[key] = []
            self.worker.submit(job, lambda result, error: self._done(key, result, error))
        raise BeingRead(f"{path}, from offset {offset},", waiting.append)

    def _done(self, key: Hashable, result: object, error: Exception | None) -> None:
        self._read[key] = result, error
        call_each(self._waiting.pop(key))
        del self._read[key]
