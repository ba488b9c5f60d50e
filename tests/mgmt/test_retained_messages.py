"""Retained messages of MQTT in the API, in leveretctl and in the metrics."""

import json
import urllib.parse

import pytest
from paho.mqtt import publish

from tests.mgmt.ctl_command import Ctl
from tests.mgmt.served_node import ServedNode
from tests.ports import free_ports


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    (port,) = free_ports(1)
    served = ServedNode(tmp_path_factory.mktemp("node"), f"mqtt.listeners.tcp.1 = {port}")
    served.mqtt_port = port
    yield served
    served.stop()


@pytest.fixture
def retained(node, vhost):
    """Two retained messages in a vhost, which is returned."""
    node.put(f"permissions/{vhost}/guest", {"configure": ".*", "write": ".*", "read": ".*"})
    publish.multiple(
        [("plant/7/temperature", "warm", 1, True), ("plant/8/image", b"\xff\0", 1, True)],
        hostname="127.0.0.1", port=node.mqtt_port,
        auth={"username": f"{vhost}:guest", "password": "guest"},
    )  # fmt: skip
    return vhost


def path_of(vhost, topic):
    return f"mqtt/retained/{vhost}/{urllib.parse.quote(topic, safe='')}"


def test_retained_messages_are_listed_and_shown(node, retained):
    found = node.get(f"mqtt/retained/{retained}")
    assert (found["messages"], found["bytes"]) == (2, 38)
    first, second = found["items"]
    assert first == {
        "vhost": retained, "topic": "plant/7/temperature", "qos": 1, "payload_bytes": 4,
        "expires_at": 0,
    }  # fmt: skip
    assert len(node.get(f"mqtt/retained/{retained}?count=1")["items"]) == 1
    (one,) = node.get(f"mqtt/retained/{retained}?filter=plant/%2B/image")["items"]
    assert one == second
    shown = node.get(path_of(retained, "plant/7/temperature"))
    assert (shown["payload"], shown["payload_encoding"]) == ("warm", "string")
    assert node.get(path_of(retained, "plant/8/image"))["payload_encoding"] == "base64"


def test_retained_messages_are_removed(node, retained):
    assert node.delete(path_of(retained, "plant/7/temperature")).status == 204
    missing = node.delete(path_of(retained, "plant/7/temperature"))
    assert missing.status == 404
    assert "has no retained message of topic 'plant/7/temperature'" in missing.body["reason"]
    assert node.delete(f"mqtt/retained/{retained}").status == 204
    assert node.get(f"mqtt/retained/{retained}")["messages"] == 0


def test_leveretctl_lists_and_clears_retained_messages(node, retained):
    ctl = Ctl(node)
    listed = json.loads(
        ctl("list_retained_messages", "-p", retained, "plant/7/#", "--formatter", "json")
    )
    assert [one["topic"] for one in listed] == ["plant/7/temperature"]
    ctl("clear_retained_messages", "-p", retained, "plant/7/temperature")
    ctl("clear_retained_messages", "-p", retained, "--all")
    assert node.get(f"mqtt/retained/{retained}")["messages"] == 0
    assert "either a topic, or --all" in ctl.fails("clear_retained_messages")[1]


def test_retained_messages_are_counted_in_the_metrics(node, retained):
    assert "rabbitmq_mqtt_retained_messages 2\n" in node.metrics()
    node.delete(f"mqtt/retained/{retained}")
    assert "rabbitmq_mqtt_retained_messages 0\n" in node.metrics()
