"""MQTT clients on two nodes: retained messages and client identifiers are those of the cluster."""

import signal
import threading

import pytest
from paho.mqtt import publish, subscribe
from paho.mqtt.client import CallbackAPIVersion, Client

from tests.cluster.clustered_nodes import ClusteredNode, form
from tests.patience import PATIENCE_SECONDS
from tests.ports import free_ports

HOST = "127.0.0.1"


class MqttNode(ClusteredNode):
    """A node with a listener for MQTT."""

    def __init__(self, directory, name):
        (self.mqtt_port,) = free_ports(1)
        listener = {"LEVERET_MQTT_LISTENERS_TCP": str(self.mqtt_port)}
        super().__init__(directory, name, environment=listener)

    def retain(self, topic, payload):
        """Retain a message; it is answered."""
        publish.single(topic, payload, qos=1, retain=True, hostname=HOST, port=self.mqtt_port)

    def retained(self, topic):
        """The retained message of a topic."""
        return subscribe.simple(topic, hostname=HOST, port=self.mqtt_port).payload.decode()


@pytest.fixture
def nodes(tmp_path):
    nodes = form(tmp_path, "a", "b", kind=MqttNode)
    yield nodes
    for node in nodes:
        node.stop()


def test_a_retained_message_is_on_the_other_node_and_survives_it_alone(nodes):
    one, other = nodes
    one.retain("plant/1", "warm")
    assert other.retained("plant/1") == "warm"
    one.stop(signal.SIGKILL)
    other.retain("plant/1", "cold")
    other.retain("plant/2", "wet")
    other.stop(signal.SIGKILL)
    other.start()
    assert other.retained("plant/1") == "cold"
    one.start()
    one.wait_until(lambda: one.retained("plant/2") == "wet", "it has what it missed")
    assert one.retained("plant/1") == "cold"


def test_a_client_takes_over_its_identifier_on_another_node(nodes):
    one, other = nodes
    ended, connected = threading.Event(), threading.Event()
    old = Client(CallbackAPIVersion.VERSION2, "meter", reconnect_on_failure=False)
    old.on_connect = lambda *_: connected.set()
    old.on_disconnect = lambda *_: ended.set()
    old.connect(HOST, one.mqtt_port)
    old.loop_start()
    assert connected.wait(PATIENCE_SECONDS)
    publish.single("t", "x", qos=1, client_id="meter", hostname=HOST, port=other.mqtt_port)
    assert ended.wait(PATIENCE_SECONDS)
    old.loop_stop()
    assert "another client has connected with its identifier" in one.log
