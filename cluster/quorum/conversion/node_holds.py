"""Holds queues on one node while the home node of each converts it.

The home node asks each other node to `keep` a queue: the request ends with the hold, and the hold
ends with the link. A second request, the `fence`, is answered when nothing is under way between
this node and the queue. `release` ends the hold without a conversion.

Invariants:
NH1. When the fence is answered, the queue has taken everything that this node has sent, everything
     that it has delivered has arrived, and it has no consumers of this node.
"""

import asyncio
import logging
from collections.abc import Iterable, Mapping
from typing import Any, Protocol, cast

import msgspec

from leveret.broker.amqp.errors import Fault
from leveret.broker.amqp.field_table import text_of
from leveret.broker.queues.contract.queue_client import QueueClient, QueueLength
from leveret.broker.runtime.names import QUEUE, resource
from leveret.broker.runtime.pending import Answer
from leveret.broker.runtime.pending_in_task import given_in_task
from leveret.broker.services.services import Services
from leveret.broker.sessions.session_consumer import SessionConsumer
from leveret.broker.sessions.unacked import UnackedMessages
from leveret.broker.sessions.unacked_record import Unacked
from leveret.broker.vhost.virtual_host import VirtualHost
from leveret.cluster.quorum.conversion.held_queue import HeldQueue, subscribe_again
from leveret.cluster.remote_queues.queue_frames import to_bytes
from leveret.cluster.rpc.refused import Refused
from leveret.cluster.rpc.rpc import Rpc

logger = logging.getLogger("leveret.cluster")

KEEP, FENCE, RELEASE = "queue-hold", "queue-hold-fence", "queue-hold-release"


class HeldBy(msgspec.Struct, frozen=True):
    """Names a queue between nodes. identity: that of its declaration."""

    vhost: bytes
    name: bytes
    identity: int


def held_by(vhost: str, queue: QueueClient) -> bytes:
    """The text of each request about a queue."""
    asked = HeldBy(to_bytes(vhost), to_bytes(queue.name), queue.placement.identity)
    return msgspec.msgpack.encode(asked)


class Session(Protocol):
    """A session of a client."""

    consumers: dict[str, Any]
    unacked: UnackedMessages
    global_prefetch_count: int
    name: str


class Connection(Protocol):
    """A connection of a client."""

    @property
    def channels(self) -> Mapping[int, Session]:
        """Its sessions."""


class NodeHold:
    """A queue that is held on this node, from `begin` on.

    released: set when the home node gives it up, another queue has the name, or it is deleted.
    """

    def __init__(self, vhost: VirtualHost, queue: QueueClient) -> None:
        self.vhost = vhost
        self.queue = queue
        self.held = HeldQueue(vhost.name, queue, self.successor)
        self.released = asyncio.Event()

    def begin(self) -> None:
        """Hold it."""
        self.vhost.replace_queue(self.held)

    def successor(self) -> QueueClient | None:
        """The vhost has deleted the queue: the one that has its name; None if there is none."""
        self.released.set()
        found = self.vhost.queues.get(self.queue.name)
        return None if found is self.held else found

    @property
    def is_over(self) -> bool:
        """Whether another queue has the name, or none."""
        return self.vhost.queues.get(self.queue.name) is not self.held

    def end(self) -> None:
        """The queue goes on as it was, unless another one has its name, or it was deleted."""
        if not self.is_over:
            self.vhost.replace_queue(self.queue)
            self.held.release(self.queue)


class NodeHolds:
    """The queues that are held on this node for others, by their identities."""

    def __init__(self, services: Services, rpc: Rpc) -> None:
        self._services = services
        self._holds: dict[int, NodeHold] = {}
        self._emptying: set[asyncio.Task[None]] = set()
        rpc.answer(KEEP, self._keep)
        rpc.answer(FENCE, self._fence)
        rpc.answer(RELEASE, self._release)

    # Requests of the home nodes of queues

    async def _keep(self, node: str, text: bytes) -> bytes:
        """Hold a queue until it is released, or replaced, or the link to the node is down."""
        asked = msgspec.msgpack.decode(text, type=HeldBy)
        if asked.identity in self._holds:
            raise Refused("the queue is held already")
        vhost, queue = self._find(asked)
        self.check(vhost, queue)
        hold = self._holds[asked.identity] = NodeHold(vhost, queue)
        hold.begin()
        try:
            await hold.released.wait()
        finally:
            del self._holds[asked.identity]
            hold.end()
        return b""

    async def _fence(self, node: str, text: bytes) -> bytes:
        hold = self._held(text)
        # It goes on if the link is lost: the consumers must not be.
        emptying = asyncio.ensure_future(self._empty(hold))
        self._emptying.add(emptying)
        emptying.add_done_callback(self._emptied)
        try:
            await asyncio.shield(emptying)
        except Fault as error:
            raise Refused(str(error)) from None
        return b""

    def _emptied(self, emptying: asyncio.Task[None]) -> None:
        self._emptying.discard(emptying)
        if not emptying.cancelled() and (error := emptying.exception()) is not None:
            logger.info("a queue that is converted cannot be held: %s", error)

    async def _release(self, node: str, text: bytes) -> bytes:
        self._held(text).released.set()
        return b""

    def _held(self, text: bytes) -> NodeHold:
        hold = self._holds.get(msgspec.msgpack.decode(text, type=HeldBy).identity)
        if hold is None:
            raise Refused("the queue is not held")
        return hold

    def _find(self, asked: HeldBy) -> tuple[VirtualHost, QueueClient]:
        vhost_name, name = text_of(asked.vhost), text_of(asked.name)
        vhost = self._services.vhosts.get(vhost_name)
        queue = None if vhost is None else vhost.queues.get(name)
        if vhost is None or queue is None or queue.placement.identity != asked.identity:
            raise Refused(f"no {resource(QUEUE, name, vhost_name)}")
        return vhost, queue

    # One hold

    def check(self, vhost: VirtualHost, queue: QueueClient) -> None:
        """Raise Refused if a queue cannot be held now, or not be converted with its consumers."""
        if not vhost.fan_outs.is_idle:
            raise Refused("messages are on their way to very many queues; try again")
        for session, consumer in self._consumers():
            if consumer.queue is queue and session.global_prefetch_count:
                raise Refused(
                    f"consumer {consumer.tag!r} of channel {session.name} shares a prefetch limit "
                    "with others, which quorum queues do not support"
                )

    async def _empty(self, hold: NodeHold) -> None:
        """Cancel the consumers at the queue, and wait until nothing is under way (NH1)."""
        queue = hold.queue
        left: list[SessionConsumer] = []
        try:
            # After the answer, consumers whose subscription was under way have begun.
            await _length(queue)
            for consumer in self.consumers_of(queue):
                cancelled: Answer[None] = Answer()
                queue.cancel(consumer, answer=cancelled)
                await given_in_task(cancelled)
                left.append(consumer)
            # What the consumers gave back unseen was sent before this.
            await _length(queue)
        finally:
            # Some may have been cancelled by their clients meanwhile.
            there = self.consumers_of(queue)
            left = [consumer for consumer in left if consumer in there]
            if not hold.is_over:
                keep_consumers(hold, left)
            elif (found := hold.successor()) is not None:
                for consumer in left:
                    subscribe_again(found, consumer)

    def consumers_of(self, queue: QueueClient) -> list[SessionConsumer]:
        """The consumers of a queue in sessions of this node."""
        return [consumer for _, consumer in self._consumers() if consumer.queue is queue]

    def _consumers(self) -> Iterable[tuple[Session, SessionConsumer]]:
        for session in self._sessions():
            for consumer in session.consumers.values():
                yield session, consumer

    def _sessions(self) -> Iterable[Session]:
        connections = cast("Iterable[Connection]", self._services.open_counts.connections)
        for connection in connections:
            yield from connection.channels.values()

    def records_of(self, queue: QueueClient) -> list[Unacked]:
        """The unsettled deliveries of a queue in sessions of this node."""
        return [
            record
            for session in self._sessions()
            for record in session.unacked.records.values()
            if record.queue is queue
        ]


def keep_consumers(hold: NodeHold, consumers: Iterable[SessionConsumer]) -> None:
    """The consumers, which were cancelled at the queue, are subscribed again later."""
    for consumer in consumers:
        consumer.queue_replaced(hold.held)
        hold.held.consumers[consumer] = None


async def _length(queue: QueueClient) -> None:
    length: Answer[QueueLength] = Answer()
    queue.length(length)
    await given_in_task(length)
