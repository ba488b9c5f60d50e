"""Clients of MQTT, STOMP and AMQP 1.0 that use a delayed message exchange."""

import asyncio

import pytest
from pamqp import commands

from leveret.broker.amqp10.values import Value
from leveret.broker.protocols.mqtt.properties import USER_PROPERTY
from leveret.broker.runtime.virtual_clock import VirtualClock
from tests.protocol.amqp10_peer import Amqp10Peer, text
from tests.protocol.mqtt_peer import MqttNode
from tests.protocol.socketless import Client
from tests.protocol.stomp_peer import StompPeer

TURNS = 20


async def turns():
    for _ in range(TURNS):
        await asyncio.sleep(0)


@pytest.fixture(params=["classic", "quorum"])
async def node(request):
    """A node whose clients of MQTT use the exchange `later`; a queue `q` is bound to it."""
    async with MqttNode(VirtualClock(), is_lone=True, exchange="later") as made:
        client = Client(made.broker)
        arguments = {
            "x-delayed-type": ("S", "topic"), "x-delayed-queue-type": ("S", request.param)
        }  # fmt: skip
        client.send_method(
            commands.Exchange.Declare, exchange="later", exchange_type="x-delayed-message",
            durable=True, arguments=arguments,
        )  # fmt: skip
        client.send_method(commands.Queue.Declare, queue="q", durable=True)
        client.send_method(commands.Queue.Bind, queue="q", exchange="later", routing_key="#")
        while not client.is_done:
            client.be_read()
            await turns()
        yield made


async def ready_after(node, seconds):
    node.broker.services.clock.advance(seconds)
    await turns()
    return node.broker.services.vhosts["/"].queues["q"].backing.ready_count


async def test_a_client_of_stomp(node):
    client = await StompPeer(node.broker).connect()
    await client.subscribe("/exchange/later/#")
    await client.call("SEND", "1", destination="/exchange/later/k", **{"x-delay": "1000"})
    assert await ready_after(node, 0.999) == 0
    assert await ready_after(node, 0.001) == 1
    (message,) = await client.frames()
    assert (message.body, message.headers["x-delay"]) == ("1", "-1000")


async def test_a_client_of_mqtt_5(node):
    client = await node.connect().connected("sensor", level=5)
    await client.subscribe("k")
    client.publish("k", b"1", properties={USER_PROPERTY: [("x-delay", "1000")]})
    await turns()
    assert await ready_after(node, 0.999) == 0
    assert await ready_after(node, 0.001) == 1
    (message,) = await client.delivered()
    assert message.payload == b"1"


@pytest.mark.parametrize(
    "sections",
    [
        {"message_annotations": [(Value("symbol", "x-delay"), Value("uint", 1000))]},
        {"application_properties": [(text("x-delay"), Value("int", 1000))]},
    ],
)
async def test_a_client_of_amqp_1_0(node, sections):
    client = await Amqp10Peer(node.broker).open()
    await client.begin()
    await client.publisher("/exchanges/later/k", 9)
    await client.publish("1", 9, **sections)
    assert await ready_after(node, 0.999) == 0
    assert await ready_after(node, 0.001) == 1
    await client.consumer("/queues/q")
    ((_, message),) = await client.received()
    assert message.data == b"1"
