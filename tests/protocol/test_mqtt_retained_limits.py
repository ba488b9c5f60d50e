"""MQTT: retained messages of QoS 1 count for the client's Receive Maximum."""

import pytest

from leveret.broker.protocols.mqtt.properties import RECEIVE_MAXIMUM
from tests.protocol.mqtt_peer import MqttNode

TOPICS = tuple(f"kept/{number}" for number in range(5))


@pytest.fixture
async def node():
    async with MqttNode() as node:
        publisher = await node.connect().connected("publisher")
        for topic in TOPICS:
            publisher.publish(topic, topic.encode(), qos=1, retain=True)
        await publisher.packets()
        yield node


def subscriber(node, receive_maximum):
    limit = {RECEIVE_MAXIMUM: receive_maximum}
    return node.connect().connected("subscriber", level=5, properties=limit)


async def test_a_client_has_at_most_its_receive_maximum(node):
    client = await subscriber(node, 2)
    await client.subscribe(*TOPICS, qos=1)
    got, ids = [], []
    while len(got) < len(TOPICS):
        found = await client.delivered()
        assert len(ids) + len(found) <= 2
        got += [one.topic for one in found]
        ids += [one.packet_id for one in found]
        assert len(set(ids)) == len(ids)
        client.ack(ids.pop(0))
    assert sorted(got) == sorted(TOPICS)


async def test_messages_of_the_queue_count_with_them(node):
    client = await subscriber(node, 2)
    await client.subscribe(TOPICS[0], "live", qos=1)
    (kept,) = await client.delivered()
    publisher = await node.connect().connected("another")
    for payload in (b"1", b"2"):
        publisher.publish("live", payload, qos=1)
    await publisher.packets()
    (first,) = await client.delivered()
    assert (first.payload, first.packet_id != kept.packet_id) == (b"1", True)
    client.ack(kept.packet_id)
    (second,) = await client.delivered()
    assert second.payload == b"2"
    # The client has two of the queue: a retained message takes the room of the first answer.
    await client.subscribe(TOPICS[1], qos=1)
    assert await client.delivered() == []
    client.ack(first.packet_id)
    assert [one.topic for one in await client.delivered()] == [TOPICS[1]]


async def test_a_client_without_a_limit_gets_all_at_once(node):
    client = await node.connect().connected("subscriber")
    await client.subscribe(*TOPICS, qos=1)
    found = await client.delivered()
    assert sorted(one.topic for one in found) == sorted(TOPICS)
    assert len({one.packet_id for one in found}) == len(TOPICS)


async def test_those_of_qos_0_do_not_count(node):
    client = await subscriber(node, 1)
    await client.subscribe(*TOPICS, qos=0)
    assert len(await client.delivered()) == len(TOPICS)
