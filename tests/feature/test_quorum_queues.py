"""Quorum queues of a node that is killed: messages, delivery counts and order survive."""

import pika
import pytest

from tests.crash.killed_node import Node
from tests.protocol.raw_client import wait_until

TRANSIENT, PERSISTENT = (pika.BasicProperties(delivery_mode=mode) for mode in (1, 2))
FILLING = bytes(3000)
COUNT = 1000


@pytest.fixture
def node(tmp_path):
    """A node that keeps almost nothing in memory, and so writes segments."""
    node = Node(
        tmp_path / "data",
        LEVERET_VM_MEMORY_HIGH_WATERMARK_PAGING_RATIO="0.0001",
        LEVERET_MSG_LOG_FILE_SIZE_LIMIT="1000000",
    )
    node.start()
    yield node
    node.kill()


def declare(channel, queue, **arguments):
    table = {key.replace("_", "-"): value for key, value in arguments.items()}
    channel.queue_declare(queue, durable=True, arguments={"x-queue-type": "quorum", **table})


def restarted(node):
    node.kill()
    node.start()
    return node.channel()


def taken(channel, queue, count):
    """Get messages with basic.get; return the number of each, and how often it was delivered."""
    found = []
    for _ in range(count):
        _, properties, body = channel.basic_get(queue)
        found.append((int(body.split()[0]), properties.headers["x-delivery-count"]))
    return found


def test_counts_and_order_of_returned_messages_survive_a_kill(node):
    channel = node.channel()
    for queue, arguments in (("end", {}), ("front", {"x_delivery_limit": 5})):
        declare(channel, queue, **arguments)
        for number in range(4):
            channel.basic_publish("", queue, b"%d" % number, TRANSIENT)
        for _ in range(3):
            method, _, _ = channel.basic_get(queue)
            channel.basic_nack(method.delivery_tag)
        channel.basic_get(queue)
        channel.basic_publish("", queue, b"4", PERSISTENT)
    channel = restarted(node)
    assert taken(channel, "end", 5) == [(3, 1), (0, 1), (1, 1), (2, 1), (4, 0)]
    assert taken(channel, "front", 5) == [(0, 4), (1, 0), (2, 0), (3, 0), (4, 0)]


def test_messages_of_any_delivery_mode_survive_two_kills(node):
    channel = node.channel()
    declare(channel, "q")
    transaction = channel.connection.channel()
    transaction.tx_select()
    for number in range(COUNT):
        properties = TRANSIENT if number % 2 else PERSISTENT
        transaction.basic_publish("", "q", b"%d " % number + FILLING, properties)
    transaction.tx_commit()
    channel = restarted(node)
    assert taken(channel, "q", 10) == [(number, 0) for number in range(10)]
    channel.connection.close()
    channel = restarted(node)
    # What a consumer held is returned soon after the start.
    wait_until(lambda: channel.queue_declare("q", passive=True).method.message_count == COUNT)
    got = sorted(number for number, _ in taken(channel, "q", COUNT))
    assert got == list(range(COUNT))
