"""Converts the queues of a node, one after the other. Deletes the successors of conversions that a
stop of the node has interrupted.
"""

import asyncio
import logging

from leveret.broker.declarations.requester import Requester
from leveret.broker.policies.parameters import OPERATOR_POLICY, POLICY
from leveret.broker.policies.policy_table import merged
from leveret.broker.queues.classic.classic_queue import ClassicQueue
from leveret.broker.queues.contract.queue_client import QueueClient
from leveret.broker.queues.quorum_kind import QUORUM_QUEUE
from leveret.broker.runtime.names import QUEUE, SUCCESSOR_PREFIX, resource
from leveret.broker.vhost.virtual_host import VirtualHost
from leveret.cluster.quorum.conversion.conversion import Conversion, Parts
from leveret.cluster.quorum.conversion.refusals import refusals
from leveret.cluster.rpc.refused import Refused

logger = logging.getLogger("leveret.cluster")


class Conversions:
    """The conversions of queues that live on this node."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._turn = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()

    async def convert(self, vhost: str, name: str, requester: Requester) -> None:
        """Convert a classic queue to a quorum queue. Raises Refused; then it is as it was.

        The conversion continues if the caller is cancelled.
        """
        task = asyncio.get_running_loop().create_task(self._convert(vhost, name, requester))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        await asyncio.shield(task)

    async def _convert(self, vhost_name: str, name: str, requester: Requester) -> None:
        what = resource(QUEUE, name, vhost_name)
        async with self._turn:
            vhost, queue = self._find(vhost_name, name)
            await Conversion(self._parts, vhost, queue, requester).run()
        logger.info("%s was converted to a quorum queue", what)

    def _find(self, vhost_name: str, name: str) -> tuple[VirtualHost, ClassicQueue]:
        """The queue, if it can be converted. Raises Refused with all reasons why it cannot."""
        vhost = self._parts.services.vhosts.get(vhost_name)
        queue = None if vhost is None else vhost.queues.get(name)
        if vhost is None or queue is None:
            raise Refused(f"no {resource(QUEUE, name, vhost_name)}")
        reasons = refusals(queue, QUORUM_QUEUE, self._policy(vhost_name, queue))
        if reasons:
            raise Refused("; ".join(reasons))
        if not isinstance(queue, ClassicQueue):
            raise Refused(f"it is on node {queue.placement.node}, or is being converted")
        counts = queue.figures.counts()
        if queue.options.single_active_consumer and counts.consumers:
            raise Refused("it has a single active consumer, which would not stay the active one")
        return vhost, queue

    def _policy(self, vhost: str, queue: QueueClient) -> dict[str, object]:
        policy, operator_policy = (
            self._parts.services.policies.of_queue(component, vhost, queue.name, queue.kind)
            for component in (POLICY, OPERATOR_POLICY)
        )
        return dict(merged(policy, operator_policy))

    def remove_left_over(self) -> None:
        """The node has all declarations: delete successors of interrupted conversions."""
        for vhost in self._parts.services.vhosts.values():
            identities = {
                queue.placement.identity: queue.placement.node for queue in vhost.queues.values()
            }
            for queue in tuple(vhost.queues.values()):
                if queue.name.startswith(SUCCESSOR_PREFIX):
                    converted = int(queue.name.removeprefix(SUCCESSOR_PREFIX), 16)
                    if identities.get(converted, vhost.node) == vhost.node:
                        logger.info("deleting %r: its conversion was interrupted", queue)
                        vhost.delete_queue(queue)
