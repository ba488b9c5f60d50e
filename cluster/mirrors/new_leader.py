"""How a node comes to lead a mirrored queue: with the messages that it has, in three ways.

begun       the queue that is here begins to be mirrored
returned    the queue has waited for this node, which has a copy of its messages
promoted    a mirror takes over: it tells the other mirrors so, and what it does not have, and
            publishes what the leader before has not decided about

Who returns or is promoted leads by an entry that may still be undone, by nodes that have another
leader then. So it confirms nothing before that entry is stable (MQ10).
"""

import logging
from collections.abc import Callable
from typing import Protocol

from leveret.broker.names import QUEUE, resource
from leveret.broker.queues.classic_queue import ClassicQueue
from leveret.cluster.gm.group import Member
from leveret.cluster.mirrors.kept import Kept
from leveret.cluster.mirrors.leading import Leading
from leveret.cluster.mirrors.leading_queue import LeadingQueue
from leveret.cluster.mirrors.mirror import Promoted
from leveret.cluster.mirrors.mirror_record import MirrorRecord
from leveret.cluster.mirrors.publishing import MirroredPublishing
from leveret.cluster.mirrors.reading_again import when_readable
from leveret.cluster.mirrors.replica_site import QueueReplica, Site
from leveret.cluster.queues.hosted_publisher import HostedPublisher
from leveret.storage.backing_queue import BackingQueue, Unreadable
from leveret.storage.intervals import Intervals

logger = logging.getLogger("leveret.cluster")


class NewLeader(QueueReplica, Protocol):
    """The replica of this node (replica.py)."""

    def flush_later(self) -> None:
        """Call `flush` at the end of the round."""


def begun(
    replica: NewLeader, site: Site, queue: ClassicQueue, backing: LeadingQueue, kept: Kept
) -> Leading:
    """The queue that is here leads."""
    return _leading(replica, site, queue, backing, kept, {})


def returned(replica: NewLeader, site: Site, copy: BackingQueue, record: MirrorRecord) -> Leading:
    """The copy that is here leads, alone."""
    kept = Kept(copy, replica.flush_later)
    backing = LeadingQueue(copy, kept, site.wall_offset_ms, term=record.group.version)
    queue = site.make_leader(replica, backing)
    leading = _leading(replica, site, queue, backing, kept, {})
    _wait_until_stable(leading, site)
    return leading


def promoted(replica: NewLeader, site: Site, it: Promoted, record: MirrorRecord) -> Leading:
    """The mirror that was here leads."""
    if it.void:
        logger.warning(
            "mirrored %s: the new leader lacks messages that the leader before it had, %d at most",
            resource(QUEUE, replica.queue.name, replica.vhost.name),
            sum(end - start for start, end in it.void),
        )
    kept = Kept(it.backing, replica.flush_later)
    backing = LeadingQueue(
        it.backing, kept, site.wall_offset_ms, term=record.group.version, turn=it.turn + 1
    )
    backing.decided.update(it.decided)
    queue = site.make_leader(replica, backing)
    leading = _leading(replica, site, queue, backing, kept, it.refused)
    _wait_until_stable(leading, site)
    mirrors = [one for one in record.members if one.id != replica.member]
    for one in mirrors:
        leading.mirror_follows(one.id)
    if mirrors:
        backing.leads(it.void)
    for one in mirrors:
        place = record.group.place_of(one.id)
        if not one.is_synchronised and place is not None:
            # It lacks messages, or has not heard yet where it begins.
            leading.mirror_joined(one.id, place.born)
    leading.repeat_refusals()
    queue.may_redeliver = True
    leading.publish_undecided(it.undecided)
    return leading


def settle_owed(leading: Leading, publishing: MirroredPublishing, sender: int) -> None:
    """Tell the publishers of this node that have waited since before it led. sender: its number."""
    publisher = HostedPublisher(lambda: publishing.confirmed(*publisher.take()))
    for number, count in publishing.owed_runs:
        publisher.begin(number, count)
        leading.settle(sender, number, count, publisher)
        publisher.end(number)


def _wait_until_stable(leading: Leading, site: Site) -> None:
    """Confirm nothing before what is applied on this node is stable."""
    leading.in_doubt()
    site.when_stable(leading.is_stable)


def _leading(
    replica: NewLeader,
    site: Site,
    queue: ClassicQueue,
    backing: LeadingQueue,
    kept: Kept,
    refused: dict[int, Intervals],
) -> Leading:
    def synchronised(mirror: Member) -> None:
        site.synchronised(replica, mirror)

    def read_again(error: Unreadable, again: Callable[[], object]) -> None:
        def read() -> None:
            again()
            replica.flush()

        when_readable(error, site.call_later_ms, read)

    return Leading(
        queue, backing, kept, lambda: site.mirroring_of(replica), synchronised,
        replica.flush_later, read_again, refused,
    )  # fmt: skip
