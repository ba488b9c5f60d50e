"""QoS 2 of MQTT with paho-mqtt, while the node is killed with `kill -9` at each step."""

import threading

import pytest
from paho.mqtt.client import MQTTv5, MQTTv311

from tests.crash.killed_node import Node
from tests.crash.mqtt_pair import STEPS, PahoPair
from tests.patience import PATIENCE_SECONDS
from tests.ports import free_port

UNDER_WAY = 5
"""Messages that are published with the one whose handshake is broken."""


@pytest.mark.timeout(300)
def test_a_kill_at_each_step_neither_loses_nor_doubles(tmp_path):
    port = free_port()
    node = Node(
        tmp_path / "data", LEVERET_MQTT_LISTENERS_TCP=f"127.0.0.1:{port}",
        LEVERET_MQTT_QOS2="exactly_once",
    )  # fmt: skip
    assert node.start()
    pairs = [PahoPair("old", MQTTv311, MQTTv5), PahoPair("new", MQTTv5, MQTTv311)]
    try:
        for pair in pairs:
            pair.connect(port)
            pair.subscribe()
        for place, (role, step) in enumerate(STEPS):
            pair = pairs[place % 2]
            killed = threading.Event()
            pair.at(role, step, lambda event=killed: (node.kill(), event.set()))
            for one in pairs:
                one.publish(UNDER_WAY)
            assert killed.wait(PATIENCE_SECONDS), step
            assert node.start()
            for one in pairs:
                one.connect(port)
                one.wait()
    finally:
        for pair in pairs:
            pair.end()
        node.kill()
