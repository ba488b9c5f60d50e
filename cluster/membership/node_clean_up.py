"""Checks at intervals for members that are down and no longer listed, and removes them.

discovery/cleanup.py decides which members these are, and whether they are only logged. They are
removed as by `forget_cluster_node`. Every node checks: if several find the same member, one removes
it, and the others are told that it is not a member.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from leveret.broker.runtime.clock import Clock, Timer
from leveret.cluster.discovery.cleanup import CleanUp
from leveret.cluster.membership.membership_changes import ClusterError

logger = logging.getLogger("leveret.peer_discovery")


class NodeCleanUp:
    """The clean-up of one run of a node.

    members, alive: the names of the cluster's nodes, and of those that run or are starting.
    forget: removes one; raises ClusterError.
    """

    def __init__(
        self,
        clean_up: CleanUp,
        clock: Clock,
        members: Callable[[], tuple[str, ...]],
        alive: Callable[[], frozenset[str]],
        forget: Callable[[str], Awaitable[None]],
    ) -> None:
        self._clean_up = clean_up
        self._clock = clock
        self._members = members
        self._alive = alive
        self._forget = forget
        self._timer: Timer | None = None
        self._step: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Check after each interval, if node clean-up is enabled."""
        if self._clean_up.interval_s is not None:
            self._timer = self._clock.call_later_ms(self._clean_up.interval_s * 1000, self._begin)

    async def stop(self) -> None:
        """Stop checking."""
        if self._timer is not None:
            self._timer.cancel()
        if self._step is not None:
            self._step.cancel()
            await asyncio.wait((self._step,))

    def _begin(self) -> None:
        self._step = asyncio.get_running_loop().create_task(self._look())
        self._step.add_done_callback(self._looked)

    def _looked(self, step: asyncio.Task[None]) -> None:
        if step.cancelled():
            return
        if error := step.exception():
            logger.error("node clean-up failed; retrying at the next interval: %s", error)
        self.start()

    async def _look(self) -> None:
        for name in await self._clean_up.step(self._members(), self._alive()):
            try:
                await self._forget(name)
            except ClusterError as error:
                logger.warning("node clean-up failed to remove node %s: %s", name, error)
