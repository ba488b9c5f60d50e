"""Replicas of streams: adding and removing them, for leveretctl."""

from typing import Any

from leveret.broker.queues.contract.queue_kind import STREAM
from leveret.broker.runtime.names import QUEUE, resource
from leveret.cluster.replicated_queues.membership import ChangeRefused, Membership
from leveret.cluster.streams.stream_queues import StreamQueues
from leveret.mgmt.api.call import Call
from leveret.mgmt.api.errors import ApiError
from leveret.mgmt.api.routes import NoContent, route


@route("POST", "/node/add-stream-replica", control_only=True)
async def add_stream_replica(call: Call) -> Any:
    """Give a stream a replica on another node, and wait until the stream has it."""
    body = await call.body("vhost", "name", "node")
    vhost, name, node = str(body["vhost"]), str(body["name"]), str(body["node"])
    replicas = _replicas(call, vhost, name, "add replicas to")
    text = f"Adding a replica of {resource(QUEUE, name, vhost)} on node {node}"
    await call.note("queue.member.added", QUEUE, name, text, vhost, {"node": node})
    try:
        await replicas.add(vhost, name, node)
    except ChangeRefused as error:
        raise _refused(str(error)) from None
    return NoContent()


@route("POST", "/node/delete-stream-replica", control_only=True)
async def delete_stream_replica(call: Call) -> Any:
    """Remove the replica of a stream on a node, and wait until the stream is without it."""
    body = await call.body("vhost", "name", "node")
    vhost, name, node = str(body["vhost"]), str(body["name"]), str(body["node"])
    replicas = _replicas(call, vhost, name, "delete replicas from")
    text = f"Removing the replica of {resource(QUEUE, name, vhost)} on node {node}"
    await call.note("queue.member.removed", QUEUE, name, text, vhost, {"node": node})
    try:
        await replicas.remove(vhost, name, node)
    except ChangeRefused as error:
        raise _refused(str(error)) from None
    return NoContent()


def _replicas(call: Call, vhost: str, name: str, what: str) -> Membership:
    """The members of the streams of this node. Raises ApiError if the queue is no stream."""
    queue = call.facade.declared_queue(vhost, name)
    if queue is not None and queue.kind != STREAM:
        raise _refused(f"Cannot {what} a {queue.kind} queue")
    cluster = call.node.cluster
    streams = None if cluster is None else cluster.kinds.find(StreamQueues)
    if streams is None:
        raise _refused("the streams of this node have one replica: it is in no cluster")
    return streams.membership


def _refused(reason: str) -> ApiError:
    return ApiError(503, "service_unavailable", reason)
