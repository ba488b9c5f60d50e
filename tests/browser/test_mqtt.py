"""The page of MQTT: the queues of sessions, and retained messages."""

import pytest
from paho.mqtt import client as mqtt

from tests.patience import PATIENCE_SECONDS


@pytest.fixture
def client(node, vhost):
    """A client with a persistent session."""
    client = mqtt.Client(
        mqtt.CallbackAPIVersion.VERSION2, client_id="thermometer", clean_session=False
    )
    client.username_pw_set(f"{vhost}:guest", "guest")
    client.connect("127.0.0.1", node.mqtt_port)
    client.loop_start()
    yield client
    client.disconnect()
    client.loop_stop()


def test_sessions_and_retained_messages(browser, node, vhost, client):
    client.subscribe("a/#", qos=1)
    sent = client.publish("kitchen/temperature", b"21.5", qos=1, retain=True)
    sent.wait_for_publish(PATIENCE_SECONDS)
    browser.go("admin", "mqtt")
    browser.see_title("MQTT")
    browser.see_in(browser.panel("Queues of sessions"), "mqtt-subscription-thermometerqos1")
    browser.see_in(browser.panel("Retained messages"), "kitchen/temperature")
    browser.press("Show kitchen/temperature")
    browser.see("21.5")
    browser.press("Close")
    browser.press("Remove kitchen/temperature")
    browser.confirm("Remove")
    browser.see("Retained message removed")
    assert node.get(f"mqtt/retained/{vhost}")["items"] == []
