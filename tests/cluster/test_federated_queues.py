"""The link of a federated queue runs on the node where the queue lives, and follows its leader."""

import json
import signal

import pytest

from tests.cluster.clients import take
from tests.cluster.clustered_nodes import declare
from tests.cluster.managed_nodes import form_managed
from tests.mgmt.served_node import ServedNode


@pytest.fixture
def nodes(tmp_path):
    nodes = form_managed(tmp_path, "a", "b")
    yield nodes
    for node in nodes:
        node.stop()


@pytest.fixture
def upstream(tmp_path):
    (tmp_path / "upstream").mkdir()
    served = ServedNode(tmp_path / "upstream", name="upstream@localhost")
    yield served
    served.stop()


def feed(upstream, *bodies):
    for body in bodies:
        assert upstream.publish("/", "q", body, {"delivery_mode": 2})


def links_of(upstream):
    return [
        one["user_provided_name"]
        for one in upstream.get("connections")
        if "Federation link" in one.get("user_provided_name", "")
    ]


def test_it_follows_the_leader_of_a_mirrored_queue(nodes, upstream):
    first, second = nodes
    first.ctl(
        "set_parameter", "federation-upstream", "u",
        json.dumps(
            {"uri": f"amqp://guest:guest@127.0.0.1:{upstream.port}", "reconnect-delay": 1}
        ),
    )  # fmt: skip
    policy = {"ha-mode": "all", "federation-upstream": "u"}
    first.ctl("set_policy", "p", "^q$", json.dumps(policy))
    declare(first, "q")
    first.wait_to_see("queues/%2F/q", lambda queue: queue.get("synchronised_slave_nodes"))
    upstream.wait_until(lambda: len(links_of(upstream)) == 1, "one node has a link")
    feed(upstream, "1", "2")
    with second.connect() as connection:
        assert [body for body, _ in take(connection.channel(), "q", 2)] == [b"1", b"2"]
    first.wait_to_see("queues/%2F/q", lambda queue: queue.get("messages") == 0)
    first.stop(signal.SIGKILL)
    feed(upstream, "3")
    second.wait_to_see("queues/%2F/q", lambda queue: queue.get("node") == second.name)
    with second.connect() as connection:
        assert [body for body, _ in take(connection.channel(), "q", 1)] == [b"3"]
    upstream.wait_until(lambda: len(links_of(upstream)) == 1, "one node has a link")
