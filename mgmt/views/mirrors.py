"""The mirrors of a queue as JSON: RabbitMQ's fields, and `mirroring` (http-api.md)."""

from typing import Any

from leveret.broker.queues.contract.placement import QueueMembers


def mirror_fields(members: QueueMembers, durable: bool) -> dict[str, Any]:
    """The nodes of a queue's mirrors, the oldest first, as RabbitMQ names them.

    The recoverable nodes have messages of the queue on disk, whether they run or not.
    """
    mirrors = [node for node in members.nodes if node != members.leader]
    synchronised = [node for node in members.synchronised if node != members.leader]
    return {
        "slave_nodes": mirrors,
        "synchronised_slave_nodes": synchronised,
        "recoverable_slaves": [*mirrors, *members.stopped] if durable else None,
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
