"""A sharded exchange of a cluster has shards on each node, also on one that comes later."""

import json

import pytest

from tests.cluster.clients import bodies
from tests.cluster.clustered_nodes import ClusteredNode, form

NAME = "orders"


@pytest.fixture
def nodes(tmp_path):
    nodes = form(tmp_path, "a", "b")
    nodes.append(ClusteredNode(tmp_path, "c"))
    yield nodes
    for node in nodes:
        node.stop()


def bound_shards(node):
    """The shards that are bound, as a node lists them."""
    rows = node.ctl_json("list_bindings", "source_name", "destination_name", "routing_key")
    return sorted(
        row["destination_name"]
        for row in rows
        if row["source_name"] == NAME and row["routing_key"] == "1"
    )


def shards(*nodes):
    return sorted(
        f"sharding: {NAME} - {node.name} - {number}" for node in nodes for number in (0, 1)
    )


def test_each_node_declares_its_shards_when_the_policy_is_set_and_when_it_joins(nodes):
    a, b, c = nodes
    with a.connect() as connection:
        connection.channel().exchange_declare(NAME, "x-modulus-hash", durable=True)
    a.ctl("set_policy", "shards", f"^{NAME}$",
          json.dumps({"shards-per-node": 2, "routing-key": "1"}))  # fmt: skip
    b.wait_until(lambda: bound_shards(b) == shards(a, b), "both nodes have shards")
    c.join(a)
    a.wait_until(lambda: bound_shards(a) == shards(a, b, c), "the third node has shards")
    for node in nodes:
        rows = node.ctl_json("list_queues", "--local", "name")
        assert sorted(row["name"] for row in rows) == shards(node)
        assert bodies(node, NAME) == []
