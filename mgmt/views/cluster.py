"""The cluster as JSON: its nodes' reports on themselves, gathered by the node that is queried.

Each node answers requests about itself over the links (cluster/rpc/rpc.py). A node that does not
answer in time is shown without its report.
"""

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec

from leveret.cluster.node.cluster_node import ClusterNode
from leveret.cluster.rpc.rpc import NotAnswered
from leveret.mgmt.running_node import RunningNode
from leveret.mgmt.views.nodes import status

STATUS = "management.status"
"""The topic of requests for the result of `status`."""
ANSWER_SECONDS_MAX = 2.0

View = dict[str, Any]


def answer_questions(node: RunningNode) -> None:
    """Have this node answer other nodes' requests about it. Called after each start."""
    if node.cluster is None:
        return
    node.cluster.rpc.answer(STATUS, _answering(node, status))


def _answering(
    node: RunningNode, make: Callable[[RunningNode], View]
) -> Callable[[str, bytes], Any]:
    async def answer(asker: str, text: bytes) -> bytes:
        return msgspec.json.encode(make(node))

    return answer


async def cluster_status(node: RunningNode) -> View:
    """The content of `rabbitmqctl cluster_status`: nodes by type, running ones, and problems.

    nodes: the status of each running node; null if it did not answer. A node whose broker is
    stopped reports only its own state.
    """
    cluster = node.cluster if node.facade is not None else None
    own = {node.name: status(node)}
    running = [] if node.facade is None else [node.name]
    members: dict[str, bool] = {node.name: True}
    others: dict[str, View | None] = {}
    if cluster is not None:
        running, members = list(cluster.running), cluster.members
        others = await _ask_all(cluster, STATUS, [name for name in running if name != node.name])
    nodes = {**own, **others}
    return {
        "cluster_name": node.cluster_name,
        "disk_nodes": sorted(name for name, is_disc in members.items() if is_disc),
        "ram_nodes": sorted(name for name, is_disc in members.items() if not is_disc),
        "running_nodes": running,
        "partitions": {
            name: one["partitions"]
            for name, one in nodes.items()
            if one is not None and one.get("partitions")
        },
        "nodes": nodes,
    }


async def _ask_all(cluster: ClusterNode, topic: str, names: list[str]) -> dict[str, View | None]:
    """The answers of nodes, by name; None for a node that did not answer."""
    answers = await asyncio.gather(*(_ask(cluster, topic, name) for name in names))
    return dict(zip(names, answers, strict=True))


async def _ask(cluster: ClusterNode, topic: str, name: str) -> View | None:
    try:
        answer = await cluster.rpc.ask(name, topic, b"", ANSWER_SECONDS_MAX)
        return msgspec.json.decode(answer, type=dict[str, Any])
    except (NotAnswered, msgspec.DecodeError):
        return None
