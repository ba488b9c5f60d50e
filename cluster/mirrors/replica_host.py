"""The services of a node that replicas of mirrored queues use: links, queues and timers.

Frames that come before the record that they are for is applied here are kept until it is, up to a
limit for each link; above that the link is closed, and the frames are sent again over the next one.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence

from leveret.broker.queues.classic.classic_queue import ClassicQueue
from leveret.broker.queues.classic.priority import PriorityQueue
from leveret.broker.queues.contract.priority_levels import PriorityLevels, priority_levels
from leveret.broker.queues.contract.queue_client import QueueClient
from leveret.broker.queues.contract.specification import specification_of
from leveret.broker.runtime.long_work import LongWork
from leveret.broker.runtime.turns import Flushable
from leveret.broker.services.services import Services
from leveret.broker.vhost.virtual_host import VirtualHost
from leveret.cluster.gm.group import Member
from leveret.cluster.links.services import MULTICAST_SERVICE, Peer
from leveret.cluster.mirrors.decisions import Range
from leveret.cluster.mirrors.leader_session import sender_number
from leveret.cluster.mirrors.mirrored_queue import MirroredQueue
from leveret.cluster.mirrors.planning import NOT_MIRRORED, Mirroring
from leveret.cluster.mirrors.publishing import MemberNode
from leveret.cluster.mirrors.ring import Ring
from leveret.cluster.remote_queues.hosted_publishes import HostedPublishes
from leveret.cluster.remote_queues.queue_frames import OWN_TIMES_FEATURE, QueueFrameError
from leveret.cluster.remote_queues.remote_queues import RemoteQueues
from leveret.storage.contract.backing_queue import BackingQueue
from leveret.storage.queue.chained_queue import ChainedQueue

EARLY_BYTES_MAX = 64 * 1024 * 1024
"""The limit for the frames of one link for members that this node does not have yet."""


class EarlyFrames:
    """Frames for members that this node does not have yet, by the identity of the ring."""

    def __init__(self) -> None:
        self._kept: dict[int, list[tuple[Peer, bytes]]] = {}
        self._kept_bytes: dict[Peer, int] = {}

    def waits(self, identity: int, peer: Peer) -> bool:
        """Whether frames of a link wait for a ring's record; later frames wait, too."""
        return any(one is peer for one, _ in self._kept.get(identity, ()))

    def add(self, identity: int, peer: Peer, payload: bytes) -> None:
        """Keep a frame. Raises QueueFrameError if a link brings too many."""
        size = self._kept_bytes.get(peer, 0) + len(payload)
        if size > EARLY_BYTES_MAX:
            raise QueueFrameError(f"{size} bytes for mirrored queues that are not declared here")
        self._kept_bytes[peer] = size
        self._kept.setdefault(identity, []).append((peer, payload))

    @property
    def identities(self) -> list[int]:
        """The identities of the rings for which frames are kept."""
        return [*self._kept]

    def take(self, identity: int) -> list[tuple[Peer, bytes]]:
        """Take out the frames for a queue, in the order of their arrival."""
        taken = self._kept.pop(identity, [])
        for peer, payload in taken:
            self._kept_bytes[peer] -= len(payload)
        return taken

    def peer_down(self, peer: Peer) -> None:
        """Drop the frames of a link: they are sent again over the next one."""
        self._kept_bytes.pop(peer, None)
        for identity in [*self._kept]:
            left = [one for one in self._kept[identity] if one[0] is not peer]
            if left:
                self._kept[identity] = left
            else:
                del self._kept[identity]


class ReplicaHost:
    """The node. peers: the linked nodes, by their names; member_nodes: to send contents to them.

    senders: the names of the linked nodes and of this one, by their numbers as senders. early: the
    frames for members that this node does not have yet. mirroring_of: the mirroring that the
    matching policies of a queue ask for now. wall_offset_ms: the wall clock minus the broker's
    clock. when_stable: calls back when everything applied so far is applied on all nodes of the
    view, on disk.
    """

    def __init__(
        self,
        node: str,
        incarnation: int,
        services: Services,
        remote_queues: RemoteQueues,
        when_stable: Callable[[Callable[[], object]], object],
        mirroring_of: Callable[[str, QueueClient], Mirroring] = lambda vhost, queue: NOT_MIRRORED,
        wall_offset_ms: int = 0,
        is_apart: Callable[[Peer], bool] = lambda peer: False,
    ) -> None:
        """is_apart: whether a linked node is on another side of a partition."""
        self.node = node
        self.incarnation = incarnation
        self.remote_queues = remote_queues
        self.when_stable = when_stable
        self.mirroring_of = mirroring_of
        self.wall_offset_ms = wall_offset_ms
        self._is_apart = is_apart
        self.addresses = remote_queues.addresses
        self.vhosts = services.vhosts
        self.call_later_ms = services.clock.call_later_ms
        self._turns = services.turns
        self._features = services.shared_features
        self.sender = sender_number(node, incarnation)
        self.senders = {self.sender: node}
        self.peers: dict[str, Peer] = {}
        self.member_nodes: dict[str, MemberNode] = {}
        self.early = EarlyFrames()

    # Links

    def peer_up(self, peer: Peer) -> None:
        """A link to a node is up."""
        self.peers[peer.name] = peer
        self.senders[sender_number(peer.name, peer.incarnation)] = peer.name
        self.member_nodes[peer.name] = MemberNode(peer)

    def peer_down(self, peer: Peer) -> None:
        """The link to a node is down."""
        del self.peers[peer.name]
        del self.senders[sender_number(peer.name, peer.incarnation)]
        del self.member_nodes[peer.name]
        self.early.peer_down(peer)

    @property
    def apart(self) -> frozenset[str]:
        """The linked nodes that are on other sides of a partition."""
        return frozenset([peer.name for peer in self.peers.values() if self._is_apart(peer)])

    def send(self, node: str, pieces: Sequence[bytes]) -> None:
        """Send a frame to another node, if it is linked."""
        peer = self.peers.get(node)
        if peer is not None:
            peer.send(MULTICAST_SERVICE, *pieces)

    def keep_early(self, node: str, identity: int, message: bytes) -> None:
        """Keep a ring's message of a node for the next member of this one, if it is linked."""
        peer = self.peers.get(node)
        if peer is not None:
            self.early.add(identity, peer, message)

    def takes_times(self) -> bool:
        """Whether all nodes have OWN_TIMES_FEATURE."""
        return self._features.all_have(OWN_TIMES_FEATURE)

    def report_later(self, peer: Peer, publishes: HostedPublishes, size: int) -> None:
        """Send a report to a node at the end of the round, if its link is still up."""
        if self.peers.get(peer.name) is peer:
            self.remote_queues.host(peer).report_later(publishes, size)

    @property
    def is_held(self) -> bool:
        """Whether publishers of this node wait for its store."""
        return self.remote_queues.is_held

    # Time

    def flush_later(self, flushable: Flushable) -> None:
        """Call `flush` at the end of the round."""
        self._turns.flush_later(flushable)

    def after_ms(self, delay_ms: int, ring: Ring, member: Member) -> None:
        """Call `pause_over` after a time."""
        self.call_later_ms(delay_ms, lambda: ring.pause_over(member))

    def work(self, what: str, steps: Iterator[int]) -> None:
        """Take steps in turns of the event loop."""
        LongWork(self._turns, what, steps).start()

    # Queues

    def opened(self, queue: MirroredQueue) -> None:
        """The queue is led here from now on: waiting nodes may use it."""
        self.remote_queues.added(queue)

    def left(self, queue: MirroredQueue) -> None:
        """The queue is no longer led here: nodes repeat their requests to the next leader."""
        self.remote_queues.left(queue)

    def make_leader(
        self, vhost: VirtualHost, client: MirroredQueue, backing: BackingQueue
    ) -> ClassicQueue:
        """The queue that leads, on a backing queue.

        It gets the options of policies when it leads, except for deduplication, which it needs for
        contents on which the former leader has not decided.
        """
        specification, options = specification_of(vhost.name, client), client.options
        declared = specification.options._replace(
            deduplicates=options.deduplicates, cache_size=options.cache_size,
            cache_ttl_ms=options.cache_ttl_ms,
        )  # fmt: skip
        return ClassicQueue(vhost, specification._replace(options=declared), backing)

    def make_mirror_backing(
        self, vhost: VirtualHost, queue: MirroredQueue, lacked: list[Range]
    ) -> BackingQueue:
        """A new backing queue for a mirror that lacks these positions."""
        return make_mirror_queue(
            lacked,
            _levels_of(queue),
            lambda level, is_head: vhost.make_part(queue, level, is_head),
        )

    def open_copy(self, vhost: VirtualHost, queue: MirroredQueue) -> BackingQueue:
        """The messages that a restart found under the queue's storage id."""
        return vhost.make_backing(queue, _levels_of(queue))


def _levels_of(queue: MirroredQueue) -> PriorityLevels | None:
    priority_max = queue.declared.max_priority
    return priority_levels(priority_max) if priority_max else None


MakePart = Callable[[int, bool], BackingQueue]
"""Makes the queue of a level: of its head, if the flag is set, else of its tail."""


def make_mirror_queue(
    lacked: Iterable[tuple[int, int]], levels: PriorityLevels | None, make_part: MakePart
) -> BackingQueue:
    """The backing queue of a mirror that lacks these positions.

    levels: those of a queue with priorities. A level that lacks nothing has no head.
    """
    boundaries = dict(lacked)

    def make_level(level: int, first: int) -> BackingQueue:
        boundary = boundaries.get(first, first) - first
        tail = make_part(level, False)
        return ChainedQueue(make_part(level, True), tail, boundary) if boundary else tail

    if levels is None:
        return make_level(0, 0)
    queue = PriorityQueue(levels, lambda level: make_level(level, queue.first_position(level)))
    for end in boundaries.values():
        # The level is made: the positions before its end are not given again.
        queue.go_on_at(end)
    return queue
