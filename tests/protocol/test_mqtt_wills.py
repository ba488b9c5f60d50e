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


class TestMessageExpiry:
    """The message expiry interval of a will begins when it is published."""

    LIFETIME = {MESSAGE_EXPIRY_INTERVAL: 5}

    async def test_a_subscriber_is_told_what_is_left_of_it(self, node, clock):
        watcher = await node.connect().connected("watcher", level=5)
        await watcher.subscribe("gone", qos=1)
        await lose_client(node, QOS_1, self.LIFETIME)
        clock.advance(10)
        (found,) = await watcher.delivered()
        assert found.properties == self.LIFETIME

    async def test_it_expires_in_a_queue_after_it(self, node, clock):
        client = await node.connect().connected("away", 5, False, properties=LASTING)
        await client.subscribe("gone", qos=1)
        client.lose()
        await client.packets()
        await lose_client(node, QOS_1, self.LIFETIME)
        for passed_s, waiting in ((10, 1), (4, 1), (2, 0)):
            clock.advance(passed_s)
            await client.packets()
            assert node.queue("mqtt-subscription-awayqos1").figures.counts().ready == waiting

    async def test_a_retained_one_expires_then(self, node, clock):
        await lose_client(node, QOS_1 | RETAINED, self.LIFETIME)
        clock.advance(11)
        assert [one.payload for one in await retained(node, "in time")] == [b"lost"]
        clock.advance(6)
        assert await retained(node, "too late") == []
