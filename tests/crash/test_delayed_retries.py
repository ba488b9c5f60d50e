"""Messages of a classic queue that wait for their retry, when their node is killed."""

import pika

from tests.crash.killed_node import Node

PERSISTENT = pika.BasicProperties(delivery_mode=2)
A_DAY_MS = 86_400_000


def connect(node):
    return pika.BlockingConnection(pika.URLParameters(node.url)).channel()


def returned(channel, queue):
    """Take the next message of a queue and return it; how often it was returned before."""
    method, properties, _ = channel.basic_get(queue)
    channel.basic_nack(method.delivery_tag)
    return (properties.headers or {}).get("x-delivery-count", 0)


def test_they_wait_for_the_rest_of_their_time_and_keep_their_count(tmp_path):
    node = Node(tmp_path / "data")
    node.start()
    channel = connect(node)
    channel.confirm_delivery()
    for queue, least in (("short", 1), ("long", A_DAY_MS)):
        arguments = {"x-delayed-retry-type": "all", "x-delayed-retry-min": least}
        channel.queue_declare(queue, durable=True, arguments=arguments)
        channel.basic_publish("", queue, b"waits", PERSISTENT)
        returned(channel, queue)
        # Confirmed after all that the log got before it.
        channel.basic_publish("", queue, b"behind", PERSISTENT)
    node.kill()
    node.start()
    channel = connect(node)
    method, properties, body = channel.basic_get("short")
    assert (body, properties.headers["x-delivery-count"]) == (b"waits", 1)
    assert method.redelivered
    assert [channel.basic_get("short")[2] for _ in range(2)] == [b"behind", None]
    assert [channel.basic_get("long")[2] for _ in range(2)] == [b"behind", None]
    node.kill()
