"""Reads files for callers in the event loop, which must not wait for the disk.

What the system has in memory is read at once. Everything else is read by a thread: who asks is told
by `BeingRead` that this is done, and asks again when that calls back. The thread also has the
system read ahead, so that of a file that is read in order about one part in sixteen waits for it.

The same holds for work on what was read that takes long: to check a body of 100 MB takes 100 ms.

Without a thread everything is read at once. That is for callers who are to wait.

Invariants:

LR1  What a thread has read is kept only while those are called back who wait for it. So it takes no
     memory when nobody wants it any more.
LR2  The loop opens a file only after a thread has read from it, when the system knows where it is.
"""

from collections.abc import Callable, Hashable
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol, TypeVar

from leveret.storage.backing_queue import BeingRead
from leveret.storage.callbacks import call_each
from leveret.storage.disk import Disk, StoreError

READ_AHEAD_BYTES = 4 * 1024 * 1024
"""The bytes that the system is asked to read ahead."""

Result = TypeVar("Result")


class ReadingWorker(Protocol):
    """A thread that reads: see `leveret.storage.worker.Worker`."""

    def submit(
        self, job: Callable[[], Any], done: Callable[[Any, Exception | None], object]
    ) -> None:
        """Run the job in the thread, then call `done` in the loop."""


class FileReads:
    """The reads of one store. worker: the thread; None if the caller is to wait."""

    def __init__(self, disk: Disk, worker: ReadingWorker | None = None) -> None:
        self.worker = worker
        self._disk = disk
        self._waiting: dict[Hashable, list[Callable[[], object]]] = {}
        self._read: dict[Hashable, tuple[Any, Exception | None]] = {}

    def read(self, path: Path, descriptor: int, offset: int, size: int) -> bytes:
        """Up to `size` bytes of a file; fewer at its end. Raises BeingRead and StoreError.

        descriptor: of the file, if it is open, else -1.
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
        """In the thread: read, and have the system read on."""
        descriptor = self._disk.open(path)
        try:
            data = self._disk.read_from(descriptor, path, offset, size)
            self._disk.will_read(descriptor, offset + size, READ_AHEAD_BYTES)
        finally:
            self._disk.close(descriptor)
        return data

    def will_read(self, path: Path, offset: int) -> None:
        """Have the system read a file from an offset on: it is wanted soon."""
        if self.worker is not None:
            self.worker.submit(lambda: self._ask_ahead(path, offset), lambda _, error: None)

    def _ask_ahead(self, path: Path, offset: int) -> None:
        # The read itself reports what is wrong with the file.
        with suppress(StoreError):
            descriptor = self._disk.open(path)
            try:
                self._disk.will_read(descriptor, offset, READ_AHEAD_BYTES)
            finally:
                self._disk.close(descriptor)

    def done_by_thread(
        self, key: Hashable, job: Callable[[], Result], path: Path, offset: int
    ) -> Result:
        """What the job has returned, or raised. Raises BeingRead before that.

        key: what is asked for; a job is done once for all who ask for it meanwhile. path, offset:
        what the job reads, for texts.
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
