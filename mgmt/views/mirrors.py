"""A queue's mirrors as JSON: RabbitMQ's fields, and `mirroring` (docs/reference/http-api.md).

Every node knows the members from the queue's record. The leader's node knows how far the mirrors
are, and each member's node knows the broadcasts that are on their way round the ring.
"""

from collections.abc import Mapping
from typing import Any

from leveret.broker.queues.contract.queue_client import QueueClient
from leveret.broker.vhost.virtual_host import VirtualHost
from leveret.cluster.gm.group import Member
from leveret.cluster.mirrors.mirror_record import MirrorMember, MirrorRecord
from leveret.cluster.mirrors.record_changes import decode_record
from leveret.cluster.mirrors.replica import Replica
from leveret.cluster.mirrors.synchronisation import Progress

SYNCING = "syncing"
"""The state of a queue whose mirrors are being synchronised."""

Replicas = Mapping[int, Replica]
"""The mirrored queues of this node, by their rings' identities."""


def record_of(vhost: VirtualHost, queue: QueueClient) -> MirrorRecord | None:
    """The leader and the mirrors of a queue; None if it is not mirrored."""
    return decode_record(queue.placement.record)


def mirror_fields(record: MirrorRecord, durable: bool) -> dict[str, Any]:
    """The nodes of a queue's mirrors, the oldest first, as RabbitMQ names them.

    The recoverable nodes have messages of the queue on disk, whether they run or not.
    """
    mirrors = [one.id.node for one in record.mirrors]
    stopped = [copy.node for copy in record.has_copy if copy.node != record.home]
    return {
        "slave_nodes": mirrors,
        "synchronised_slave_nodes": [one.id.node for one in record.mirrors if one.is_synchronised],
        "recoverable_slaves": [*mirrors, *stopped] if durable else None,
    }


def progress_of(record: MirrorRecord, replicas: Replicas) -> dict[Member, Progress]:
    """The progress of the mirrors that are not synchronised, if this node leads the queue."""
    replica = replicas.get(record.group.identity)
    if replica is None or replica.leading is None:
        return {}
    lacking = {one.id for one in record.members if not one.is_synchronised}
    found = replica.leading.synchronising.progress
    return {mirror: progress for mirror, progress in found.items() if mirror in lacking}


def syncing_fields(record: MirrorRecord, replicas: Replicas) -> dict[str, Any]:
    """The state of a queue during synchronisation: the messages that all mirrors have."""
    running = [one for one in progress_of(record, replicas).values() if one.is_running]
    if not running:
        return {}
    return {"state": SYNCING, "sync_messages": min(one.messages for one in running)}


def mirroring(record: MirrorRecord, replicas: Replicas, own: str) -> dict[str, Any]:
    """The ring of a queue, with what this node knows. own: its name."""
    replica = replicas.get(record.group.identity)
    progress = progress_of(record, replicas)
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


def _member(member: MirrorMember, record: MirrorRecord) -> dict[str, Any]:
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


def _sync(progress: Progress | None) -> dict[str, Any] | None:
    if progress is None:
        return None
    return {
        "messages": progress.messages,
        "expected": progress.expected,
        "running": progress.is_running,
    }


def add_part(shown: dict[str, Any], part: dict[str, Any], node: str) -> None:
    """Add to the ring what another node reports: its own member, and if it leads, the members that
    lack messages.
    """
    found = {member["node"]: member for member in part["members"]}
    for member in shown["members"]:
        other = found.get(member["node"])
        if other is None:
            continue
        if member["node"] == node:
            member |= {name: other[name] for name in ("left", "right", "pending")}
        if shown["leader"] == node:
            member["sync"] = other["sync"]
