"""Messages expire at their times, wherever they are in a queue, over restarts and on disk."""

import pytest
from pamqp import commands

from tests.protocol.raw_client import opened, publish_bytes, wait_until
from tests.protocol.test_delayed_on_disk import Node, bodies


@pytest.fixture
def node(tmp_path):
    node = Node(tmp_path)
    yield node
    node.broker.stop()


def declare(client, mode):
    """A queue with the name q, and one for its dead letters; the channel confirms."""
    client.declare("dead", durable=True)
    client.declare(
        "q",
        durable=True,
        arguments={
            "x-expire-on-time": ("t", True), "x-queue-mode": ("S", mode),
            "x-dead-letter-exchange": ("S", ""), "x-dead-letter-routing-key": ("S", "dead"),
        },
    )  # fmt: skip
    client.call(1, commands.Confirm.Select, commands.Confirm.SelectOk)


def publish(client, body, ttl_s=None):
    """Publish a message, and wait for its confirm."""
    properties = {} if ttl_s is None else {"expiration": str(ttl_s * 1000)}
    client.send(publish_bytes(1, "q", body, delivery_mode=2, **properties))
    client.read_method(1, commands.Basic.Ack)


def length(node, queue):
    return node.broker.queue_length(queue)


@pytest.mark.parametrize("mode", ["default", "lazy"])
@pytest.mark.parametrize("way", ["restart", "kill"])
def test_each_expires_once_at_its_time_over_restarts(node, mode, way):
    with opened(node.broker) as client:
        declare(client, mode)
        publish(client, b"stays")
        for number in range(100):
            publish(client, b"%d" % number, 1000 + number % 4 * 1000)
        node.advance(1500)
        wait_until(lambda: length(node, "dead") == 25)
        # This is confirmed when the log has what happened before, too.
        publish(client, b"stays too")
    getattr(node, way)()
    assert (length(node, "dead"), length(node, "q")) == (25, 77)
    # The clock of the new node begins where that of the first one began.
    node.advance(2500)
    wait_until(lambda: length(node, "dead") == 50)
    node.advance(2000)
    wait_until(lambda: length(node, "dead") == 100)
    assert length(node, "q") == 2
    node.restart()
    dead = [int(body) for body in bodies(node, "dead")]
    assert sorted(dead) == list(range(100))
    assert [number % 4 for number in dead] == sorted(number % 4 for number in range(100))
    assert bodies(node) == [b"stays", b"stays too"]


def test_a_node_that_starts_finds_when_messages_expire(node):
    with opened(node.broker) as client:
        declare(client, "default")
        publish(client, b"stays")
        publish(client, b"x", 1000)
    node.restart()
    node.advance(1000)
    wait_until(lambda: length(node, "dead") == 1)
    assert bodies(node) == [b"stays"]
