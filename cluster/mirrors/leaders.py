"""The leaders of a mirrored queue: how this node comes to lead it, how it stops leading, and how it
uses the leader on another node.

A node comes to lead with the messages that it has:

leading     mirroring of the queue on this node begins
returned    the queue has waited for this node, which has a copy of its messages
promoted    a mirror takes over: it tells the other mirrors that it leads and what it lacks, and
            publishes contents on which the former leader has not decided

A mirror is promoted when its mark has passed around the ring (replica_steps.py) and all decisions
that have arrived are applied. Contents that do not arrive for a net_ticktime, although their sender
is linked, are given up (late_confirms.py).

A returned or promoted leader leads by an entry that may still be undone by nodes that then have
another leader. So it confirms nothing before that entry is stable (MQ10).

A leader stops while its node lives (demotion), because it hands over or was declared dead. The
record names another leader, in the next version of the ring. The leading member that applies it
broadcasts its last decisions, and only then passes the version to its ring. The next leader's mark
has that version, so it reaches this member after that, and all members after the last decisions
(MQ8). All entries that await settlement become ready again, as on the other mirrors when they learn
of the next leader. If the record still names this member, it mirrors the queue that it has led
(`MirrorMember.has_led`).

The next leader confirms messages that are published and not confirmed, as after a death. Other
nodes ask it, and this one reports to them no more. For this node's own publishers the queue has
held the runs; from then on the next leader owes them.

The leader on another node is a remote queue, a new one for each leader. Delivery tags keep growing
over all leaders.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple, cast

from leveret.broker.queues.classic.classic_queue import ClassicQueue
from leveret.broker.queues.contract.publication import Publisher
from leveret.broker.queues.contract.specification import specification_of
from leveret.broker.vhost.virtual_host import VirtualHost
from leveret.cluster.gm.group import Member
from leveret.cluster.mirrors.kept_turns import KeptTurns, WaitingRun
from leveret.cluster.mirrors.leader_backing_queue import LeaderBackingQueue
from leveret.cluster.mirrors.leader_session import LeaderSession, Refusals
from leveret.cluster.mirrors.mirror import Promoted
from leveret.cluster.mirrors.mirror_record import MirrorRecord
from leveret.cluster.mirrors.mirrored_queue import MirroredQueue
from leveret.cluster.mirrors.publishing import MirroredPublishing
from leveret.cluster.mirrors.replica_frames import SendingNode
from leveret.cluster.mirrors.replica_host import ReplicaHost
from leveret.cluster.mirrors.synchronisation import when_readable
from leveret.cluster.remote_queues.hosted_consumer import HostedConsumer
from leveret.cluster.remote_queues.hosted_publisher import HostedPublisher
from leveret.cluster.remote_queues.queue_frames import REMOTE_TAGS
from leveret.cluster.remote_queues.remote_queue import RemoteQueue
from leveret.cluster.remote_queues.remote_queues import RemoteQueues
from leveret.storage.contract.backing_queue import BackingQueue, Unreadable
from leveret.storage.messages.intervals import Intervals


class LeaderParts(NamedTuple):
    """The arguments common to all leaders of a queue on this node. queue: its client.

    synchronised: called with a mirror that has all messages. flush: broadcasts, and sends batches;
    flush_later has it called at the end of the round.
    """

    host: ReplicaHost
    vhost: VirtualHost
    queue: MirroredQueue
    synchronised: Callable[[Member], object]
    flush: Callable[[], object]
    flush_later: Callable[[], object]

    def leading(
        self,
        queue: ClassicQueue,
        backing: LeaderBackingQueue,
        kept: KeptTurns,
        refused: dict[int, Intervals] | None = None,
    ) -> LeaderSession:
        """The leader. See `LeaderSession`."""
        mirroring = partial(self.host.mirroring_of, self.vhost.name, self.queue)
        return LeaderSession(
            queue, backing, kept, mirroring, self.synchronised, self.flush_later,
            self._read_again, refused,
        )  # fmt: skip

    def _read_again(self, error: Unreadable, again: Callable[[], object]) -> None:
        def read() -> None:
            again()
            self.flush()

        when_readable(error, self.host.call_later_ms, read)

    def in_doubt(
        self,
        backing: LeaderBackingQueue,
        kept: KeptTurns,
        refused: dict[int, Intervals] | None = None,
    ) -> LeaderSession:
        """A leader that confirms nothing until everything applied here so far is stable (MQ10)."""
        queue = self.host.make_leader(self.vhost, self.queue, backing)
        leading = self.leading(queue, backing, kept, refused)
        leading.in_doubt()
        self.host.when_stable(leading.is_stable)
        return leading


def returned(parts: LeaderParts, copy: BackingQueue, record: MirrorRecord) -> LeaderSession:
    """The copy on this node leads, alone."""
    kept = KeptTurns(copy, parts.flush_later)
    offset_ms = parts.host.wall_offset_ms
    backing = LeaderBackingQueue(
        copy, kept, offset_ms, term=record.group.version, takes_times=parts.host.takes_times
    )
    return parts.in_doubt(backing, kept)


def promoted(
    parts: LeaderParts, mirror: Promoted, record: MirrorRecord, member: Member | None
) -> LeaderSession:
    """The mirror on this node leads from now on. member: the one of this node."""
    kept = KeptTurns(mirror.backing, parts.flush_later)
    backing = LeaderBackingQueue(
        mirror.backing, kept, parts.host.wall_offset_ms, term=record.group.version,
        turn=mirror.turn + 1, takes_times=parts.host.takes_times,
    )  # fmt: skip
    backing.decided.update(mirror.decided)
    leading = parts.in_doubt(backing, kept, mirror.refused)
    mirrors = [one for one in record.members if one.id != member]
    for one in mirrors:
        leading.mirror_follows(one.id)
    if mirrors:
        backing.leads(mirror.void)
    for one in mirrors:
        place = record.group.place_of(one.id)
        if not one.is_synchronised and place is not None:
            # It lacks messages, or has not yet applied the decision with which it begins.
            leading.mirror_joined(one.id, place.place_id)
    leading.repeat_refusals()
    leading.queue.may_redeliver = True
    leading.publish_undecided(mirror.undecided)
    return leading


def settle_owed(leading: LeaderSession, publishing: MirroredPublishing) -> None:
    """Answer publishers of this node that were waiting before it led."""
    publisher = HostedPublisher(lambda: publishing.confirmed(*publisher.take()))
    for number, count in publishing.owed_runs:
        publisher.begin(number, count)
        leading.settle(publishing.sender, number, count, publisher)
        publisher.end(number)


def end_leading(
    leading: LeaderSession, queue: MirroredQueue, publishing: MirroredPublishing
) -> None:
    """Stop leading: consumers and publishers of the leader wait for the next one."""
    # Consumers of other nodes are subscribed at the next leader by their own nodes.
    consumers = [one for one in leading.end() if not isinstance(one, HostedConsumer)]
    for run in leading.kept.release():
        if _is_own(run):
            publishing.owe(run.number, OfEndedQueue(run), run.first, run.count)
    queue.leader_lost(consumers)


def _is_own(run: WaitingRun) -> bool:
    """Whether a publisher of this node waits for a run, and no other leader was asked about it."""
    return not isinstance(run.waiter, SendingNode | HostedPublisher | Refusals)


class OfEndedQueue:
    """A `Publisher` for a run that is held by the queue that led here."""

    __slots__ = ("_holder", "_publisher")

    def __init__(self, run: WaitingRun) -> None:
        self._publisher = cast("Publisher", run.waiter)
        self._holder = run.holder

    def hold(self, first: int, count: int, holder: object) -> None:
        """Do nothing: the ended queue still holds the run."""

    def confirm(self, first: int, holder: object) -> None:
        """All members have kept the run."""
        self._publisher.confirm(first, self._holder)

    def refuse(self, number: int) -> None:
        """The next leader does not have a message."""
        self._publisher.refuse(number)

    def holder_died(self, holder: object, is_settled: bool) -> None:
        """The run will not be confirmed."""
        self._publisher.holder_died(self._holder, is_settled)


class RemoteLeader:
    """The leader on another node, or none."""

    __slots__ = ("_next_tag", "_queue", "_remote", "_remote_queues")

    def __init__(self, queue: MirroredQueue, remote_queues: RemoteQueues) -> None:
        """queue: the client on this node."""
        self._queue = queue
        self._remote_queues = remote_queues
        self._remote: RemoteQueue | None = None
        self._next_tag = REMOTE_TAGS

    def begin_with(self, remote: RemoteQueue) -> None:
        """Mirroring of a queue on another node begins: that node leads."""
        queue, self._remote = self._queue, remote
        remote.begin_mirroring(queue, queue.leader_lost, queue.leads_again)
        queue.led_by(remote, is_here=False)

    def turn_to(self) -> RemoteQueue:
        """Another node leads, and is linked."""
        queue = self._queue
        remote = self._remote = RemoteQueue(
            self._remote_queues.home_node(queue.placement.node),
            specification_of(queue.vhost_name, queue),
            self._next_tag, queue.leader_lost, queue.leads_again,
        )  # fmt: skip
        queue.led_by(remote, is_here=False)
        return remote

    def leave(self) -> None:
        """Leave the leader, which no longer leads or cannot be reached."""
        remote, self._remote = self._remote, None
        if remote is None:
            return
        self._next_tag = remote.next_tag
        # Otherwise its link is down, and everything of it has ended.
        if self._queue.leader is remote:
            remote.leave()

    def go_on_alone(self) -> RemoteQueue:
        """The queue is no longer mirrored: returns its client from now on."""
        remote = self._remote
        if remote is None:
            remote = self.turn_to()
        remote.end_mirroring()
        return remote
