"""The members of a mirrored queue as operators see them.

Every node knows the members from the queue's record. The leader's node knows the progress of the
mirrors, and each member's node knows the broadcasts that are in flight in the ring.
"""

from typing import Any

from leveret.broker.queues.contract.placement import QueueMembers
from leveret.cluster.gm.group import Member
from leveret.cluster.mirrors.mirror_record import MirrorRecord, RecordedReplica
from leveret.cluster.mirrors.replica import Replica
from leveret.cluster.mirrors.synchronisation import SyncProgress


def members_of(record: MirrorRecord, replica: Replica | None) -> QueueMembers:
    """The members of a queue. replica: that of this node; None if it has none."""
    nodes = tuple(one.id.node for one in record.members)
    running = [one.messages for one in _progress(record, replica).values() if one.is_running]
    return QueueMembers(
        leader="" if record.leader is None else record.leader.node,
        nodes=nodes,
        online=nodes,
        synchronised=tuple(one.id.node for one in record.members if one.is_synchronised),
        stopped=tuple(copy.node for copy in record.has_copy if copy.node != record.home),
        syncing=min(running) if running else None,
    )


def mirroring(record: MirrorRecord, replica: Replica | None, own: str) -> dict[str, Any]:
    """The field `mirroring` of the API: the ring, with what this node knows. own: its name."""
    progress = _progress(record, replica)
    members = {one.id: one for one in record.members}
    return {
        "version": record.group.version,
        "leader": None if record.leader is None else record.leader.node,
        "awaited": record.awaited or None,
        "members": [
            {
                **_member(members[place.member], record),
                "joined": place.has_joined,
                **_in_ring(replica if place.member.node == own else None),
                "sync": _sync(progress.get(place.member)),
            }
            for place in record.group.living
            if place.member in members
        ],
        "copies": [
            {"node": copy.node, "synchronised": copy.was_synchronised} for copy in record.has_copy
        ],
    }


def _progress(record: MirrorRecord, replica: Replica | None) -> dict[Member, SyncProgress]:
    """The progress of the mirrors that are not synchronised, if this node leads the queue."""
    if replica is None or replica.leading is None:
        return {}
    lacking = {one.id for one in record.members if not one.is_synchronised}
    found = replica.leading.synchronising.progress
    return {mirror: progress for mirror, progress in found.items() if mirror in lacking}


def _member(member: RecordedReplica, record: MirrorRecord) -> dict[str, Any]:
    return {
        "node": member.id.node,
        "leads": member.id == record.leader,
        "synchronised": member.is_synchronised,
    }


def _in_ring(replica: Replica | None) -> dict[str, Any]:
    """The knowledge of this node's member: its neighbours, and broadcasts in flight."""
    ring = None if replica is None else replica.own_ring
    if ring is None:
        return {"left": None, "right": None, "pending": None}
    left, right = ring.neighbours
    return {
        "left": None if left is None else left.node,
        "right": None if right is None else right.node,
        "pending": ring.pending_count,
    }


def _sync(progress: SyncProgress | None) -> dict[str, Any] | None:
    if progress is None:
        return None
    return {
        "messages": progress.messages,
        "expected": progress.expected,
        "running": progress.is_running,
    }
