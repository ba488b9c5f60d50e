"""QoS 2 of MQTT in a cluster: a session continues on another node when its node is killed."""

import signal
import threading
from functools import partial

import pytest
from paho.mqtt.client import MQTTv5, MQTTv311

from tests.cluster.clustered_nodes import ClusteredNode, form
from tests.crash.mqtt_pair import PahoPair
from tests.patience import PATIENCE_SECONDS
from tests.ports import free_ports

UNDER_WAY = 4
HA_ALL = ("set_policy", "ha", "^mqtt-subscription-", '{"ha-mode": "all"}')


class ExactlyOnceNode(ClusteredNode):
    """A node with QoS 2."""

    queue_type = "classic"

    def __init__(self, directory, name):
        (self.mqtt_port,) = free_ports(1)
        environment = {
            "LEVERET_MQTT_LISTENERS_TCP": f"127.0.0.1:{self.mqtt_port}",
            "LEVERET_MQTT_QOS2": "exactly_once",
            "LEVERET_MQTT_DURABLE_QUEUE_TYPE": self.queue_type,
        }
        super().__init__(directory, name, environment=environment)


class QuorumNode(ExactlyOnceNode):
    """A node whose sessions are in quorum queues."""

    queue_type = "quorum"


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("kind", "role", "step"),
    [
        (QuorumNode, "publisher", "Received PUBREC"),
        (ExactlyOnceNode, "subscriber", "Received PUBLISH"),
    ],
)
def test_sessions_continue_on_another_node(tmp_path, kind, role, step):
    nodes = form(tmp_path, "a", "b", "c", kind=kind)
    one, other, _ = nodes
    pair = PahoPair("moving", MQTTv5, MQTTv311)
    try:
        if kind is ExactlyOnceNode:
            one.ctl(*HA_ALL)
        pair.connect(one.mqtt_port)
        pair.subscribe()
        pair.publish(UNDER_WAY)
        pair.wait()
        killed = threading.Event()
        pair.at(role, step, partial(kill, one, killed))
        pair.publish(UNDER_WAY)
        assert killed.wait(PATIENCE_SECONDS)
        pair.connect(other.mqtt_port)
        pair.wait()
        pair.publish(UNDER_WAY)
        pair.wait()
    finally:
        pair.end()
        for node in nodes:
            node.stop(signal.SIGKILL)


def kill(node, killed):
    """Kill a node, and report it."""
    node.stop(signal.SIGKILL)
    killed.set()
