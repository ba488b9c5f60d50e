"""Converts queues from one type to another in place: an action of a queue."""

from typing import Any

from leveret.broker.queues.contract.queue_kind import CLASSIC_QUEUE
from leveret.broker.queues.quorum_kind import QUORUM_QUEUE
from leveret.broker.runtime.names import QUEUE, resource
from leveret.cluster.rpc.refused import Refused
from leveret.mgmt.api.call import Call
from leveret.mgmt.api.errors import bad_request
from leveret.mgmt.api.routes import NoContent
from leveret.storage.metadata.metadata import MetadataError

CONVERT = "convert"
KINDS = {kind.name: kind for kind in (CLASSIC_QUEUE, QUORUM_QUEUE)}


async def convert(call: Call, vhost: str, queue: str, kind: str) -> Any:
    """Convert a queue, and wait for the end. Raises 400 with the reasons why it stays as it is."""
    cluster = call.node.cluster
    wanted = KINDS.get(kind)
    if wanted is None:
        raise bad_request(f"queues can be converted to {' or '.join(KINDS)} queues, not to {kind}")
    if cluster is None or cluster.conversions is None:
        raise bad_request("a broker in another program converts no queues")
    try:
        await cluster.conversions.convert(vhost, queue, wanted, call.requester)
    except (Refused, MetadataError) as error:
        what = resource(QUEUE, queue, vhost)
        raise bad_request(f"{what} cannot be converted: {error}") from None
    return NoContent()
