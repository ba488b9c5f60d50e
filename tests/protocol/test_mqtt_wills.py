"""MQTT 5.0: wills that wait, and wills that are retained."""

import pytest

from leveret.broker.protocols.mqtt.properties import (
    MESSAGE_EXPIRY_INTERVAL,
    SESSION_EXPIRY_INTERVAL,
    WILL_DELAY_INTERVAL,
)
from leveret.broker.runtime.virtual_clock import VirtualClock
from tests.protocol.mqtt_peer import Delivery, MqttNode

QOS_1, RETAINED = 8, 0x20
LASTING = {SESSION_EXPIRY_INTERVAL: 60}


@pytest.fixture
def clock():
    return VirtualClock()


@pytest.fixture
async def node(clock):
    async with MqttNode(clock) as node:
        yield node


async def lose_client(node, flags, properties=()):
    """A client is lost; its will waits for ten seconds."""
    will = ("gone", b"lost", flags, {WILL_DELAY_INTERVAL: 10, **dict(properties)})
    client = await node.connect().connected("client", 5, False, will=will, properties=LASTING)
    client.lose()
    await client.packets()


async def retained(node, name):
    client = await node.connect().connected(name)
    await client.subscribe("gone", qos=1)
    return await client.delivered()


async def test_a_delayed_will_is_retained_when_it_is_published(node, clock):
    await lose_client(node, QOS_1 | RETAINED)
    clock.advance(9)
    assert await retained(node, "early") == []
    clock.advance(2)
    assert await retained(node, "late") == [Delivery("gone", b"lost", 1, 1, retain=True)]


async def test_a_delayed_will_without_the_flag_is_not_retained(node, clock):
    await lose_client(node, QOS_1)
    clock.advance(11)
    assert await retained(node, "late") == []


async def test_the_lifetime_of_a_will_does_not_shorten_its_delay(node, clock):
    watcher = await node.connect().connected("watcher", level=5)
    await watcher.subscribe("gone", qos=1)
    await lose_client(node, QOS_1, {MESSAGE_EXPIRY_INTERVAL: 5})
    clock.advance(9)
    assert await watcher.delivered() == []
    clock.advance(2)
    assert [one.payload for one in await watcher.delivered()] == [b"lost"]
