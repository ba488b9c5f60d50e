"""The log of a running node: its file, its rotation, and the exchange amq.rabbitmq.log."""

import json

import pika
import pytest

from tests.mgmt.served_node import ServedNode
from tests.patience import PATIENCE_SECONDS

CONFIGURATION = """
log.file = node.log
log.file.formatter = json
log.file.rotation.size = 2000
log.file.rotation.count = 100
log.exchange = true
log.exchange.formatter = json
log.exchange.level = info
"""


@pytest.fixture(scope="module")
def logging_node(tmp_path_factory):
    node = ServedNode(tmp_path_factory.mktemp("logging"), CONFIGURATION, "hare@localhost")
    yield node
    node.stop()


def test_the_file_is_where_management_says(logging_node):
    path = logging_node.data_dir / "logs" / "node.log"
    shown = logging_node.get("nodes/hare@localhost")["log_files"]
    assert shown == [str(path), "<stdout>", "exchange:amq.rabbitmq.log in vhost '/'"]
    assert json.loads(path.read_text().splitlines()[-1])["level"] in ("info", "warning")


def test_a_long_file_is_rotated(logging_node):
    for number in range(20):
        logging_node.put(f"users/user{number}", {"password": "secret", "tags": ""})
    directory = logging_node.data_dir / "logs"
    assert {"node.log", "node.log.0", "node.log.1"} <= {one.name for one in directory.iterdir()}
    lines = [line for one in directory.iterdir() for line in one.read_text().splitlines()]
    found = [json.loads(line)["msg"] for line in lines]
    assert sum("Created user 'user" in message for message in found) == 20


def message_about(text, channel, queue):
    for method, properties, body in channel.consume(queue, inactivity_timeout=PATIENCE_SECONDS):
        assert body is not None, "nothing was published"
        if text in json.loads(body)["msg"]:
            channel.cancel()
            return method, properties, body
    raise AssertionError("the consumer was cancelled")


def test_the_log_is_published_with_the_level_as_routing_key(logging_node):
    exchange = logging_node.get("exchanges/%2F/amq.rabbitmq.log")
    assert (exchange["type"], exchange["durable"], exchange["internal"]) == ("topic", True, True)
    parameters = pika.ConnectionParameters("127.0.0.1", logging_node.port)
    with pika.BlockingConnection(parameters) as connection:
        channel = connection.channel()
        queue = channel.queue_declare("", exclusive=True).method.queue
        channel.queue_bind(queue, "amq.rabbitmq.log", "info")
        logging_node.put("users/ann", {"password": "secret", "tags": ""})
        method, properties, body = message_about("user 'ann'", channel, queue)
    assert (method.exchange, method.routing_key) == ("amq.rabbitmq.log", "info")
    assert properties.content_type == "application/json"
    assert properties.headers == {"node": "hare@localhost"}
    assert properties.timestamp > 1_700_000_000
    assert body.endswith(b"\n")
    assert json.loads(body)["level"] in ("info", "warning")
