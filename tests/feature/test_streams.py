"""Streams of a node that is killed: what was confirmed is read again, at the same offsets."""

import pika
import pytest

from tests.crash.killed_node import Node
from tests.protocol.raw_client import wait_until

PERSISTENT = pika.BasicProperties(delivery_mode=2)


@pytest.fixture
def node(tmp_path):
    node = Node(tmp_path / "data")
    node.start()
    yield node
    node.kill()


def declare(channel, queue, **arguments):
    table = {key.replace("_", "-"): value for key, value in arguments.items()}
    channel.queue_declare(queue, durable=True, arguments={"x-queue-type": "stream", **table})


def read(node, queue, count, start="first"):
    """Read messages to the end; return the offset and the body of each."""
    connection = node.connect()
    channel = connection.channel()
    channel.basic_qos(prefetch_count=100)
    found = []

    def take(channel, method, properties, body):
        found.append((properties.headers["x-stream-offset"], body))
        channel.basic_ack(method.delivery_tag)

    channel.basic_consume(queue, take, arguments={"x-stream-offset": start})
    wait_until(lambda: connection.process_data_events(0.01) or len(found) >= count)
    connection.close()
    return found


def test_confirmed_messages_survive_kills_at_their_offsets(node):
    channel = node.channel()
    declare(channel, "s", x_stream_max_segment_size_bytes=1_000_000)
    bodies = [b"%d " % number + bytes(5000) for number in range(500)]
    for body in bodies[:250]:
        channel.basic_publish("", "s", body, PERSISTENT)
    node.kill()
    node.start()
    channel = node.channel()
    for body in bodies[250:]:
        channel.basic_publish("", "s", body, PERSISTENT)
    node.kill()
    node.start()
    channel = node.channel()
    assert read(node, "s", 500) == list(enumerate(bodies))
    assert read(node, "s", 50, 450) == list(enumerate(bodies))[450:]
    channel.queue_delete("s")
    declare(channel, "s")
    channel.basic_publish("", "s", b"new", PERSISTENT)
    assert read(node, "s", 1) == [(0, b"new")]
    channel.connection.close()
