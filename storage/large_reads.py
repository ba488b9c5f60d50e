"""Reads large bodies in a thread, for callers in the event loop who cannot wait.

To read a body of 100 MB, and to check it, takes 100 ms. Both release the interpreter's lock. So who
asks for a large body is told that it is being read, by `BeingRead`, and asks again when that calls
back.

Invariant LR1: a body that was read is kept only while those are called back who wait for it. So it
takes no memory when nobody wants it any more.
"""

from collections.abc import Callable
from typing import Protocol

from leveret.storage.backing_queue import BeingRead
from leveret.storage.message import StoredBody

Body = bytes | None


class ReadingWorker(Protocol):
    """A thread that reads: see `leveret.storage.worker.Worker`."""

    def submit(
        self, job: Callable[[], Body], done: Callable[[Body, Exception | None], object]
    ) -> None:
        """Run the job in the thread, then call `done` in the loop."""


class LargeReads:
    """The large bodies that are being read."""

    def __init__(self, worker: ReadingWorker) -> None:
        self._worker = worker
        self._waiting: dict[StoredBody, list[Callable[[], object]]] = {}
        self._read: dict[StoredBody, tuple[Body, Exception | None]] = {}

    def read(self, stored: StoredBody, job: Callable[[], Body], what: str) -> Body:
        """What the job has returned for this body, or raised. Raises BeingRead before that.

        what: the body, for texts.
        """
        if stored in self._read:
            body, error = self._read[stored]
            if error is not None:
                raise error
            return body
        waiting = self._waiting.get(stored)
        if waiting is None:
            waiting = self._waiting[stored] = []
            self._worker.submit(job, lambda body, error: self._done(stored, body, error))
        raise BeingRead(what, waiting.append)

    def _done(self, stored: StoredBody, body: Body, error: Exception | None) -> None:
        self._read[stored] = body, error
        try:
            for callback in self._waiting.pop(stored):
                callback()
        finally:
            del self._read[stored]
