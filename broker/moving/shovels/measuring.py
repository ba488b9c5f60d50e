"""The number of messages of a queue on any node, for shovels with a threshold."""

from collections.abc import Mapping

from leveret.broker.amqp.errors import Fault
from leveret.broker.runtime.pending import Answer
from leveret.broker.runtime.pending_in_task import in_task
from leveret.broker.vhost.virtual_host import VirtualHost

DOWN = "down"


async def measure(
    vhosts: Mapping[str, VirtualHost], vhost: str, name: str
) -> tuple[int, int] | None:
    """The messages of a queue and their bytes, ready and unacknowledged ones.

    None if there is no such queue, or its node does not answer.
    """
    place = vhosts.get(vhost)
    queue = None if place is None else place.queues.get(name)
    if queue is None:
        return None
    answer: Answer[None] = Answer()
    queue.figures.refresh(answer)
    try:
        await in_task(answer)
    except Fault:
        return None
    status = queue.figures.status()
    if status.state == DOWN:
        return None
    return status.counts.messages, status.storage.ready_bytes + status.storage.unacked_bytes
