"""Replicas of streams that come and go while everything else happens.

Any node is asked to add a replica, or to delete one, as an operator does it. Nodes that are down, a
stream without a majority, and a change that is under way refuse that; the next change comes anyway.
"""

import asyncio
import contextlib
import random
from collections.abc import Sequence

from tests.cluster.clustered_nodes import ClusteredNode
from tests.cluster.hosted_nodes import api

CHANGE_SECONDS = 0.5, 3.0


class Membership:
    """Changes the members of streams until it is told to stop. changes: how many were made."""

    def __init__(
        self, nodes: Sequence[ClusteredNode], queues: Sequence[str], chance: random.Random
    ) -> None:
        self.changes = 0
        self._nodes = nodes
        self._queues = queues
        self._chance = chance

    async def change(self) -> None:
        """Change members now and then, for ever."""
        while self._queues:
            await asyncio.sleep(self._chance.uniform(*CHANGE_SECONDS))
            queue, asked = self._chance.choice(self._queues), self._chance.choice(self._nodes)
            other = self._chance.choice(self._nodes)
            with contextlib.suppress(OSError):
                await asyncio.to_thread(self._change_one, queue, asked, other)

    def _change_one(self, queue: str, asked: ClusteredNode, node: ClusteredNode) -> None:
        members = api(asked, f"queues/%2F/{queue}").get("members", [])
        replicas = f"queues/stream/%2F/{queue}/replicas"
        if node.name not in members:
            api(asked, f"{replicas}/add", "POST", {"node": node.name})
        elif len(members) > 1:
            api(asked, f"{replicas}/delete", "DELETE", {"node": node.name})
        else:
            return
        self.changes += 1
