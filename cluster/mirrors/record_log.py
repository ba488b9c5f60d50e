"""What the log of a node says when the record of a mirrored queue has changed. Pure.

As in RabbitMQ (`rabbit_mirror_queue_misc`), mirrors that come and go are named by the leader's
node, and a promotion by the node that leads from then on. A queue that is down is named by all.
"""

from collections.abc import Iterator

from leveret.cluster.mirrors.mirror_record import MirrorRecord


def lines(
    before: MirrorRecord | None, after: MirrorRecord, node: str, incarnation: int
) -> Iterator[str]:
    """The lines for a node in one life, without the name of the queue.

    A node that starts finds records on its disk in which an earlier life of it leads.
    """
    if after.leader is None:
        if before is None or before.leader is not None or before.awaited != after.awaited:
            yield f"is down: no mirror can lead it, and it waits for node {after.awaited}"
        return
    if (after.leader.node, after.leader.incarnation) != (node, incarnation):
        return
    if before is not None and before.leader != after.leader:
        yield f"promoting the mirror on node {node} to leader"
    known = {} if before is None else {one.id: one for one in before.members}
    for one in after.mirrors:
        was = known.get(one.id)
        if was is None:
            yield f"adding a mirror on node {one.id.node}"
        if one.is_synchronised and not (was is not None and was.is_synchronised):
            yield f"the mirror on node {one.id.node} is synchronised"
    left = {one.id for one in after.members}
    for one in known.values():
        if one.id not in left:
            yield f"the mirror on node {one.id.node} is gone"
