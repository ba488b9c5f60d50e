"""A thread that does what waits for the disk, one job after the other, beside the event loop.

The loop never waits for a disk: it hands a job over and is called back with what came of it. There
are two workers in a store: one for the log, whose confirms people wait for, and one for paging.
"""

import asyncio
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import TypeVar

Result = TypeVar("Result")


class Worker:
    """One thread, and the jobs that wait for it."""

    def __init__(self, loop: asyncio.AbstractEventLoop, name: str) -> None:
        self._loop = loop
        self._jobs: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    def submit(
        self, job: Callable[[], Result], done: Callable[[Result | None, Exception | None], object]
    ) -> None:
        """Do the job in the thread, then call `done` in the loop, with its result or its error."""

        def run() -> None:
            result, problem = None, None
            try:
                result = job()
            except Exception as error:
                problem = error
            self._call_in_loop(lambda: done(result, problem))

        self._jobs.put(run)

    def _call_in_loop(self, callback: Callable[[], object]) -> None:
        try:
            self._loop.call_soon_threadsafe(callback)
        except RuntimeError:
            # The loop was closed while the job was at work: nobody waits any more.
            return

    async def run(self, job: Callable[[], Result]) -> Result:
        """Do the job in the thread and wait for it."""
        future: asyncio.Future[Result] = self._loop.create_future()

        def done(result: Result | None, error: Exception | None) -> None:
            if future.cancelled():
                return
            if error is not None:
                future.set_exception(error)
            else:
                future.set_result(result)  # type: ignore[arg-type]

        self.submit(job, done)
        return await future

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()

    def stop(self) -> None:
        """Finish what was submitted, then end."""
        self._jobs.put(None)
        self._thread.join()
