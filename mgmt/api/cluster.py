"""The node's cluster: its status, joining and leaving (docs/reference/http-api.md)."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from leveret.broker.config import SettingError
from leveret.broker.runtime.node_address import NodeAddress, read_node_address
from leveret.cluster.membership.membership_changes import ClusterError
from leveret.mgmt.api.call import Call
from leveret.mgmt.api.errors import ApiError, bad_request, conflict
from leveret.mgmt.api.routes import NoContent, route
from leveret.mgmt.running_node import NodeError
from leveret.mgmt.views.cluster import cluster_status

DISC, RAM = "disc", "ram"


@route("GET", "/node/cluster-status", control_only=True, works_stopped=True)
async def show_cluster_status(call: Call) -> Any:
    """What `rabbitmqctl cluster_status` shows."""
    found = await cluster_status(call.node)
    call.left_out |= {name for name, status in found["nodes"].items() if status is None}
    return found


@route("POST", "/node/join-cluster", control_only=True, works_stopped=True)
async def join_cluster(call: Call) -> Any:
    """Join the cluster of another node while the broker is stopped; the node loses its data."""
    body = await call.body("node")
    member = _address(body)
    await _note(call, "cluster.joined", f"Clustering this node with {member}")
    is_disc = _is_disc(body)
    with _errors():
        async with call.node.while_stopped() as stopped:
            await stopped.join(member, is_disc)
    return NoContent()


@route("POST", "/node/leave-cluster", control_only=True, works_stopped=True)
async def leave_cluster(call: Call) -> Any:
    """Have the node removed from its cluster while the broker is stopped."""
    await _note(call, "cluster.left", "Removing this node from its cluster")
    with _errors():
        async with call.node.while_stopped() as stopped:
            await stopped.leave()
    return NoContent()


@route("POST", "/node/change-cluster-node-type", control_only=True, works_stopped=True)
async def change_type(call: Call) -> Any:
    """Make the node a disc node or a RAM node while the broker is stopped."""
    body = await call.body("type")
    await _note(call, "cluster.type.changed", f"Making this node a {body['type']} node")
    is_disc = _is_disc(body)
    with _errors():
        async with call.node.while_stopped() as stopped:
            await stopped.change_type(is_disc)
    return NoContent()


@route("POST", "/node/update-cluster-nodes", control_only=True, works_stopped=True)
async def update_cluster_nodes(call: Call) -> Any:
    """Take the list of members from another node of the cluster while the broker is stopped."""
    body = await call.body("node")
    member = _address(body)
    await _note(call, "cluster.members.updated", f"Taking the nodes of the cluster from {member}")
    with _errors():
        async with call.node.while_stopped() as stopped:
            await stopped.update_members(member)
    return NoContent()


@route("POST", "/node/force-boot", control_only=True, works_stopped=True)
async def force_boot(call: Call) -> Any:
    """Have the broker's next start wait for no other node."""
    await _note(call, "cluster.force_boot", "Forcing the next start of this node")
    with _errors():
        async with call.node.while_stopped() as stopped:
            stopped.force_boot()
    return NoContent()


@route("POST", "/node/forget-cluster-node", control_only=True)
async def forget_cluster_node(call: Call) -> Any:
    """Remove a node that does not run from the cluster, with the queues that it has."""
    body = await call.body("node")
    name = str(body["node"])
    cluster = call.node.cluster
    if cluster is None:
        raise conflict("this node has no links to other nodes")
    await _note(call, "cluster.node.forgotten", f"Removing node {name} from the cluster")
    with _errors():
        await cluster.forget(name)
    return NoContent()


def _address(body: dict[str, Any]) -> NodeAddress:
    """The node that a body names. Raises 400."""
    try:
        return read_node_address(str(body["node"]))
    except ValueError as error:
        raise bad_request(str(error)) from None


def _is_disc(body: dict[str, Any]) -> bool:
    """Whether a body asks for a disc node. Raises 400."""
    kind = body.get("type", DISC)
    if kind not in (DISC, RAM):
        raise bad_request(f"type must be {DISC} or {RAM}, and is {kind!r}")
    return bool(kind == DISC)


async def _note(call: Call, action: str, text: str) -> None:
    await call.note(action, "node", call.node.name, text)


@contextmanager
def _errors() -> Iterator[None]:
    """Errors of membership as answers of the API."""
    try:
        yield
    except NodeError as error:
        raise conflict(str(error)) from None
    except (ClusterError, SettingError, OSError) as error:
        raise ApiError(500, "cluster", str(error)) from None
