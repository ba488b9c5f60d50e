"""An event loop in a thread of its own, in which other threads have functions run."""

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

THREAD_SECONDS_MAX = 60.0
"""How long a call into the thread may take before something must be wrong."""

Result = TypeVar("Result")


class LoopThread:
    """A thread with an event loop, from its creation until `end`."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="leveret", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    def run(
        self, steps: Coroutine[Any, Any, Result], timeout: float = THREAD_SECONDS_MAX
    ) -> Result:
        """Run a coroutine in the loop, and return its result. timeout: in seconds.

        Raises RuntimeError when called in the loop's own thread, which would wait for itself, and
        TimeoutError.
        """
        if threading.current_thread() is self._thread:
            steps.close()
            raise RuntimeError(
                "a method of the threaded broker was called in the broker's own thread: use the "
                "EmbeddedBroker that the function of `call` is given"
            )
        future = asyncio.run_coroutine_threadsafe(steps, self._loop)
        try:
            return future.result(timeout)
        except TimeoutError:
            if future.done():
                raise
            future.cancel()
            raise TimeoutError(
                f"the embedded broker's thread has not answered within {timeout:g} seconds: it "
                "is held up by a function that was given to `call`, or by the machine"
            ) from None

    def end(self) -> None:
        """Stop the loop, and wait for the thread's end."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(THREAD_SECONDS_MAX)
        self._loop.close()
