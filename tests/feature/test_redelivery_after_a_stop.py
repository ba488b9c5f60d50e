"""Which messages are marked as redelivered after a node was stopped, and after it was killed."""

import pika
import pytest

from tests.crash.killed_node import Node

PERSISTENT = pika.BasicProperties(delivery_mode=2)


@pytest.mark.parametrize(
    ("end", "marks"),
    [(Node.kill, [True, True, True]), (Node.stop, [True, False, False])],
    ids=["killed just after a delivery", "stopped"],
)
def test_what_may_have_been_delivered_is_marked(tmp_path, end, marks):
    node = Node(tmp_path / "data")
    node.start()
    channel = node.channel()
    channel.queue_declare("q", durable=True)
    for _ in marks:
        channel.basic_publish("", "q", b"x", PERSISTENT)
    channel.basic_get("q")
    end(node)
    node.start()
    channel = node.connect().channel()
    assert [channel.basic_get("q")[0].redelivered for _ in marks] == marks
    node.kill()
