"""Holds queues on one node while the home node of each converts it.

The home node asks each other node to `keep` a queue: the request ends with the hold, and the hold
ends with the link. A second request, the `fence`, is answered when nothing is under way between
this node and the queue. `release` ends the hold without a conversion.

What clients hold of a classic queue they settle over the link to the home node, before and after
the conversion. Deliveries of a quorum queue are settled by another way before than after it
(`QuorumHold`): the answer to the fence has their positions, and the home node then says as which
deliveries of its own this node holds them (`moved`).

Invariants:
NH1. When the fence is answered, the queue has taken everything that this node has sent, everything
     that it has delivered has arrived, and it has no consumers of this node.
NH2. A node that holds a quorum queue lets clients use it again only if its name will not pass to
     the successor. If the home node is lost, it deletes the successor: this is refused if the
     replacement is decided, and prevents it otherwise.
NH3. The single active consumer is subscribed before all others, on whatever node it is.
"""

import asyncio
import logging
from collections.abc import Coroutine, Iterable, Mapping
from contextlib import suppress
from typing import Any, Protocol, cast

import msgspec

from leveret.broker.amqp.errors import Fault
from leveret.broker.amqp.field_table import bytes_of, text_of
from leveret.broker.declarations.values import DeleteQueue
from leveret.broker.queues.contract.queue_client import QueueClient, QueueLength
from leveret.broker.queues.contract.queue_kind import QUORUM
from leveret.broker.queues.contract.status import UP, ConsumerFigures
from leveret.broker.runtime.names import QUEUE, SUCCESSOR_PREFIX, resource
from leveret.broker.runtime.pending import Answer
from leveret.broker.runtime.pending_in_task import given_in_task, in_task
from leveret.broker.services.services import Services
from leveret.broker.sessions.session_consumer import SessionConsumer
from leveret.broker.sessions.unacked import UnackedMessages
from leveret.broker.sessions.unacked_record import Unacked
from leveret.broker.vhost.virtual_host import VirtualHost
from leveret.cluster.quorum.client.holders import POSITION_MASK
from leveret.cluster.quorum.client.quorum_queue_client import QuorumQueueClient
from leveret.cluster.quorum.conversion.held_queue import HeldQueue, subscribe_again
from leveret.cluster.remote_queues.queue_frames import REMOTE_TAGS
from leveret.cluster.remote_queues.remote_queue import RemoteQueue
from leveret.cluster.rpc.refused import Refused
from leveret.cluster.rpc.rpc import Rpc
from leveret.storage.metadata.metadata import MetadataError

logger = logging.getLogger("leveret.cluster")

KEEP, FENCE, RELEASE = "queue-hold", "queue-hold-fence", "queue-hold-release"
MOVED = "queue-hold-moved"
ACTIVE_SECONDS_MAX = 5.0
"""How long other consumers wait for the single active one, whose node may have died."""
OUTCOME_SECONDS = 0.5
"""How often a node without a majority tries to learn the outcome."""
POLL_SECONDS = 0.01
"""This node may learn of the successor later than of the hold."""


class ConsumerName(msgspec.Struct, frozen=True):
    """Identifies a consumer. number: of its channel."""

    connection: bytes
    number: int
    tag: bytes


def name_of(figures: ConsumerFigures) -> ConsumerName:
    """The name of a consumer with these figures."""
    connection, tag = figures.connection.name, figures.tag
    return ConsumerName(bytes_of(connection), figures.channel_number, bytes_of(tag))


class HeldBy(msgspec.Struct, frozen=True):
    """Names a queue between nodes. identity: that of its declaration.

    first_tag: with `moved`: that of the first delivery. active: with `keep`: the single active
    consumer.
    """

    vhost: bytes
    name: bytes
    identity: int
    first_tag: int = 0
    active: ConsumerName | None = None


def held_by(
    vhost: str, queue: QueueClient, first_tag: int = 0, active: ConsumerName | None = None
) -> bytes:
    """The text of each request about a queue."""
    asked = HeldBy(
        bytes_of(vhost), bytes_of(queue.name), queue.placement.identity, first_tag, active
    )
    return msgspec.msgpack.encode(asked)


def held_positions(fenced: bytes) -> list[int]:
    """The positions, in order, of what clients of a node hold of a quorum queue."""
    return msgspec.msgpack.decode(fenced, type=list[int]) if fenced else []


def successor_name(queue: QueueClient) -> str:
    """The name that the successor of a queue has until it gets the queue's."""
    return f"{SUCCESSOR_PREFIX}{queue.placement.identity:x}"


class HeldSession(Protocol):
    """A session of a client."""

    consumers: dict[str, Any]
    unacked: UnackedMessages
    global_prefetch_count: int
    name: str


class HeldConnection(Protocol):
    """A connection of a client."""

    @property
    def channels(self) -> Mapping[int, HeldSession]:
        """Its sessions."""


class NodeHold:
    """A queue that is held on this node, from `begin` on.

    released: set when the home node gives it up, another queue has the name, or it is deleted.
    active: the single active consumer, on this node or another one. It is subscribed first, so that
    it stays active (NH3).
    """

    active: ConsumerName | None = None

    def __init__(self, vhost: VirtualHost, queue: QueueClient) -> None:
        self.vhost = vhost
        self.queue = queue
        self.held = HeldQueue(vhost.name, queue, self.successor)
        self.released = asyncio.Event()

    def begin(self) -> None:
        """Hold it. Raises Refused if it was deleted since its conversion began."""
        if self.vhost.queues.get(self.queue.name) is not self.queue:
            raise Refused("it was deleted")
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


class QuorumHold(NodeHold):
    """A quorum queue that is held on this node.

    moved: what clients hold becomes these deliveries of the successor, by the positions that the
    messages have in the queue.
    """

    def __init__(self, vhost: VirtualHost, queue: QueueClient) -> None:
        super().__init__(vhost, queue)
        self.moved: dict[int, int] = {}
        self._records: list[Unacked] = []

    def freeze(self, records: list[Unacked]) -> None:
        """Keep from now on how clients settle what they hold."""
        self._records = records
        for record in records:
            record.queue = self.held

    @property
    def positions(self) -> list[int]:
        """The positions of what clients hold, in order."""
        return sorted(record.entry.position & POSITION_MASK for record in self._records)

    def successor(self) -> QueueClient | None:
        """The queue that has the name from now on: what clients hold is settled there."""
        found = super().successor()
        if found is not None:
            for record in self._records:
                entry = record.entry
                entry.position = self.moved[entry.position & POSITION_MASK]
                record.queue = found
            if isinstance(self.queue, QuorumQueueClient):
                self.queue.replaced()
        return found

    def end(self) -> None:
        """The queue goes on as it was, unless another one has its name, or it was deleted."""
        if not self.is_over:
            for record in self._records:
                record.queue = self.queue
        super().end()


def hold_of(vhost: VirtualHost, queue: QueueClient) -> NodeHold:
    """The hold of a queue, which does not begin yet."""
    is_quorum = isinstance(queue, QuorumQueueClient)
    return QuorumHold(vhost, queue) if is_quorum else NodeHold(vhost, queue)


class NodeHolds:
    """The queues that are held on this node for others, by their identities."""

    def __init__(self, services: Services, rpc: Rpc) -> None:
        self._services = services
        self._holds: dict[int, NodeHold] = {}
        self._working: set[asyncio.Task[None]] = set()
        rpc.answer(KEEP, self._keep)
        rpc.answer(FENCE, self._fence)
        rpc.answer(MOVED, self._moved)
        rpc.answer(RELEASE, self._release)

    # Requests of the home nodes of queues

    async def _keep(self, node: str, text: bytes) -> bytes:
        """Hold a queue until it is released, or replaced, or the link to the node is down."""
        asked = msgspec.msgpack.decode(text, type=HeldBy)
        if asked.identity in self._holds:
            raise Refused("the queue is held already")
        vhost, queue = self._find(asked)
        self.check(vhost, queue)
        hold = self._holds[asked.identity] = hold_of(vhost, queue)
        hold.active = asked.active
        hold.begin()
        is_known = False
        try:
            await hold.released.wait()
            is_known = True
        finally:
            if is_known or not isinstance(hold, QuorumHold):
                self._end(asked.identity, hold)
            else:
                self._start(self._end_when_known(asked.identity, hold))
        return b""

    def _end(self, identity: int, hold: NodeHold) -> None:
        del self._holds[identity]
        hold.end()
        self.subscribe_left(hold)

    def subscribe_left(self, hold: NodeHold) -> None:
        """The hold has ended: subscribe the consumers that have to wait for the active one."""
        if hold.held.consumers:
            self._start(self._subscribe_left(hold.held))

    async def _subscribe_left(self, held: HeldQueue) -> None:
        with suppress(TimeoutError, Fault):
            async with asyncio.timeout(ACTIVE_SECONDS_MAX):
                while not (await _length(held)).consumer_count:
                    await asyncio.sleep(POLL_SECONDS)
        held.subscribe_left()

    async def _end_when_known(self, identity: int, hold: QuorumHold) -> None:
        """End a hold whose home node is lost, when the outcome of the conversion is known (NH2)."""
        deletion = DeleteQueue(hold.vhost.name, successor_name(hold.queue))
        while not hold.is_over:
            try:
                await in_task(self._services.declarations.submit(deletion))
            except (Fault, MetadataError) as error:
                logger.info("whether a queue was converted is not known yet: %s", error)
                await asyncio.sleep(OUTCOME_SECONDS)
            else:
                break
        self._end(identity, hold)

    async def _fence(self, node: str, text: bytes) -> bytes:
        hold = self._held(text)
        # It goes on if the link is lost: the consumers must not be.
        emptying = self._start(self.empty(hold))
        try:
            await asyncio.shield(emptying)
            if not isinstance(hold, QuorumHold):
                return b""
            await self._open_successor(hold)
        except Fault as error:
            raise Refused(str(error)) from None
        return msgspec.msgpack.encode(hold.positions)

    async def _open_successor(self, hold: NodeHold) -> None:
        """Have the home node know this node as a user of the successor."""
        name = successor_name(hold.queue)
        while name not in hold.vhost.queues:
            if hold.released.is_set():
                raise Refused("the queue is no longer held")
            await asyncio.sleep(POLL_SECONDS)
        await _length(hold.vhost.queues[name])

    async def _moved(self, node: str, text: bytes) -> bytes:
        hold = self._held(text)
        first = msgspec.msgpack.decode(text, type=HeldBy).first_tag
        successor = hold.vhost.queues.get(successor_name(hold.queue))
        if not isinstance(hold, QuorumHold) or not isinstance(successor, RemoteQueue):
            raise Refused("the queue is not held, or has no successor")
        positions = hold.positions
        successor.may_redeliver = True
        successor.note_tag(first + len(positions) - 1)
        hold.moved = dict(zip(positions, range(first, first + len(positions)), strict=True))
        return b""

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Begin work that does not end with the request."""
        task = asyncio.get_running_loop().create_task(work)
        self._working.add(task)
        task.add_done_callback(self._worked)
        return task

    def _worked(self, task: asyncio.Task[None]) -> None:
        self._working.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
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
        if queue.kind.name == QUORUM:
            return
        for session, consumer in self._consumers():
            if consumer.queue is queue and session.global_prefetch_count:
                raise Refused(
                    f"consumer {consumer.tag!r} of channel {session.name} shares a prefetch limit "
                    "with others, which quorum queues do not support"
                )

    async def empty(self, hold: NodeHold) -> None:
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
            if isinstance(hold, QuorumHold) and not hold.is_over:
                hold.freeze(self.records_of(queue))
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

    def _consumers(self) -> Iterable[tuple[HeldSession, SessionConsumer]]:
        for session in self._sessions():
            for consumer in session.consumers.values():
                yield session, consumer

    def _sessions(self) -> Iterable[HeldSession]:
        connections = cast("Iterable[HeldConnection]", self._services.open_counts.connections)
        for connection in connections:
            yield from connection.channels.values()

    def records_of(self, queue: QueueClient) -> list[Unacked]:
        """The unsettled deliveries of a queue in sessions of this node.

        Some may refer to the mirrored queue that it leads, or has led.
        """
        kinds, is_led = self._services.queue_kinds, {queue: False}
        found = []
        for session in self._sessions():
            for record in session.unacked.records.values():
                client = record.queue
                if client not in is_led:
                    is_led[client] = kinds.of(client.kind).leader_here(client) is queue
                is_own = is_led[client] and 0 <= record.entry.position < REMOTE_TAGS
                if client is queue or is_own:
                    found.append(record)
        return found


def keep_consumers(hold: NodeHold, consumers: Iterable[SessionConsumer]) -> None:
    """The consumers, which were cancelled at the queue, are subscribed again later."""
    held, active = hold.held, hold.active
    ordered = list(consumers)
    if active is not None:
        # `sort` keeps the order of the others.
        ordered.sort(key=lambda consumer: name_of(consumer.figures(UP)) != active)
        is_here = bool(ordered) and name_of(ordered[0].figures(UP)) == active
        held.subscribes_later = not is_here
    for consumer in ordered:
        consumer.queue_replaced(held)
        held.consumers[consumer] = None


async def _length(queue: QueueClient) -> QueueLength:
    length: Answer[QueueLength] = Answer()
    queue.length(length)
    return await given_in_task(length)
