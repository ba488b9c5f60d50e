"""The cluster that the node belongs to: its status, joining and leaving (docs/http-api.md)."""

from typing import Any

from leveret.broker.config import SettingError
from leveret.cluster.cluster_node import ClusterError
from leveret.cluster.links.node_names import parse_address
from leveret.mgmt.api.call import Call
from leveret.mgmt.api.errors import ApiError, bad_request, conflict
from leveret.mgmt.api.routes import NoContent, route
from leveret.mgmt.running_node import NodeError
from leveret.mgmt.views.cluster import cluster_status


@route("GET", "/node/cluster-status", control_only=True, works_stopped=True)
async def show_cluster_status(call: Call) -> Any:
    """What `rabbitmqctl cluster_status` shows."""
    return cluster_status(call.node)


@route("POST", "/node/join-cluster", control_only=True, works_stopped=True)
async def join_cluster(call: Call) -> Any:
    """Join the cluster of another node while the broker is stopped; the node loses its data."""
    body = await call.body("node")
    try:
        seed = parse_address(str(body["node"]))
    except ValueError as error:
        raise bad_request(str(error)) from None
    text = f"Clustering this node with {seed}"
    await call.note("cluster.joined", "node", call.node.name, text)
    try:
        await call.node.join_cluster(seed, body.get("type", "disc") != "ram")
    except NodeError as error:
        raise conflict(str(error)) from None
    except (ClusterError, SettingError, OSError) as error:
        raise ApiError(500, "cannot_join", str(error)) from None
    return NoContent()
