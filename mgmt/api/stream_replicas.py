"""Replicas of streams: adding and removing them."""

from typing import Any

from aiohttp import web

from leveret.broker.queues.contract.queue_kind import STREAM
from leveret.broker.runtime.names import QUEUE, resource
from leveret.cluster.replicated_queues.membership import ChangeRefused, QueueMembership
from leveret.cluster.streams.stream_queues import StreamQueues
from leveret.mgmt.api.call import Call
from leveret.mgmt.api.errors import ApiError, bad_request
from leveret.mgmt.api.routes import NoContent, route


@route("POST", "/queues/stream/{vhost}/{queue}/replicas/add")
async def add_replica(call: Call) -> Any:
    """Give a stream a replica on another node, and wait until the stream has it."""
    replicas, vhost, name = _replicas(call, "add replicas to")
    node = str((await call.body("node"))["node"])
    text = f"Adding a replica of {resource(QUEUE, name, vhost)} on node {node}"
    await call.note("queue.member.added", QUEUE, name, text, vhost, {"node": node})
    try:
        await replicas.add(vhost, name, node)
    except ChangeRefused as error:
        raise _refused(str(error)) from None
    return NoContent()


@route("DELETE", "/queues/stream/{vhost}/{queue}/replicas/delete")
async def delete_replica(call: Call) -> Any:
    """Remove the replica of a stream on a node, and wait until the stream is without it."""
    replicas, vhost, name = _replicas(call, "delete replicas from")
    node = str((await call.body("node"))["node"])
    text = f"Removing the replica of {resource(QUEUE, name, vhost)} on node {node}"
    await call.note("queue.member.removed", QUEUE, name, text, vhost, {"node": node})
    try:
        await replicas.remove(vhost, name, node)
    except ChangeRefused as error:
        raise _refused(str(error)) from None
    return web.Response(status=202)


def _replicas(call: Call, what: str) -> tuple[QueueMembership, str, str]:
    """The members of the streams of this node, and the vhost and the name of the one in the path.

    Raises ApiError if it is no stream.
    """
    call.require_administrator()
    vhost = call.vhost()
    name = call.queue(vhost)
    queue = call.facade.declared_queue(vhost, name)
    if queue is not None and queue.kind != STREAM:
        raise bad_request(f"Cannot {what} a {queue.kind} queue")
    cluster = call.node.cluster
    streams = None if cluster is None else cluster.kinds.find(StreamQueues)
    if streams is None:
        raise _refused("the streams of this node have one replica: it is in no cluster")
    return streams.membership, vhost, name


def _refused(reason: str) -> ApiError:
    return ApiError(503, "service_unavailable", reason)
