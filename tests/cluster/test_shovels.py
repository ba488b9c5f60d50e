"""A shovel of a cluster runs on one node, and on another one when that dies."""

import signal

from leveret.broker.moving.transfers.placement_by_hash import chosen
from tests.cluster.clients import bodies, publish
from tests.cluster.clustered_nodes import declare
from tests.cluster.managed_nodes import ManagedNode

SHOVEL = {
    "src-uri": "amqp://", "src-queue": "from", "dest-uri": "amqp://", "dest-queue": "to",
    "reconnect-delay": 1,
}  # fmt: skip
SHOWN = "shovels/vhost/%2F/s"


def is_running_on(node):
    return lambda shown: (shown["state"], shown["node"]) == ("running", node.name)


def test_another_node_runs_it_when_its_node_is_killed(nodes):
    by_name = {node.name: node for node in nodes}
    runner = by_name.pop(chosen(("/", "s"), by_name))
    (other,) = by_name.values()
    declare(other, "from", "to")
    assert other.put("parameters/shovel/%2F/s", {"value": SHOVEL}).status == 201
    other.wait_until(lambda: other.get("shovels"), "the shovel is listed")
    other.wait_to_see(SHOWN, is_running_on(runner))
    assert [one["node"] for one in runner.get("shovels")] == [runner.name]
    publish(other, "from", b"before")
    other.wait_until(lambda: bodies(other, "to") == [b"before"], "it is moved")
    runner.stop(signal.SIGKILL)
    other.wait_until(lambda: other.get("shovels"), "the shovel is listed")
    other.wait_to_see(SHOWN, is_running_on(other))
    publish(other, "from", b"after")
    # The first one may come again: its acknowledgement may have been lost with the node.
    other.wait_until(lambda: b"after" in bodies(other, "to"), "it is moved")
    runner.start()
    other.wait_until(
        lambda: [one["node"] for one in other.get("shovels")] == [runner.name], "it moves back"
    )


STATIC = """[{rabbitmq_shovel, [{shovels, [{mine, [
    {source, [{uris, ["amqp://"]}, {queue, <<"from">>},
              {declarations, [{'queue.declare', [{queue, <<"from">>}, durable]}]}]},
    {destination, [{uris, ["amqp://"]},
                   {declarations, [{'queue.declare', [{queue, <<"to">>}, durable]}]},
                   {publish_fields, [{exchange, <<>>}, {routing_key, <<"to">>}]}]},
    {reconnect_delay, 1}]}]}]}].
"""


def test_a_static_shovel_runs_on_one_of_the_nodes_that_have_it(tmp_path):
    nodes = []
    for name, has_it in (("a", True), ("b", True), ("c", False)):
        directory = tmp_path / name
        directory.mkdir()
        if has_it:
            (directory / "advanced.config").write_text(STATIC)
        nodes.append(ManagedNode(directory, name))
    try:
        for node in nodes[1:]:
            node.join(nodes[0])
        having = {node.name: node for node in nodes[:2]}
        runner = having.pop(chosen(("", "mine"), having))
        (other,) = having.values()
        without = nodes[2]

        def is_on(node):
            return lambda: [one["node"] for one in without.get("shovels")] == [node.name]

        without.wait_until(is_on(runner), "it is on one node")
        publish(without, "from", b"before")
        without.wait_until(lambda: bodies(without, "to") == [b"before"], "it is moved")
        runner.stop(signal.SIGKILL)
        without.wait_until(is_on(other), "it is on the other one")
        runner.start()
        without.wait_until(is_on(runner), "it is back")
        publish(without, "from", b"after")
        # The first one may come again: its acknowledgement may have been lost with the node.
        without.wait_until(lambda: b"after" in bodies(without, "to"), "it is moved")
    finally:
        for node in nodes:
            node.stop()
