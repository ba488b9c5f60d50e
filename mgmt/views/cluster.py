"""The cluster as JSON: what `rabbitmqctl cluster_status` shows."""

from typing import Any

from leveret.broker.net.handshake import COMPATIBLE_VERSION
from leveret.mgmt.running_node import Node
from leveret.mgmt.views.nodes import listeners


def cluster_status(node: Node) -> dict[str, Any]:
    """The nodes of the cluster by type, those that run, and what is wrong.

    Of a node whose broker is stopped, only what it knows by itself.
    """
    cluster = node.cluster if node.broker is not None else None
    members = {node.name: True} if cluster is None else cluster.members
    running = () if node.broker is None else (node.name,) if cluster is None else cluster.running
    alarms = node.broker.services.alarms.sources if node.broker is not None else ()
    partitions = () if cluster is None else cluster.partitions
    return {
        "cluster_name": node.cluster_name,
        "disk_nodes": sorted(name for name, is_disc in members.items() if is_disc),
        "ram_nodes": sorted(name for name, is_disc in members.items() if not is_disc),
        "running_nodes": list(running),
        "partitions": {node.name: list(partitions)} if partitions else {},
        "alarms": [{"node": node.name, "resource": name} for name in alarms],
        "versions": {
            node.name: {"rabbitmq_name": "RabbitMQ", "rabbitmq_version": COMPATIBLE_VERSION}
        },
        "listeners": {node.name: listeners(node)},
    }
