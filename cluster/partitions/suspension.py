"""Detects that this process did not run for a while, and holds its clients until it is up to date.

When a process was suspended for longer than net_ticktime, the other nodes consider it down without
its knowledge. Its sockets may hold clients' data from that time, and the ends of its links, and are
read before any timer runs. So the first event detects the suspension: a read of a client's socket
(`Turns.overdue_at`), a request of management (`place_known`), an input of the replication (`look`),
or a tick. Clients' data then waits until the node knows its place: all members confirm its view,
another view includes it, or it is about to restart. That takes five seconds at most
(metadata/fence.py).
"""

import asyncio
import logging
from collections.abc import Callable
from time import perf_counter

from leveret.broker.runtime.turns import Turns

logger = logging.getLogger("leveret.cluster")


class Suspension:
    """The watch of one node.

    ask: asks the other nodes for this node's place. knows_its_place: whether they have answered.
    """

    def __init__(
        self,
        turns: Turns,
        tick_time_s: float,
        ask: Callable[[], object],
        knows_its_place: Callable[[], bool],
    ) -> None:
        self._turns = turns
        self._tick_time_s = tick_time_s
        self._ask = ask
        self._knows_its_place = knows_its_place
        self._released = asyncio.Event()
        self._released.set()

    @property
    def is_holding(self) -> bool:
        """Whether the node does not know its place, or is about to detect a suspension."""
        return not self._released.is_set() or perf_counter() > self._turns.overdue_at

    async def place_known(self) -> None:
        """Wait until the node knows its place, if it was suspended."""
        self.look()
        await self._released.wait()

    def start(self) -> None:
        """Watch from now on; `tick` has to follow."""
        self._turns.when_overdue(perf_counter() + self._tick_time_s, self._was_suspended)

    def tick(self) -> None:
        """Check for a suspension; called every fraction of a second."""
        if self._turns.is_held and self._knows_its_place():
            self._release()
        self.look()
        self.start()

    def look(self) -> None:
        """Check at an event whether the process was suspended before it."""
        if perf_counter() > self._turns.overdue_at:
            self._was_suspended()

    def stop(self) -> None:
        """Stop watching, and release all clients."""
        self._turns.when_overdue(None, self._was_suspended)
        if self._turns.is_held:
            self._release()

    def _was_suspended(self) -> None:
        logger.warning(
            "this node was suspended for a while: it asks the others whether they consider it down"
        )
        self._turns.when_overdue(None, self._was_suspended)
        self._turns.hold()
        self._released.clear()
        self._ask()
        if self._knows_its_place():
            self._release()

    def _release(self) -> None:
        self._released.set()
        self._turns.release()
