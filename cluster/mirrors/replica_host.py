"""The interface of a node for the replicas of its mirrored queues (replicas.py)."""

from collections.abc import Callable, Iterator, Mapping
from typing import Protocol

from leveret.broker.queues.classic.classic_queue import ClassicQueue
from leveret.broker.runtime.turns import Flushable
from leveret.broker.vhost.virtual_host import VirtualHost
from leveret.cluster.gm.group import Change, Member
from leveret.cluster.links.services import Peer
from leveret.cluster.mirrors.decisions import Range
from leveret.cluster.mirrors.mirror_record import MirrorRecord
from leveret.cluster.mirrors.mirrored_queue import MirroredQueue
from leveret.cluster.mirrors.planning import Mirroring
from leveret.cluster.mirrors.publishing import MemberNode
from leveret.cluster.mirrors.ring import RingNode
from leveret.cluster.remote_queues.hosted_publishes import HostedPublishes
from leveret.cluster.remote_queues.remote_queue import RemoteQueue
from leveret.storage.contract.backing_queue import BackingQueue
from leveret.storage.messages.addresses import Addresses


class QueueReplica(Protocol):
    """A replica, as its node sees it: see `Replica`."""

    identity: int
    vhost: VirtualHost
    queue: MirroredQueue
    record: MirrorRecord | None
    is_over: bool

    @property
    def member(self) -> Member | None:
        """The member on its node; None if there is none."""

    def flush(self) -> None:
        """The end of a round."""


class ReplicaHost(RingNode, Protocol):
    """A node, as its replicas see it (replicas.py).

    node, incarnation: its own. senders: the names of the linked nodes and its own, by their numbers
    as senders (`sender_number`). wall_offset_ms: the wall clock minus the broker's clock.
    """

    node: str
    incarnation: int
    senders: dict[int, str]
    addresses: Addresses
    wall_offset_ms: int

    @property
    def peers(self) -> dict[str, Peer]:
        """The linked nodes."""

    @property
    def is_held(self) -> bool:
        """Publishers of this node wait for its store."""

    def submit(self, replica: QueueReplica, change: Change) -> None:
        """Have the ring of the record changed; repeat it until it is made or refused."""

    def mirroring_of(self, replica: QueueReplica) -> Mirroring:
        """The mirroring that the matching policies of the queue ask for now."""

    def synchronised(self, replica: QueueReplica, mirror: Member) -> None:
        """Have a mirror marked as synchronised in the record."""

    def when_stable(self, listener: Callable[[], object]) -> None:
        """Call back when all that is applied now is applied on all nodes of the view, on disk."""

    def replica_flush_later(self, replica: Flushable) -> None:
        """Call `flush` of the replica at the end of the round."""

    def keep_early(self, node: str, identity: int, message: bytes) -> None:
        """Keep a ring's message of a node for the next member of this one, if it is linked."""

    @property
    def member_nodes(self) -> Mapping[str, MemberNode]:
        """The linked nodes, to send contents to."""

    def report_later(self, peer: Peer, publishes: HostedPublishes, size: int) -> None:
        """Have a report made to a node at the end of the round."""

    def call_later_ms(self, delay_ms: int, callback: Callable[[], object]) -> object:
        """Call back after a time."""

    def work(self, what: str, steps: Iterator[int]) -> None:
        """Take steps in turns of the event loop."""

    def opened(self, replica: QueueReplica) -> None:
        """The queue is led here from now on: nodes that wait for it may use it."""

    def left(self, replica: QueueReplica) -> None:
        """The queue is no longer led here: nodes repeat their questions to the next leader."""

    def make_leader(self, replica: QueueReplica, backing: BackingQueue) -> ClassicQueue:
        """The queue that leads, on a backing queue."""

    def open_copy(self, replica: QueueReplica) -> BackingQueue:
        """The messages that a restart found under the queue's storage id."""

    def ended(self, replica: QueueReplica) -> None:
        """The queue is deleted, or the node stops."""

    def make_mirror_backing(self, replica: QueueReplica, lacked: list[Range]) -> BackingQueue:
        """A new backing queue for a mirror that lacks these positions."""

    def make_remote(self, queue: MirroredQueue, first_tag: int) -> RemoteQueue:
        """The client of the leader on another node. first_tag: that of its first delivery."""
