"""The two directions of a conversion: what differs between them.

The home node does the conversion. It has the messages of the classic queue, and leads the quorum
queue if this is the one that is converted.
"""

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Protocol

from msgspec.structs import replace

from leveret.broker.amqp.field_table import Table, encode_table
from leveret.broker.declarations.values import PutQueue
from leveret.broker.queues.classic.classic_queue import ClassicQueue
from leveret.broker.queues.contract.queue_client import QueueClient
from leveret.broker.queues.contract.queue_kind import CLASSIC, QUORUM, TYPE_ARGUMENT
from leveret.broker.runtime.pending import Answer
from leveret.broker.runtime.pending_in_task import in_task
from leveret.broker.vhost.virtual_host import VirtualHost
from leveret.cluster.quorum.client.holders import POSITION_MASK
from leveret.cluster.quorum.client.quorum_queue_client import QuorumQueueClient
from leveret.cluster.quorum.conversion.classic_messages import ClassicMessages
from leveret.cluster.quorum.conversion.copied_messages import CopiedMessages, Left
from leveret.cluster.quorum.conversion.home_hold import ClassicHold
from leveret.cluster.quorum.conversion.node_holds import (
    MOVED,
    NodeHold,
    QuorumHold,
    held_by,
    held_positions,
    successor_name,
)
from leveret.cluster.quorum.conversion.parts import HOLD_SECONDS_MAX, Parts, require_few
from leveret.cluster.quorum.conversion.quorum_messages import QuorumMessages
from leveret.cluster.quorum.conversion.successors import (
    ClassicSuccessor,
    QuorumSuccessor,
    Successor,
    taken_from,
)
from leveret.cluster.rpc.refused import Refused
from leveret.storage.messages.message import Entry

SINGLE_ACTIVE_ARGUMENT = "x-single-active-consumer"


class Direction(Protocol):
    """One queue that is converted. kind: the type that it gets."""

    kind: str

    @property
    def queue(self) -> QueueClient:
        """The queue."""

    @property
    def messages(self) -> CopiedMessages:
        """Its messages."""

    @property
    def copies_early(self) -> bool:
        """Whether messages may be copied before the queue is held."""

    def declaration(self, arguments: Table) -> PutQueue:
        """The declaration of the successor. arguments: those that it is to have in the end."""

    def successor(self, queue: QueueClient) -> Successor:
        """The successor, which is declared."""

    def hold(self) -> NodeHold:
        """A new hold of the queue on this node."""

    async def prepare(self) -> None:
        """Everything that can be copied before is copied: prepare the queue to be held.

        Raises Refused.
        """

    async def left(self, copied_to: int, taken_to: int, fenced: Mapping[str, bytes]) -> Left:
        """What is left to be copied, when all nodes hold the queue. Raises Refused.

        fenced: the answers of the other nodes to the fence.
        """

    async def hand_over(self, held: Sequence[int], moved: Sequence[Entry]) -> None:
        """What clients hold becomes other deliveries when the name passes. Raises Refused.

        held: the positions, in order. moved: the deliveries of the successor.
        """

    def release(self) -> None:
        """The queue stays: return what `left` has taken."""

    def end(self) -> None:
        """The conversion is over, whatever its outcome."""


class ToQuorum:
    """A classic queue becomes a quorum queue. One with mirrors has them until it is held."""

    kind = QUORUM
    copies_early = True

    def __init__(
        self, parts: Parts, vhost: VirtualHost, client: QueueClient, queue: ClassicQueue
    ) -> None:
        """client: the queue, or the mirrored one that it leads."""
        self.queue = client
        self.messages = ClassicMessages(queue, parts.holds, parts.remote_queues)
        self.messages.client = client
        self._classic = queue
        self._parts = parts
        self._vhost = vhost
        self._hold: ClassicHold

    def declaration(self, arguments: Table) -> PutQueue:
        """The successor is placed as a queue of the name, and has no limits."""
        vhost, queue = self._vhost, self.queue
        specification = vhost.kinds.specify(vhost.name, queue.name, arguments, durable=True)
        return replace(
            vhost.declaration_of(specification), name=successor_name(queue),
            arguments=encode_table(_first_arguments(arguments, QUORUM)),
        )  # fmt: skip

    def successor(self, queue: QueueClient) -> Successor:
        """The successor, which is declared."""
        assert isinstance(queue, QuorumQueueClient), "quorum queues are of this kind"
        return QuorumSuccessor(queue)

    def hold(self) -> NodeHold:
        """A new hold of the queue on this node."""
        self._hold = ClassicHold(self._vhost, self._classic, self._parts.remote_queues)
        return self._hold

    async def prepare(self) -> None:
        """Have a mirrored queue live here alone."""
        classic, name = self._classic, self.queue.name
        if self.queue is not classic:
            ended: Answer[None] = Answer()
            self._parts.mirrors.end_mirroring(self._vhost.name, self.queue, ended)
            await in_task(ended)
            if self._vhost.queues.get(name) is not classic:
                raise Refused("another node leads it from now on")
            self.queue = self.messages.client = classic

    async def left(self, copied_to: int, taken_to: int, fenced: Mapping[str, bytes]) -> Left:
        """What is left to be copied."""
        hold, messages = self._hold, self.messages
        hold.freeze(self._parts.holds, messages)
        return await messages.left(hold.held_entries, copied_to, taken_to)

    async def hand_over(self, held: Sequence[int], moved: Sequence[Entry]) -> None:
        """Other nodes settle at this one, as before."""
        self._hold.moved = list(moved)

    def release(self) -> None:
        """The hold ends."""

    def end(self) -> None:
        """A queue that stays gets its mirrors again."""
        self._parts.mirrors.follow_policies(self._vhost.name, self.queue.name)


class ToClassic:
    """A quorum queue, which this node leads, becomes a classic queue of this node."""

    kind = CLASSIC

    def __init__(self, parts: Parts, vhost: VirtualHost, queue: QuorumQueueClient) -> None:
        """Raises Refused if this node does not lead the queue."""
        self.queue = queue
        self.messages = QuorumMessages(
            queue, parts.find_member, parts.remote_queues.addresses, parts.services.clock
        )
        self._parts = parts
        self._vhost = vhost
        self._hold: QuorumHold
        self._successor: QueueClient
        self._held_by: dict[str, list[int]] = {}
        self._taken: list[Entry] = []

    @property
    def copies_early(self) -> bool:
        """The copy does not follow what expires, or is delivered before earlier messages."""
        return not (self.messages.has_expiring or self.messages.has_priorities)

    def declaration(self, arguments: Table) -> PutQueue:
        """The successor lives here, without mirrors, limits and policies."""
        vhost = self._vhost
        wanted = _first_arguments(arguments, CLASSIC)
        name = successor_name(self.queue)
        specification = vhost.kinds.specify(vhost.name, name, wanted, durable=True)
        return replace(vhost.declaration_of(specification), node=vhost.node, record=b"")

    def successor(self, queue: QueueClient) -> Successor:
        """The successor, which is declared."""
        assert isinstance(queue, ClassicQueue), "it was declared for this node"
        self._successor = queue
        return ClassicSuccessor(queue)

    def hold(self) -> NodeHold:
        """A new hold of the queue on this node."""
        self._hold = QuorumHold(self._vhost, self.queue)
        return self._hold

    async def prepare(self) -> None:
        """It is ready."""

    async def left(self, copied_to: int, taken_to: int, fenced: Mapping[str, bytes]) -> Left:
        """What is left to be copied: if nothing is copied, it is taken first."""
        messages = self.messages
        await self._parts.holds.empty(self._hold)
        self._held_by = {node: held_positions(answer) for node, answer in fenced.items()}
        held = sorted(chain(self._hold.positions, *self._held_by.values()))
        messages.check(held)
        if copied_to:
            return await messages.left(held, copied_to, taken_to)
        ready_count = messages.ready_count
        require_few(ready_count, messages.ready_bytes)
        if ready_count:
            self._taken = await taken_from(self.queue, ready_count)
        left = await messages.left(held, copied_to, taken_to)
        return left._replace(ready_count=ready_count)

    async def hand_over(self, held: Sequence[int], moved: Sequence[Entry]) -> None:
        """Tell the nodes as which deliveries they hold what their clients hold."""
        parts, deliveries = self._parts, dict(zip(held, moved, strict=True))
        self.messages.check([*held, *[entry.position & POSITION_MASK for entry in self._taken]])
        self._hold.moved = {
            position: deliveries[position].position for position in self._hold.positions
        }
        for node, positions in self._held_by.items():
            if positions:
                entries = [deliveries[position] for position in positions]
                first = parts.remote_queues.hold(node, self._successor, entries)
                if first is None:
                    raise Refused(f"node {node} does not use its successor")
                text = held_by(self._vhost.name, self.queue, first)
                await parts.rpc.ask(node, MOVED, text, HOLD_SECONDS_MAX)

    def release(self) -> None:
        """Return what was taken, as if it had not been delivered."""
        taken, self._taken = self._taken, []
        for entry in taken:
            self.queue.give_back(entry.position, 1)

    def end(self) -> None:
        """Nothing was prepared."""


def _first_arguments(arguments: Table, kind: str) -> Table:
    """Those of the final arguments of a successor that it has from the beginning."""
    first: Table = {TYPE_ARGUMENT: ("S", kind)}
    if SINGLE_ACTIVE_ARGUMENT in arguments:
        first[SINGLE_ACTIVE_ARGUMENT] = arguments[SINGLE_ACTIVE_ARGUMENT]
    return first


def direction_of(parts: Parts, vhost: VirtualHost, queue: QueueClient) -> Direction | None:
    """The direction in which a queue can be converted here; None if it cannot. Raises Refused."""
    leader = vhost.kinds.of(queue.kind).leader_here(queue)
    if isinstance(leader, ClassicQueue):
        return ToQuorum(parts, vhost, queue, leader)
    return ToClassic(parts, vhost, queue) if isinstance(queue, QuorumQueueClient) else None
