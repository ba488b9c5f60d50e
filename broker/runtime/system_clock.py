"""The clock of a running broker: real time, and the timers of the event loop."""

import asyncio
import time
from collections.abc import Callable

from leveret.broker.runtime.clock import Timer
from leveret.broker.runtime.loop_watch import LoopWatch


class SystemClock:
    """Real time, and the timers of the running event loop."""

    __slots__ = ("_loop", "_watch")

    def __init__(self, loop: asyncio.AbstractEventLoop, watch: LoopWatch) -> None:
        """watch: measures the calls that timers make."""
        self._loop = loop
        self._watch = watch

    def now_ms(self) -> int:
        """Milliseconds of the monotonic clock."""
        return int(time.monotonic() * 1000)

    def wall_time_s(self) -> float:
        """Seconds since 1970."""
        return time.time()

    def call_later_ms(self, delay_ms: float, callback: Callable[[], object]) -> Timer:
        """A timer of the event loop."""
        return self._loop.call_later(delay_ms / 1000, self._watch.run, callback)
