"""Converts the queues of a node, one after the other.

Deletes the successors of conversions that a stop of the node has interrupted, and carries out those
that were decided. Until then their queues are held on this node.
"""

import asyncio
import logging
from collections.abc import Coroutine
from functools import partial
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
from leveret.broker.queues.contract.queue_kind import CLASSIC, QueueKind
from leveret.broker.registry.objects.parameters import RequirementError
from leveret.broker.runtime.names import QUEUE, SUCCESSOR_PREFIX, resource
from leveret.broker.runtime.pending_in_task import in_task
from leveret.broker.vhost.virtual_host import VirtualHost
from leveret.cluster.quorum.client.quorum_queue_client import QuorumQueueClient
from leveret.cluster.quorum.conversion.conversion import Conversion
from leveret.cluster.quorum.conversion.directions import Direction, direction_of
from leveret.cluster.quorum.conversion.held_queue import HELD
from leveret.cluster.quorum.conversion.home_hold import restored_hold
from leveret.cluster.quorum.conversion.node_holds import NodeHold, successor_name
from leveret.cluster.quorum.conversion.parts import Parts, delete_successor
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
        self._restored: list[NodeHold] = []
        self._running: set[tuple[str, int]] = set()

    async def convert(self, vhost: str, name: str, kind: QueueKind, requester: Requester) -> None:
        """Convert a queue. Raises Refused; then it is as it was.

        The conversion continues if the caller is cancelled.
        """
        await asyncio.shield(self._begin(self._convert(vhost, name, kind, requester)))

    def _begin(self, steps: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(steps)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _convert(
        self, vhost_name: str, name: str, kind: QueueKind, requester: Requester
    ) -> None:
        what = resource(QUEUE, name, vhost_name)
        async with self._turn:
            vhost, direction = self._find(vhost_name, name, kind)
            place = vhost_name, direction.queue.placement.identity
            self._running.add(place)
            try:
                await Conversion(self._parts, vhost, direction, requester).run()
            finally:
                self._running.remove(place)
        logger.info("%s was converted to a %s queue", what, kind.name)

    def _find(self, vhost_name: str, name: str, kind: QueueKind) -> tuple[VirtualHost, Direction]:
        """The queue, if it can be converted. Raises Refused with all reasons why it cannot."""
        vhost = self._parts.services.vhosts.get(vhost_name)
        queue = None if vhost is None else vhost.queues.get(name)
        if vhost is None or queue is None:
            raise Refused(f"no {resource(QUEUE, name, vhost_name)}")
        if queue.kind.name == HELD:
            raise Refused("it is being converted")
        if name.startswith(SUCCESSOR_PREFIX):
            raise Refused("it is to take the place of a queue that is being converted")
        before, later = (self._policy(vhost_name, name, one) for one in (queue.kind, kind))
        reasons = refusals(queue, kind, before, later)
        if reasons:
            raise Refused("; ".join(reasons))
        direction = direction_of(self._parts, vhost, queue)
        if direction is None:
            raise Refused(f"it is on node {queue.placement.node}")
        return vhost, direction

    def _policy(self, vhost: str, queue: str, kind: QueueKind) -> dict[str, object]:
        policy, operator_policy = (
            self._parts.services.policies.of_queue(component, vhost, queue, kind)
            for component in (POLICY, OPERATOR_POLICY)
        )
        return dict(merged(policy, operator_policy))

    # Conversions that were interrupted

    @property
    def _decided(self) -> list[ReplaceQueue]:
        parameters = self._parts.services.parameters.of(DECIDED_REPLACEMENT)
        return list(decided(value for _, _, value in parameters))

    def hold_decided(self) -> None:
        """Hold the queues that are to be replaced, and no others.

        A classic queue is held by its node, and a quorum queue by each.
        """
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
            if vhost is None or queue is None or queue.placement.identity != identity:
                continue
            if isinstance(queue, ClassicQueue | QuorumQueueClient):
                hold = restored_hold(vhost, queue)
                hold.begin()
                self._restored.append(hold)

    def carry_out_decided(self, is_coordinator: bool) -> None:
        """Carry out decided replacements: each is the task of the home node of the queue.

        If this does not run, it is the task of the coordinator.
        """
        running = self._parts.nodes.running
        for it in self._decided:
            home = self._home_of(it)
            is_own = home in ("", self._parts.remote_queues.node)
            is_left = is_own and (it.vhost, it.identity) not in self._running
            if is_left or (is_coordinator and home not in running):
                self._begin(self._carry_out(it))

    def _home_of(self, it: ReplaceQueue) -> str | None:
        """The node of the classic one of the two queues; None if it was deleted."""
        vhost = self._parts.services.vhosts.get(it.vhost)
        queues = {} if vhost is None else vhost.queues
        successor = queues.get(it.successor)
        if successor is None:
            return None
        classic = successor if successor.kind.name == CLASSIC else queues.get(it.name)
        return None if classic is None else classic.placement.node

    async def _carry_out(self, it: ReplaceQueue) -> None:
        submit, what = self._parts.services.declarations.submit, resource(QUEUE, it.name, it.vhost)
        try:
            await in_task(submit(*carrying_out(it)))
        except Fault as error:
            logger.warning("the conversion of %s is given up: %s", what, error)
            await in_task(submit(giving_up(it)))
            vhost = self._parts.services.vhosts.get(it.vhost)
            if vhost is not None and it.successor in vhost.queues:
                delete_successor(vhost, vhost.queues[it.successor])
        except (MetadataError, RequirementError) as error:
            logger.info("the conversion of %s is left to another node: %s", what, error)
        else:
            logger.info("the conversion of %s, which was interrupted, is complete", what)

    def remove_left_over(self) -> None:
        """The node has all declarations: delete successors of interrupted conversions.

        The node of the classic queue, of the two, did the conversion.
        """
        for vhost in self._parts.services.vhosts.values():
            by_identity = {queue.placement.identity: queue for queue in vhost.queues.values()}
            for queue in tuple(vhost.queues.values()):
                if queue.name.startswith(SUCCESSOR_PREFIX):
                    converted = int(queue.name.removeprefix(SUCCESSOR_PREFIX), 16)
                    self._remove_left_over(vhost, by_identity.get(converted), queue)

    def queue_changed(self, vhost_name: str, name: str) -> None:
        """A queue was deleted, or has another home: that of a mirrored queue may have converted it.

        The successor of a queue that this node leads from now on is deleted. This comes after the
        round: a declaration is being applied, and the next one may give it the name.
        """
        if self._successor_of(vhost_name, name) is not None:
            look = partial(self._look_for_left_over, vhost_name, name)
            self._parts.services.turns.after_round(look)

    def _look_for_left_over(self, vhost_name: str, name: str) -> None:
        successor = self._successor_of(vhost_name, name)
        if successor is not None:
            vhost = self._parts.services.vhosts[vhost_name]
            self._remove_left_over(vhost, vhost.queues[name], successor)

    def _successor_of(self, vhost_name: str, name: str) -> QueueClient | None:
        vhost = self._parts.services.vhosts.get(vhost_name)
        if vhost is None or name not in vhost.queues:
            return None
        return vhost.queues.get(successor_name(vhost.queues[name]))

    def _remove_left_over(
        self, vhost: VirtualHost, converted: QueueClient | None, successor: QueueClient
    ) -> None:
        """Delete a successor if this node is to do the conversion, and is not doing it."""
        identity = 0 if converted is None else converted.placement.identity
        is_kept = any(it.successor_identity == successor.placement.identity for it in self._decided)
        if is_kept or (vhost.name, identity) in self._running:
            return
        classic = successor if successor.kind.name == CLASSIC else converted
        if classic is None or vhost.lives_here(classic):
            logger.info("deleting %r: its conversion was interrupted", successor)
            delete_successor(vhost, successor)
