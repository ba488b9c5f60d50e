"""What the API answers has every field that RabbitMQ 3.10's has, with values of the same types.

`golden/shapes.json` was recorded from a real RabbitMQ, with a connection, a channel, a consumer
with unacked messages, queues with arguments, and a policy; the test brings a node into the same
state.
"""

import json
from pathlib import Path
from urllib.parse import quote

import pika
import pytest

SHAPES = json.loads((Path(__file__).parent / "golden" / "shapes.json").read_text())
NULLABLE = ("null", "text")
"""Where one RabbitMQ says null and another an empty text."""
PATHS = {
    "overview_ages": "overview?msg_rates_age=20&msg_rates_incr=5&lengths_age=20&lengths_incr=5"
}
NEEDS_IDLENESS = ("idle_since",)


@pytest.fixture(scope="module")
def state(node):
    """As it was when the shapes were recorded: in the vhost st."""
    node.put("vhosts/st")
    connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", node.port, "st"))
    channel = connection.channel()
    channel.queue_declare("q1", durable=True, arguments={"x-max-length": 1000})
    channel.queue_declare("q2", auto_delete=True, exclusive=True)
    channel.exchange_declare("x1", "topic", durable=True)
    channel.queue_bind("q1", "x1", "a.#", arguments={"k": 1})
    channel.confirm_delivery()
    for _ in range(20):
        channel.basic_publish("x1", "a.b", b"hello", pika.BasicProperties(delivery_mode=2))
    channel.basic_qos(prefetch_count=3)
    channel.basic_consume("q1", lambda *_: None, consumer_tag="tag1", arguments={"x-priority": 2})
    node.put("policies/st/p1", {"pattern": "^q1", "definition": {"max-length": 500},
                                "apply-to": "queues"})  # fmt: skip
    connection.process_data_events(0.2)

    def is_counted():
        vhosts, queues = node.get("vhosts/st"), node.get("queues/st/q1")
        return "message_stats" in vhosts and "message_stats" in queues

    node.wait_until(is_counted, "statistics are taken")
    yield connection
    connection.close()
    node.delete("vhosts/st")


def path_of(name, node):
    if name in ("connection", "channel"):
        found = [one for one in node.get(f"{name}s") if one["vhost"] == "st"]
        return f"{name}s/{quote(found[0]['name'], safe='')}"
    return PATHS.get(name, name).replace("ref@localhost", node.name)


def differences(expected, found, where):
    """What is missing, or of another type."""
    if isinstance(expected, dict):
        if not isinstance(found, dict):
            yield f"{where}: not an object"
            return
        for key, value in expected.items():
            if key not in found:
                if key not in NEEDS_IDLENESS:
                    yield f"{where}.{key}: missing"
            else:
                yield from differences(value, found[key], f"{where}.{key}")
    elif isinstance(expected, list):
        if not isinstance(found, list):
            yield f"{where}: not a list"
        elif found:
            yield from differences(expected[0], found[0], f"{where}[]")
    elif expected != "any":
        kind = type_of(found)
        if kind != expected and not {kind, expected} <= set(NULLABLE):
            yield f"{where}: {kind} instead of {expected}"


def type_of(value):
    names = {bool: "boolean", int: "number", float: "number", str: "text", list: "list"}
    return "null" if value is None else names.get(type(value), "object")


@pytest.mark.parametrize("name", sorted(SHAPES))
def test_every_field_is_there(name, node, state):
    found = node.get(path_of(name, node))
    if isinstance(found, list):
        found = [one for one in found if not isinstance(one, dict) or one.get("vhost") == "st"] or (
            found
        )
    assert list(differences(SHAPES[name], found, name)) == []
