"""A connection of MQTT that has ended is freed at once, with all that it held."""

import asyncio
import gc
import weakref

import pytest

from leveret.broker.protocols.mqtt.properties import RECEIVE_MAXIMUM
from leveret.broker.runtime.loop_watch import CHECK_SECONDS
from tests.patience import PATIENCE_SECONDS
from tests.protocol.mqtt_peer import MqttNode


@pytest.fixture
async def node():
    async with MqttNode(shared_subscriptions=True) as node:
        gc.collect()
        gc.disable()
        yield node
        gc.enable()


async def freed(reference):
    """Wait until the connection is freed. The watch of the event loop remembers slow turns."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while reference() is not None:
            await asyncio.sleep(CHECK_SECONDS)


async def used(node, level, **options):
    """A client that has used everything."""
    client = await node.connect().connected(f"c{level}", level, keep_alive=60, **options)
    await client.subscribe("a/#", ("b", 0), "$share/g/c", qos=1)
    for qos in (0, 1):
        client.publish("a/b", b"m", qos=qos, retain=True)
    client.publish("nobody", b"m", qos=1)
    await client.delivered()
    await client.unsubscribe("b")
    return client


@pytest.mark.parametrize("level", [4, 5])
@pytest.mark.parametrize("clean", [True, False])
async def test_a_lost_client(node, level, clean):
    client = await used(node, level, clean=clean, will=("gone", b"lost", 8))
    reference = weakref.ref(client.connection)
    client.lose()
    del client.connection
    await freed(reference)


async def test_a_client_that_has_not_acknowledged_retained_messages(node):
    client = await used(node, 4)
    client.publish("a/c", b"m", qos=1, retain=True)
    receiver = await node.connect().connected("r", 5, properties={RECEIVE_MAXIMUM: 1})
    await receiver.subscribe("a/b", "a/c", qos=1)
    assert len(await receiver.delivered()) == 1
    reference = weakref.ref(receiver.connection)
    receiver.lose()
    del receiver.connection
    await freed(reference)


async def test_a_client_that_is_refused(node):
    client = node.connect()
    await client.connect(password="wrong")
    reference = weakref.ref(client.connection)
    client.lose()
    del client.connection
    await freed(reference)


async def test_a_client_whose_place_is_taken(node):
    client = await used(node, 5)
    reference = weakref.ref(client.connection)
    other = await used(node, 5)
    assert await client.closed_with() == 0x8E
    del client.connection
    await freed(reference)
    assert not other.socket.is_closed
