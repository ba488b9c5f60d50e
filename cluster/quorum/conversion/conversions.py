"""Converts the queues of a node, one after the other.

Deletes the successors of conversions that a stop of the node has interrupted, and carries out those
that were decided. Until then their queues are held on this node.
"""

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

from leveret.broker.amqp.errors import Fault
from leveret.broker.declarations.decided_replacements import (
    DECIDED_REPLACEMENT,
    carrying_out,
    decided,
    giving_up,
)
from leveret.broker.declarations.requester import Requester
from leveret.broker.declarations.values import ReplaceQueue
from leveret.broker.policies.parameters import OPERATOR_POLICY, POLICY
from leveret.broker.policies.policy_table import merged
from leveret.broker.queues.classic.classic_queue import ClassicQueue
from leveret.broker.queues.contract.queue_client import QueueClient
from leveret.broker.queues.quorum_kind import QUORUM_QUEUE
from leveret.broker.registry.objects.parameters import RequirementError
from leveret.broker.runtime.names import QUEUE, SUCCESSOR_PREFIX, resource
from leveret.broker.runtime.pending_in_task import in_task
from leveret.broker.vhost.virtual_host import VirtualHost
from leveret.cluster.quorum.conversion.conversion import Conversion, Parts
from leveret.cluster.quorum.conversion.home_hold import RestoredHold
from leveret.cluster.quorum.conversion.refusals import refusals
from leveret.cluster.rpc.refused import Refused
from leveret.storage.metadata.metadata import MetadataError

logger = logging.getLogger("leveret.cluster")


class Conversions:
    """The conversions of queues that live on this node."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._turn = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()
        self._restored: list[RestoredHold] = []

    async def convert(self, vhost: str, name: str, requester: Requester) -> None:
        """Convert a classic queue to a quorum queue. Raises Refused; then it is as it was.

        The conversion continues if the caller is cancelled.
        """
        await asyncio.shield(self._begin(self._convert(vhost, name, requester)))

    def _begin(self, steps: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(steps)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

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

    # Conversions that were interrupted

    @property
    def _decided(self) -> list[ReplaceQueue]:
        parameters = self._parts.services.parameters.of(DECIDED_REPLACEMENT)
        return list(decided(value for _, _, value in parameters))

    def hold_decided(self) -> None:
        """Hold those queues of this node that are to be replaced, and no others."""
        places = {(it.vhost, it.name): it.identity for it in self._decided}
        restored, self._restored = self._restored, []
        for hold in restored:
            if (hold.vhost.name, hold.queue.name) in places:
                self._restored.append(hold)
            else:
                hold.end()
        for (vhost_name, name), identity in places.items():
            vhost = self._parts.services.vhosts.get(vhost_name)
            queue = None if vhost is None else vhost.queues.get(name)
            is_it = isinstance(queue, ClassicQueue) and queue.placement.identity == identity
            if vhost is not None and queue is not None and is_it:
                hold = RestoredHold(vhost, queue)
                hold.begin()
                self._restored.append(hold)

    def carry_out_decided(self) -> None:
        """Carry out decided replacements, as the coordinator or alone."""
        for it in self._decided:
            self._begin(self._carry_out(it))

    async def _carry_out(self, it: ReplaceQueue) -> None:
        submit, what = self._parts.services.declarations.submit, resource(QUEUE, it.name, it.vhost)
        try:
            await in_task(submit(*carrying_out(it)))
        except Fault as error:
            logger.warning("the conversion of %s is given up: %s", what, error)
            await in_task(submit(giving_up(it)))
            self.hold_decided()
        except (MetadataError, RequirementError) as error:
            logger.info("the conversion of %s is left to another node: %s", what, error)
        else:
            logger.info("the conversion of %s, which was interrupted, is complete", what)

    def remove_left_over(self) -> None:
        """The node has all declarations: delete successors of interrupted conversions."""
        kept = {(it.vhost, it.successor) for it in self._decided}
        for vhost in self._parts.services.vhosts.values():
            identities = {
                queue.placement.identity: queue.placement.node for queue in vhost.queues.values()
            }
            for queue in tuple(vhost.queues.values()):
                is_kept = (vhost.name, queue.name) in kept
                if queue.name.startswith(SUCCESSOR_PREFIX) and not is_kept:
                    converted = int(queue.name.removeprefix(SUCCESSOR_PREFIX), 16)
                    if identities.get(converted, vhost.node) == vhost.node:
                        logger.info("deleting %r: its conversion was interrupted", queue)
                        vhost.delete_queue(queue)
