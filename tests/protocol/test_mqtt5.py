"""MQTT 5.0: properties, options of subscriptions, limits, reason codes, shared subscriptions."""

from itertools import chain

import pytest

from leveret.broker.protocols.mqtt import codes
from leveret.broker.protocols.mqtt.properties import (
    AUTHENTICATION_METHOD,
    CONTENT_TYPE,
    CORRELATION_DATA,
    MAXIMUM_PACKET_SIZE,
    MESSAGE_EXPIRY_INTERVAL,
    RECEIVE_MAXIMUM,
    RESPONSE_TOPIC,
    SESSION_EXPIRY_INTERVAL,
    SUBSCRIPTION_IDENTIFIER,
    TOPIC_ALIAS,
    USER_PROPERTY,
    WILL_DELAY_INTERVAL,
)
from leveret.broker.runtime.virtual_clock import VirtualClock
from tests.protocol.mqtt_peer import MqttNode, packet

NO_LOCAL, RETAIN_AS_PUBLISHED, DO_NOT_SEND_RETAINED = 4, 8, 0x20


@pytest.fixture
def clock():
    return VirtualClock()


@pytest.fixture
async def node(clock):
    async with MqttNode(clock) as node:
        yield node


async def pair(node, *filters, **options):
    """A subscriber and a publisher."""
    subscriber = await node.connect().connected("subscriber", level=5, **options)
    await subscriber.subscribe(*filters, qos=1)
    return subscriber, await node.connect().connected("publisher", level=5)


def payloads(deliveries):
    return [one.payload for one in deliveries]


async def test_properties_reach_subscribers_as_they_were_sent(node):
    subscriber, publisher = await pair(node, "t")
    properties = {
        CONTENT_TYPE: "text/plain", CORRELATION_DATA: b"\1\xff", RESPONSE_TOPIC: "a/b.c",
        USER_PROPERTY: [("k", "1"), ("k", "2"), ("CC", "x")],
    }  # fmt: skip
    publisher.publish("t", b"m", qos=1, properties=properties)
    (delivery,) = await subscriber.delivered()
    assert delivery.properties == properties


async def test_the_expiry_interval_shrinks_while_a_message_waits(node, clock):
    lasting = {SESSION_EXPIRY_INTERVAL: 60}
    subscriber, publisher = await pair(node, "t", properties=lasting)
    subscriber.lose()
    for interval in (2, 30):
        publisher.publish("t", b"%d" % interval, qos=1,
                          properties={MESSAGE_EXPIRY_INTERVAL: interval})  # fmt: skip
    clock.advance(5)
    again = await node.connect().connected("subscriber", 5, clean=False, properties=lasting)
    (delivery,) = await again.delivered()
    assert delivery.payload == b"30"
    assert delivery.properties == {MESSAGE_EXPIRY_INTERVAL: 25}


async def test_identifiers_of_all_matching_filters_come_with_one_copy(node):
    subscriber, publisher = await pair(node, "other")
    for number, topic_filter in ((300, "a/#"), (2, "a/+")):
        await subscriber.subscribe(
            topic_filter, qos=1, properties={SUBSCRIPTION_IDENTIFIER: [number]}
        )
    publisher.publish("a/b", b"m", qos=1)
    (delivery,) = await subscriber.delivered()
    assert delivery.properties == {SUBSCRIPTION_IDENTIFIER: [2, 300]}


async def test_options_survive_with_the_session(node):
    lasting = {SESSION_EXPIRY_INTERVAL: 60}
    subscriber, publisher = await pair(
        node, ("kept", 1 | RETAIN_AS_PUBLISHED), ("own", 1 | NO_LOCAL), properties=lasting
    )
    subscriber.lose()
    again = await node.connect().connected("subscriber", 5, clean=False, properties=lasting)
    again.publish("own", b"not back", qos=1)
    publisher.publish("own", b"another's", qos=1)
    publisher.publish("kept", b"flagged", qos=1, retain=True)
    found = await again.delivered()
    assert [(one.payload, one.retain) for one in found] == [
        (b"another's", False), (b"flagged", True)
    ]  # fmt: skip


async def test_a_filter_may_ask_for_no_retained_messages(node):
    subscriber, publisher = await pair(node, "x")
    publisher.publish("t", b"kept", qos=1, retain=True)
    await publisher.packets()
    await subscriber.subscribe(("t", 1 | DO_NOT_SEND_RETAINED))
    assert await subscriber.delivered() == []


async def test_topic_aliases(node):
    subscriber, publisher = await pair(node, "#")
    publisher.publish("a", b"1", qos=1, properties={TOPIC_ALIAS: 1})
    publisher.publish("", b"2", qos=1, properties={TOPIC_ALIAS: 1})
    publisher.publish("b", b"3", qos=1, properties={TOPIC_ALIAS: 1})
    publisher.publish("", b"4", qos=1, properties={TOPIC_ALIAS: 1})
    found = [(one.topic, one.payload, one.properties) for one in await subscriber.delivered()]
    assert found == [("a", b"1", {}), ("a", b"2", {}), ("b", b"3", {}), ("b", b"4", {})]
    publisher.publish("", b"?", qos=1, properties={TOPIC_ALIAS: 2})
    assert await publisher.closed_with() == codes.PROTOCOL_ERROR


async def test_a_client_gets_what_it_can_take(node):
    limits = {RECEIVE_MAXIMUM: 2, MAXIMUM_PACKET_SIZE: 100}
    subscriber, publisher = await pair(node, "t", properties=limits)
    for payload in (b"1", b"x" * 200, b"2", b"3"):
        publisher.publish("t", payload, qos=1)
    first = await subscriber.delivered()
    assert payloads(first) == [b"1", b"2"]
    subscriber.ack(first[0].packet_id)
    assert payloads(await subscriber.delivered()) == [b"3"]


async def test_a_publisher_learns_that_nobody_subscribes(node):
    subscriber, publisher = await pair(node, "t")
    publisher.publish("t", qos=1, packet_id=1)
    publisher.publish("nobody", qos=1, packet_id=2)
    publisher.publish("t", qos=1, packet_id=3)
    assert await publisher.acked() == [(1, 0), (2, codes.NO_MATCHING_SUBSCRIBERS), (3, 0)]
    assert len(await subscriber.delivered()) == 2


async def test_a_will_waits_unless_its_client_comes_back(node, clock):
    watcher, _ = await pair(node, "gone")
    options = {"properties": {SESSION_EXPIRY_INTERVAL: 60}, "clean": False}
    will = ("gone", b"lost", 8, {WILL_DELAY_INTERVAL: 10})
    client = await node.connect().connected("client", 5, will=will, **options)
    client.lose()
    clock.advance(5)
    again = await node.connect().connected("client", 5, will=will, **options)
    clock.advance(20)
    assert await watcher.delivered() == []
    again.lose()
    await watcher.packets()
    clock.advance(11)
    assert payloads(await watcher.delivered()) == [b"lost"]


async def test_refusals(node):
    will = ("t", b"m", 0x10)
    method = {AUTHENTICATION_METHOD: "SCRAM"}
    assert await node.connect().connect(level=5, properties=method) == (0x8C, False)
    assert await node.connect().connect(level=5, will=will) == (codes.QOS_NOT_SUPPORTED, False)
    assert await node.connect().connect(level=5, password="wrong") == (0x86, False)
    assert await node.connect().connect(level=4, password="wrong") == (4, False)
    assert await node.connect().connect(level=4, user="none:guest") == (4, False)
    assert await node.connect().connect(level=4, client_id="", clean=False) == (2, False)
    client = await node.connect().connected(level=5)
    client.publish("t", qos=2)
    assert await client.closed_with() == codes.QOS_NOT_SUPPORTED
    client = await node.connect().connected(level=5)
    client.send(packet(0xE0, b"\0\5\x11\0\0\0\x09"))
    assert await client.closed_with() == codes.PROTOCOL_ERROR


async def test_packets_above_the_limits():
    limits = {"max_packet_size_unauthenticated": 60, "max_packet_size_authenticated": 90}
    async with MqttNode(**limits) as node:
        client = node.connect()
        client.send(packet(0x10, b"x" * 60)[:3])
        assert await client.closed_with() is None
        client = await node.connect().connected("c", level=5)
        client.publish("t", b"x" * 90)
        assert await client.closed_with() == codes.PACKET_TOO_LARGE


async def test_clients_of_a_group_share_messages():
    async with MqttNode(shared_subscriptions=True) as node:
        lasting = {SESSION_EXPIRY_INTERVAL: 60}
        first = await node.connect().connected("first", level=5, properties=lasting)
        second = await node.connect().connected("second", level=5, properties=lasting)
        for client in (first, second):
            assert await client.subscribe("$share/g/t/+", qos=1) == [1]
        assert await first.subscribe("$share//t") == [codes.TOPIC_FILTER_INVALID]
        publisher = await node.connect().connected("publisher")
        for number in range(6):
            publisher.publish("t/x", b"%d" % number, qos=1, packet_id=number + 1)
        shares = [payloads(await client.delivered()) for client in (first, second)]
        assert all(shares)
        assert sorted(chain(*shares)) == [b"%d" % number for number in range(6)]
        for client in (first, second):
            client.lose()
        publisher.publish("t/x", b"later", qos=1)
        again = await node.connect().connected("first", 5, clean=False, properties=lasting)
        assert b"later" in payloads(await again.delivered())
        assert await again.unsubscribe("$share/g/t/+") == [0]
