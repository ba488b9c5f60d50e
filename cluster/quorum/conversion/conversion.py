"""The conversion of one classic queue, by its home node: steps 2 to 8 of docs/design/conversion.md.

Invariants:
CN1. It is decided that the name passes to the successor only if all nodes that run have held the
     queue since before the copy, and no link to them was lost.
CN2. The replacement begins when all nodes have on disk that it is decided. So it is never undone:
     the queue may be deleted, and clients may use the successor, where it is made.
"""

import asyncio
import logging
from functools import partial
from typing import Protocol

from msgspec.structs import replace

from leveret.broker.amqp.errors import Fault
from leveret.broker.amqp.field_table import Table, encode_table
from leveret.broker.declarations.decided_replacements import (
    DECIDED_REPLACEMENT,
    carrying_out,
    decision,
    giving_up,
)
from leveret.broker.declarations.requester import Requester
from leveret.broker.declarations.values import ReplaceQueue
from leveret.broker.queues.classic.classic_queue import ClassicQueue
from leveret.broker.queues.contract.queue_client import QueueClient
from leveret.broker.queues.contract.queue_kind import QUORUM, TYPE_ARGUMENT
from leveret.broker.registry.objects.parameters import RequirementError
from leveret.broker.runtime.names import QUEUE, SUCCESSOR_PREFIX, resource
from leveret.broker.runtime.pending import Answer
from leveret.broker.runtime.pending_in_task import given_in_task, in_task
from leveret.broker.services.services import Services
from leveret.broker.vhost.virtual_host import VirtualHost
from leveret.cluster.quorum.client.quorum_queue_client import QuorumQueueClient
from leveret.cluster.quorum.conversion.classic_messages import ClassicMessages, when_readable
from leveret.cluster.quorum.conversion.copying import Copying
from leveret.cluster.quorum.conversion.early_copy import EarlyCopy
from leveret.cluster.quorum.conversion.home_hold import HomeHold, TryAgain
from leveret.cluster.quorum.conversion.node_holds import (
    FENCE,
    KEEP,
    RELEASE,
    NodeHolds,
    held_by,
)
from leveret.cluster.quorum.conversion.refusals import too_much
from leveret.cluster.remote_queues.remote_queues import RemoteQueues
from leveret.cluster.rpc.refused import Refused
from leveret.cluster.rpc.rpc import NotAnswered, Rpc
from leveret.storage.messages.message import bytes_of
from leveret.storage.metadata.metadata import MetadataError

TRIES, PAUSE_SECONDS = 5, 0.2
"""If messages are just being returned, the queue is held again after a pause."""
HOLD_SECONDS_MAX = 5.0
"""The queue is released after this time: its clients wait, a channel for at most 15 seconds."""
KEEP_SECONDS_MAX, SILENCE_SECONDS_MAX = 3600.0, 10.0
"""The request to hold a queue is answered when the hold ends."""

logger = logging.getLogger("leveret.cluster")


class RunningNodes(Protocol):
    """The nodes of the view that this one is in."""

    @property
    def running(self) -> tuple[str, ...]:
        """Their names, with this node's own."""


class Parts:
    """The parts of a node that a conversion uses."""

    def __init__(
        self, services: Services, rpc: Rpc, remote_queues: RemoteQueues, holds: NodeHolds,
        nodes: RunningNodes,
    ) -> None:  # fmt: skip
        self.services = services
        self.rpc = rpc
        self.remote_queues = remote_queues
        self.holds = holds
        self.nodes = nodes

    @property
    def others(self) -> frozenset[str]:
        """The other nodes that run, and those that are linked."""
        names = {*self.nodes.running, *self.rpc.nodes}
        return frozenset(names - {self.remote_queues.node})


class Conversion:
    """One attempt to convert a queue."""

    def __init__(
        self, parts: Parts, vhost: VirtualHost, queue: ClassicQueue, requester: Requester
    ) -> None:
        self._parts = parts
        self._vhost = vhost
        self._queue = queue
        self._requester = requester
        self._arguments: Table = {**queue.arguments, TYPE_ARGUMENT: ("S", QUORUM)}
        self._what = resource(QUEUE, queue.name, vhost.name)
        self._messages = ClassicMessages(queue, parts.holds, parts.remote_queues)
        self._others = parts.others
        self._keeping: dict[str, asyncio.Task[bytes]] = {}

    async def run(self) -> None:
        """Convert the queue. Raises Refused; then it is as it was."""
        successor = await self._declare_successor()
        copying = Copying(successor, self._parts.services.clock)
        early = EarlyCopy(self._queue, self._messages, copying, self._what)
        try:
            for left in reversed(range(TRIES)):
                if not self._queue.backing.has_expiring:
                    await early.run()
                try:
                    await self._finish(copying, successor)
                    return
                except TryAgain as error:
                    if not left:
                        raise
                    logger.info("%s is not converted yet: %s", self._what, error)
                    await asyncio.sleep(PAUSE_SECONDS)
        except Refused:
            self._vhost.delete_queue(successor)
            raise
        except Fault as error:
            self._vhost.delete_queue(successor)
            raise Refused(str(error)) from None

    async def _finish(self, copying: Copying, successor: QueueClient) -> None:
        """Hold the queue everywhere, copy the rest, and give the name to the successor.

        Raises Refused; then the queue is released.
        """
        hold = HomeHold(self._vhost, self._queue, self._parts.remote_queues)
        self._others = self._parts.others
        logger.info("%s is held to become a quorum queue", self._what)
        try:
            try:
                async with asyncio.timeout(HOLD_SECONDS_MAX):
                    await self._hold_others()
                    await self._copy(hold, copying)
            except TimeoutError:
                raise Refused("it takes too long") from None
            except (NotAnswered, Fault) as error:
                raise Refused(str(error)) from None
            except Refused:
                raise
            except Exception as error:
                # Clients wait until the queue is released.
                logger.exception("%s cannot be converted", self._what)
                raise Refused(f"an unexpected error: {error!r}") from None
            await self._replace(successor)
        except Refused:
            hold.end()
            await self._release_others()
            raise

    # 2. The successor

    async def _declare_successor(self) -> QuorumQueueClient:
        """Declare it where a queue of this name would be placed, and wait until it has a leader."""
        vhost = self._vhost
        specification = vhost.kinds.specify(
            vhost.name, self._queue.name, self._arguments, durable=True
        )
        name = f"{SUCCESSOR_PREFIX}{self._queue.placement.identity:x}"
        declaration = replace(
            vhost.declaration_of(specification), name=name,
            arguments=encode_table({TYPE_ARGUMENT: ("S", QUORUM)}),
        )  # fmt: skip
        try:
            await in_task(self._parts.services.declarations.submit(declaration))
            successor = vhost.queues[name]
            works: Answer[int] = Answer()
            successor.purge(works)
            await given_in_task(works)
        except (Fault, MetadataError, KeyError) as error:
            if name in vhost.queues:
                vhost.delete_queue(vhost.queues[name])
            raise Refused(f"its successor cannot be declared: {error}") from None
        assert isinstance(successor, QuorumQueueClient), "quorum queues are of this kind"
        return successor

    # 3 to 5. Holding and copying

    async def _hold_others(self) -> None:
        """Hold the queue on all other nodes (NH1). Raises Refused and NotAnswered."""
        rpc, text = self._parts.rpc, held_by(self._vhost.name, self._queue)
        for node in self._others:
            asked = rpc.ask(node, KEEP, text, KEEP_SECONDS_MAX, SILENCE_SECONDS_MAX)
            self._keeping[node] = asyncio.ensure_future(asked)
        fences = [rpc.ask(node, FENCE, text, HOLD_SECONDS_MAX) for node in self._others]
        fenced = await asyncio.gather(*fences, return_exceptions=True)
        self._check_nodes()
        for error in fenced:
            if isinstance(error, BaseException):
                raise error

    def _check_nodes(self) -> None:
        """Raise Refused unless all nodes hold the queue, and no other node has come (CN1)."""
        for node, keeping in self._keeping.items():
            if keeping.done():
                error = keeping.exception()
                raise Refused(f"node {node} does not hold it: {error or 'it was deleted'}")
        if self._parts.others != self._others:
            raise Refused("a node has started or stopped meanwhile")

    async def _copy(self, hold: HomeHold, copying: Copying) -> None:
        """Hold the queue here, and copy what is not copied (CO1)."""
        messages = self._messages
        self._parts.holds.check(self._vhost, self._queue)
        hold.begin()
        hold.freeze(self._parts.holds, messages)
        held, end = hold.held_entries, messages.end
        ready_count = self._queue.backing.ready_count
        if copying.copied_to:
            returned = await when_readable(partial(messages.returned, copying.taken_to))
            taken_to = returned.taken_to
            rest = await messages.read_from(max(taken_to, copying.copied_to))
            ready = [*returned.entries, *rest]
        else:
            _require_few(ready_count, self._queue.backing.ready_bytes)
            taken_to = end
            ready = hold.taken = await messages.take_all()
            ready_count = len(ready)
        _require_few(len(held) + len(ready), bytes_of([*held, *ready]))
        hold.moved = await copying.finish(held, ready, taken_to, end)
        await copying.check(ready_count, len(held))

    async def _release_others(self) -> None:
        text = held_by(self._vhost.name, self._queue)
        asked = [
            self._parts.rpc.ask(node, RELEASE, text, HOLD_SECONDS_MAX)
            for node, keeping in self._keeping.items()
            if not keeping.done()
        ]
        for outcome in await asyncio.gather(*asked, return_exceptions=True):
            if isinstance(outcome, Exception):
                logger.debug("a node no longer held %r: %s", self._queue, outcome)

    # 7 and 8. The name

    async def _replace(self, successor: QueueClient) -> None:
        """Give the name to the successor (CN2). Raises Refused if it stays with the queue."""
        queue = self._queue
        self._check_nodes()
        it = ReplaceQueue(
            self._vhost.name, queue.name, queue.placement.identity, successor.name,
            successor.placement.identity, encode_table(self._arguments),
            acting_user=self._requester.user,
        )  # fmt: skip
        submit, is_decided = self._parts.services.declarations.submit, False
        try:
            await in_task(submit(decision(it)))
            is_decided = True
            await in_task(submit(*carrying_out(it), requester=self._requester))
        except Fault as error:
            # One of the queues was deleted.
            submit(giving_up(it))
            raise Refused(str(error)) from None
        except (MetadataError, RequirementError) as error:
            if self._is_replaced_by(successor):
                return  # Another node has carried it out.
            is_alone = not self._others
            if (is_decided or is_alone) and not self._has_decision(it):
                raise Refused(str(error)) from None
            # The other nodes may have it: this node learns that when it joins them again.
            logger.error(
                "it is unknown whether %s was converted; its clients wait until this node "
                "reaches the others again: %s", self._what, error,
            )  # fmt: skip
            raise

    def _has_decision(self, it: ReplaceQueue) -> bool:
        parameters = self._parts.services.parameters
        return parameters.get(DECIDED_REPLACEMENT, it.vhost, it.successor) is not None

    def _is_replaced_by(self, successor: QueueClient) -> bool:
        return self._vhost.queues.get(self._queue.name) is successor


def _require_few(messages: int, body_bytes: int) -> None:
    """Raise Refused unless this number of messages can be copied in one pause."""
    reason = too_much(messages, body_bytes)
    if reason is not None:
        raise Refused(reason)
