"""Interceptors of messages in all protocols: RabbitMQ 4.2's, by settings, and one that fails."""

import asyncio

import pytest
from pamqp import commands

from leveret.broker.amqp.errors import internal_error
from leveret.broker.amqp10.values import Value
from leveret.broker.config import Config, TcpSettings
from leveret.broker.config.interceptor_settings import InterceptorSettings
from leveret.broker.node.broker import Broker
from leveret.broker.protocols.mqtt import codes
from leveret.broker.protocols.mqtt.mqtt_protocol import mqtt_protocol
from leveret.broker.protocols.mqtt.properties import USER_PROPERTY
from leveret.broker.runtime.virtual_clock import VirtualClock
from tests.protocol.amqp10_peer import Amqp10Peer
from tests.protocol.mqtt_peer import MqttPeer
from tests.protocol.socketless import Client
from tests.protocol.stomp_peer import StompPeer

OFF = InterceptorSettings()
ALL = InterceptorSettings(
    overwrites_timestamp=False, overwrites_routing_node=False, sets_sent_time=True,
    sets_mqtt_client_id=True,
)  # fmt: skip


TURNS = 12
"""More turns of the loop than any answer takes here."""


async def turns():
    for _ in range(TURNS):
        await asyncio.sleep(0)


class Node:
    """A broker with clients of several protocols. now_ms: the time, which stands still."""

    def __init__(self, interceptors):
        config = Config(tcp=TcpSettings(listeners=()), interceptors=interceptors, compat="4.0")
        clock = VirtualClock()
        self.now_ms = int(clock.wall_time_s() * 1000)
        self.name = config.node_name
        self.broker = Broker(config, clock=clock)
        self.ports = iter(range(20_000, 30_000))

    async def __aenter__(self):
        await self.broker.start()
        self.protocol = mqtt_protocol(self.broker.services, self.broker.connections)
        return self

    async def __aexit__(self, *_exception):
        for connection in tuple(self.broker.connections):
            connection.connection_lost(None)
        await self.broker.stop()

    async def amqp10(self):
        peer = await Amqp10Peer(self.broker).open()
        return await peer.begin()

    async def mqtt(self, level=5):
        return await MqttPeer(self).connected("thermometer", level=level)

    def ready_count(self):
        """The messages in queue `q` that no client holds."""
        return self.broker.services.vhosts["/"].queues["q"].backing.ready_count

    async def stomp(self):
        return await StompPeer(self.broker).connect()

    def fail(self):
        """Have an interceptor of outgoing messages fail, as that of a plugin does."""

        def intercept(_message):
            raise internal_error("an interceptor of plugin p failed")

        self.broker.services.outgoing_interceptors = (intercept,)


@pytest.fixture
async def start():
    nodes = []

    async def start_node(interceptors=ALL):
        node = Node(interceptors)
        nodes.append(node)
        return await node.__aenter__()

    yield start_node
    for node in nodes:
        await node.__aexit__()


async def test_clients_of_stomp_see_annotations_as_headers(start):
    node = await start()
    client = await node.stomp()
    await client.subscribe("/queue/q")
    (message,) = await client.call("SEND", "1", destination="/queue/q")
    now_ms = node.now_ms
    assert {
        "timestamp_in_ms": str(now_ms), "timestamp": str(now_ms // 1000), "x-routed-by": node.name,
        "x-opt-rabbitmq-sent-time": str(now_ms),
    }.items() <= message.headers.items()  # fmt: skip


@pytest.mark.parametrize("overwrites", [True, False])
async def test_headers_of_the_publisher_are_overwritten_by_setting(start, overwrites):
    node = await start(InterceptorSettings(overwrites, overwrites))
    client = await node.stomp()
    await client.subscribe("/queue/q")
    own = {"timestamp_in_ms": "1", "x-routed-by": "another", "timestamp": "1"}
    lines = "".join(f"{name}:{value}\n" for name, value in own.items())
    client.send_bytes(f"SEND\ndestination:/queue/q\n{lines}\n1\0".encode())
    (message,) = await client.frames()
    now_ms = node.now_ms
    mine = {
        "timestamp_in_ms": str(now_ms), "x-routed-by": node.name, "timestamp": str(now_ms // 1000),
    }  # fmt: skip
    assert (mine if overwrites else own).items() <= message.headers.items()


async def test_clients_of_mqtt_do_not_see_annotations(start):
    node = await start()
    client = await node.mqtt()
    await client.subscribe("t")
    client.publish("t", b"20", properties={USER_PROPERTY: [("unit", "kelvin")]})
    stomp = await node.stomp()
    await stomp.call("SEND", "21", destination="/topic/t", unit="celsius")
    own, other = await client.delivered()
    assert own.properties == {USER_PROPERTY: [("unit", "kelvin")]}
    assert other.properties == {USER_PROPERTY: [("unit", "celsius")]}


@pytest.mark.parametrize("level", [4, 5])
async def test_others_see_the_identifier_of_a_client_of_mqtt(start, level):
    node = await start()
    client = await node.stomp()
    await client.subscribe("/topic/t")
    sensor = await node.mqtt(level)
    sensor.publish("t", b"20")
    (message,) = await client.frames()
    assert message.headers["x-opt-mqtt-client-id"] == "thermometer"


async def test_a_message_of_amqp_1_0_keeps_its_form(start):
    node = await start()
    client = await node.amqp10()
    await client.publisher("/queue/q", 9)
    own = [(Value("symbol", "x-own"), Value("uint", 7))]
    properties = {"message-id": Value("ulong", 5)}
    await client.publish("1", 9, message_annotations=own, properties=properties)
    await client.consumer("/queue/q")
    ((_, message),) = await client.received()
    assert message.properties == properties
    assert {
        "x-own": Value("uint", 7),
        "x-opt-rabbitmq-received-time": Value("timestamp", node.now_ms),
        "x-opt-rabbitmq-sent-time": Value("long", node.now_ms),
        "x-routed-by": Value("string", node.name),
    }.items() <= annotations(message).items()


async def test_clients_of_amqp_1_0_see_annotations_of_messages_of_others(start):
    node = await start()
    stomp = await node.stomp()
    await stomp.call("SEND", "1", destination="/queue/q")
    client = await node.amqp10()
    await client.consumer("/queue/q")
    ((_, message),) = await client.received()
    assert {
        "x-opt-rabbitmq-received-time": Value("timestamp", node.now_ms),
        "x-routed-by": Value("string", node.name),
    }.items() <= annotations(message).items()
    assert message.application_properties == []


def annotations(message):
    return {key.value: value for key, value in message.message_annotations}


class TestFailures:
    """The client does not get the message as it was: its connection ends, the message stays."""

    @pytest.fixture
    async def node(self, start):
        node = await start(OFF)
        stomp = await node.stomp()
        await stomp.call("SEND", "secret", destination="/queue/q")
        stomp.disconnect()
        node.fail()
        return node

    async def test_of_stomp(self, node):
        client = await node.stomp()
        (error,) = await client.subscribe("/queue/q", ack="client")
        assert error.body == "CONNECTION_FORCED - an interceptor of plugin p failed"
        assert client.is_closed
        assert node.ready_count() == 1

    async def test_of_amqp_1_0(self, node):
        client = await node.amqp10()
        await client.consumer("/queue/q")
        frames = await client.frames()
        assert [one.performative.error.description for one in frames] == [
            "an interceptor of plugin p failed"
        ]
        assert node.ready_count() == 1

    async def test_of_amqp_0_9_1(self, node):
        client = Client(node.broker)
        client.send_method(commands.Basic.Consume, queue="q")
        client.be_read()
        await turns()
        assert b"CONNECTION_FORCED - an interceptor of plugin p failed" in client.socket.written
        assert b"secret" not in client.socket.written
        assert node.ready_count() == 1

    @pytest.mark.parametrize("qos", [0, 1])
    async def test_of_mqtt(self, node, qos):
        client = await node.mqtt()
        await client.subscribe("t", qos=qos)
        client.publish("t", b"secret")
        assert await client.closed_with() == codes.ADMINISTRATIVE_ACTION
        assert b"secret" not in client.socket.written
