"""A sharded exchange of a cluster has shards on each node, also on one that comes later."""

import json
import signal

import pytest

from tests.cluster.clients import PERSISTENT, bodies
from tests.cluster.clustered_nodes import ClusteredNode, form
from tests.cluster.mirrored import wait_until_mirrored

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


def shard(node, number=0):
    return f"sharding: {NAME} - {node.name} - {number}"


def declare_sharded(node, kind, **policy):
    with node.connect() as connection:
        connection.channel().exchange_declare(NAME, kind, durable=True)
    definition = json.dumps({"shards-per-node": 1, "routing-key": "1", **policy})
    node.ctl("set_policy", "shards", f"^{NAME}$", definition)


def publish(node, count):
    """Publish messages with different routing keys, and have them confirmed."""
    with node.connect() as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        for number in range(count):
            channel.basic_publish(NAME, f"key {number}", b"%d" % number, PERSISTENT, mandatory=True)


def all_bodies(node, *queues):
    """All messages of queues, in the order of their numbers."""
    return sorted((body for queue in queues for body in bodies(node, queue)), key=int)


def wait_for_shards(node, *nodes):
    wanted = sorted(shard(one) for one in nodes)
    node.wait_until(lambda: bound_shards(node) == wanted, f"{wanted} are bound")


def test_a_consistent_hash_spreads_messages_over_the_shards_of_all_nodes(running):
    a, b = running("a", "b")
    declare_sharded(a, "x-consistent-hash", **{"routing-key": "10"})
    for node in (a, b):
        node.wait_until(lambda one=node: len(bound_to(one)) == 2, "both nodes have a shard")
    assert bound_to(a) == {shard(a): "10", shard(b): "10"}
    publish(b, 200)
    of_a, of_b = bodies(a, NAME), bodies(b, NAME)
    assert min(len(of_a), len(of_b)) > 20
    assert sorted(of_a + of_b, key=int) == [b"%d" % number for number in range(200)]


def bound_to(node):
    """The routing keys with which queues are bound to the exchange."""
    rows = node.ctl_json("list_bindings", "source_name", "destination_name", "routing_key")
    return {
        row["destination_name"]: row["routing_key"] for row in rows if row["source_name"] == NAME
    }


def test_a_node_that_is_renamed_gets_new_shards_and_keeps_the_old_ones(running):
    a, b = running("a", "b")
    declare_sharded(a, "x-modulus-hash")
    wait_for_shards(a, a, b)
    publish(a, 50)
    old, of_b = b.name, shard(b)
    b.stop()
    b.ctl("--node", "beta@127.0.0.1", "rename_cluster_node", old, "beta@127.0.0.1")
    b.name = "beta@127.0.0.1"
    b.start()
    wanted = sorted([shard(a), of_b, shard(b)])
    a.wait_until(lambda: bound_shards(a) == wanted, "the node has a shard of its new name")
    publish(a, 50)
    assert bodies(b, NAME), "the new shard gets messages"
    # Those of the old one are consumed by its own name.
    assert bodies(b, of_b)


def test_mirrored_shards_keep_their_messages_when_a_node_is_lost(running):
    a, b = running("a", "b")
    a.ctl("set_policy", "mirrors", "^sharding: ", '{"ha-mode": "all"}')
    declare_sharded(a, "x-modulus-hash")
    wait_for_shards(a, a, b)
    for leader, mirror in ((a, b), (b, a)):
        wait_until_mirrored(leader, mirror, queue=shard(leader))
    publish(a, 100)
    b.stop(signal.SIGKILL)
    a.wait_until(lambda: leads(a, shard(b)), "the mirror leads")
    publish(a, 100)
    assert all_bodies(a, shard(a), shard(b)) == sorted(
        [b"%d" % number for number in range(100)] * 2, key=int
    )
    # The exchange's name means the shards of the client's node.
    assert bodies(a, NAME) == []
    b.start()
    publish(a, 100)
    assert bodies(b, NAME), "the node finds its shard by its name"


def leads(node, queue):
    """Whether a queue, or its leader, lives on a node."""
    return queue in [row["name"] for row in node.ctl_json("list_queues", "--local", "name")]
