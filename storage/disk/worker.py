"""A thread that runs jobs which wait for the disk, one after the other, outside the event loop.

The loop submits a job, and a callback gets its result or its error. A store has three workers: one
for the log, whose syncs publishers wait for, one that writes segments and bodies, and one that
reads messages.

Invariant T1: jobs of one worker run in the order in which they were submitted, and none runs after
`stop` has returned.
"""

import asyncio
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import TypeVar

Result = TypeVar("Result")


class Worker:
    """One thread and its queue of jobs. name: the thread's."""

    def __init__(self, loop: asyncio.AbstractEventLoop, name: str) -> None:
        self._loop = loop
        self._jobs: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    def submit(
        self, job: Callable[[], Result], done: Callable[[Result | None, Exception | None], object]
    ) -> None:
        """Run the job in the thread, then call `done` in the loop with its result or its error.

        If the loop is closed by then `done` is not called.
        """

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
            # The loop was closed while the job ran: there is no callback to run.
            return

    async def run(self, job: Callable[[], Result]) -> Result:
        """Run the job in the thread and wait for it. Raises what the job raises."""
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
        while self._do_next():
            pass

    def _do_next(self) -> bool:
        """Run the next job, and keep nothing of it while waiting for another one."""
        job = self._jobs.get()
        if job is not None:
            job()
        return job is not None

    def stop(self) -> None:
        """Run the submitted jobs, then end. Blocks until the thread has ended."""
        self._jobs.put(None)
        self._thread.join()
