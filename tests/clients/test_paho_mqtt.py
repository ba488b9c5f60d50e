"""paho-mqtt, and aiomqtt above it: the clients that most programs in Python use."""

import asyncio
import queue

import pytest

pytest.importorskip("paho.mqtt", reason="the extra [test] is not fully installed")

import aiomqtt
import paho.mqtt.client as paho
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from leveret.broker.config import Config, Listener, MqttSettings, TcpSettings
from leveret.broker.node.broker import Broker
from leveret.broker.plugins.own_plugins import MQTT
from tests.patience import PATIENCE_SECONDS

HOST = "127.0.0.1"


@pytest.fixture
async def port():
    config = Config(
        tcp=TcpSettings(listeners=()),
        mqtt=MqttSettings(listeners=(Listener(HOST, 0),)),
        plugins=(MQTT,),
    )
    broker = Broker(config)
    await broker.start()
    yield broker.listeners.of("mqtt")[0].port
    await broker.stop()


def talk(port, protocol):
    """Publish with both qualities of service, and return what comes back."""
    received, subscribed = queue.Queue(), queue.Queue()
    client = paho.Client(paho.CallbackAPIVersion.VERSION2, "paho", protocol=protocol)
    client.username_pw_set("guest", "guest")
    client.on_message = lambda _client, _data, message: received.put(message)
    client.on_subscribe = lambda *_: subscribed.put(True)
    client.connect(HOST, port)
    client.loop_start()
    try:
        client.subscribe("a/+/c", qos=1)
        subscribed.get(timeout=PATIENCE_SECONDS)
        for qos in (0, 1):
            client.publish("a/b/c", f"QoS {qos}", qos=qos).wait_for_publish(PATIENCE_SECONDS)
        return [received.get(timeout=PATIENCE_SECONDS) for _ in range(2)]
    finally:
        client.disconnect()
        client.loop_stop()


@pytest.mark.parametrize("protocol", [paho.MQTTv31, paho.MQTTv311, paho.MQTTv5])
async def test_every_version(port, protocol):
    messages = await asyncio.to_thread(talk, port, protocol)
    found = [(one.topic, one.payload, one.qos) for one in messages]
    assert found == [("a/b/c", b"QoS 0", 0), ("a/b/c", b"QoS 1", 1)]


async def test_a_request_and_its_response_with_aiomqtt(port):
    login = {
        "username": "guest", "password": "guest", "protocol": aiomqtt.ProtocolVersion.V5,
        "timeout": PATIENCE_SECONDS,
    }  # fmt: skip
    properties = Properties(PacketTypes.PUBLISH)
    properties.ResponseTopic, properties.CorrelationData = "answers/1", b"\xff\1"
    async with (
        aiomqtt.Client(HOST, port, **login) as server,
        aiomqtt.Client(HOST, port, **login) as client,
        asyncio.timeout(PATIENCE_SECONDS),
    ):
        await server.subscribe("questions", qos=1)
        await client.subscribe("answers/#", qos=1)
        await client.publish("questions", "?", qos=1, properties=properties)
        question = await anext(aiter(server.messages))
        assert question.properties.CorrelationData == b"\xff\1"
        await server.publish(question.properties.ResponseTopic, "!", qos=1)
        answer = await anext(aiter(client.messages))
        assert (str(answer.topic), answer.payload) == ("answers/1", b"!")
