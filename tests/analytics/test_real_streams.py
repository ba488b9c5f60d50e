"""An incident of a real node: a consumer of a stream falls behind, and retention overtakes it.

`leveret analyze` reads the log that the node has written, and its finding is the account that the
programs have of it.
"""

import pika
import pytest

from leveret.analytics.findings.finding import OVERTAKEN
from tests.analytics.running import analyze_quickly
from tests.analytics.test_incidents import NEEDED, found_in
from tests.mgmt.served_node import ServedNode

LIMITS = {"x-max-length-bytes": 40_000, "x-stream-max-segment-size-bytes": 10_000}
LOG = {"format": "log", "pattern": "#"}
READ = 5


@pytest.fixture
def node(tmp_path):
    node = ServedNode(tmp_path)
    yield node
    node.stop()


def channel_to(node):
    address = pika.ConnectionParameters("127.0.0.1", node.port, heartbeat=0)
    channel = pika.BlockingConnection(address).channel()
    channel.confirm_delivery()
    return channel


def publish_until(node, channel, condition):
    """Publish until what management shows of the stream fulfils a condition; returns that."""
    while not condition(shown := node.get("queues/%2F/orders")):
        channel.basic_publish("", "orders", bytes(1000))
    return shown


def test_a_consumer_that_retention_overtakes(node, tmp_path):
    publisher, consumer = channel_to(node), channel_to(node)
    node.put("traces/%2F/all", LOG)
    arguments = {"x-queue-type": "stream", **LIMITS}
    publisher.queue_declare("orders", durable=True, arguments=arguments)
    taken = []
    consumer.basic_qos(prefetch_count=READ)
    start = {"x-stream-offset": "first"}
    consumer.basic_consume("orders", lambda *one: taken.append(one), arguments=start,
                           consumer_tag="billing")  # fmt: skip
    publish_until(node, publisher, lambda stream: stream["messages"] >= READ)
    while len(taken) < READ:
        consumer.connection.process_data_events(0.01)
    shown = publish_until(node, publisher, lambda stream: stream["first_offset"] > READ)
    node.delete("traces/%2F/all")
    trace = node.data_dir / "trace"
    node.wait_until(lambda: any(trace.rglob("*.gz")) and not any(trace.rglob("*.open")))
    analyze_quickly(trace, tmp_path / "out", only=NEEDED)
    [found] = [one for one in found_in(tmp_path / "out") if one.kind == OVERTAKEN]
    assert found.about == ("orders", "billing")
    assert found.weight == shown["first_offset"] - READ
    assert "consumer billing lost" in found.sentence
