"""A shovel of a cluster runs on one node, and on another one when that dies."""

import signal

import pytest

from leveret.broker.transfers.chosen_node import chosen
from tests.cluster.clients import bodies, publish
from tests.cluster.clustered_nodes import declare
from tests.cluster.managed_nodes import form_managed

SHOVEL = {
    "src-uri": "amqp://", "src-queue": "from", "dest-uri": "amqp://", "dest-queue": "to",
    "reconnect-delay": 1,
}  # fmt: skip
SHOWN = "shovels/vhost/%2F/s"


@pytest.fixture
def nodes(tmp_path):
    nodes = form_managed(tmp_path, "a", "b")
    yield nodes
    for node in nodes:
        node.stop()


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
    other.wait_until(lambda: bodies(other, "to") == [b"after"], "it is moved")
    runner.start()
    other.wait_until(
        lambda: [one["node"] for one in other.get("shovels")] == [runner.name], "it moves back"
    )
