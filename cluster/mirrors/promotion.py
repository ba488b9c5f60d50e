"""The ways in which a node comes to lead a mirrored queue, with the messages that it has.

leading     mirroring of the queue on this node begins
returned    the queue has waited for this node, which has a copy of its messages
promoted    a mirror takes over: it tells the other mirrors that it leads and what it lacks, and
            publishes contents on which the former leader has not decided

A mirror is promoted when its mark has passed around the ring (replica_steps.py) and all decisions
that have arrived are applied. Contents that do not arrive for a net_ticktime, although their sender
is linked, are given up (late_confirms.py).

A returned or promoted leader leads by an entry that may still be undone by nodes that then have
another leader. So it confirms nothing before that entry is stable (MQ10).
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from leveret.broker.queues.classic.classic_queue import ClassicQueue
from leveret.broker.vhost.virtual_host import VirtualHost
from leveret.cluster.gm.group import Member
from leveret.cluster.mirrors.kept_turns import KeptTurns
from leveret.cluster.mirrors.leader_backing_queue import LeaderBackingQueue
from leveret.cluster.mirrors.leader_session import LeaderSession
from leveret.cluster.mirrors.mirror import Promoted
from leveret.cluster.mirrors.mirror_record import MirrorRecord
from leveret.cluster.mirrors.mirrored_queue import MirroredQueue
from leveret.cluster.mirrors.publishing import MirroredPublishing
from leveret.cluster.mirrors.replica_host import ReplicaHost
from leveret.cluster.mirrors.synchronisation import when_readable
from leveret.cluster.remote_queues.hosted_publisher import HostedPublisher
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
    backing = LeaderBackingQueue(copy, kept, offset_ms, term=record.group.version)
    return parts.in_doubt(backing, kept)


def promoted(
    parts: LeaderParts, mirror: Promoted, record: MirrorRecord, member: Member | None
) -> LeaderSession:
    """The mirror on this node leads from now on. member: the one of this node."""
    kept = KeptTurns(mirror.backing, parts.flush_later)
    backing = LeaderBackingQueue(
        mirror.backing, kept, parts.host.wall_offset_ms,
        term=record.group.version, turn=mirror.turn + 1,
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
