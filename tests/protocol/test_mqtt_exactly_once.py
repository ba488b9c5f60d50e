"""QoS 2 of MQTT, packet by packet: what the broker answers, and what it keeps."""

import pytest

from leveret.broker.protocols.mqtt import codes
from leveret.broker.protocols.mqtt.properties import RECEIVE_MAXIMUM, SESSION_EXPIRY_INTERVAL
from tests.protocol.mqtt_peer import MqttNode, packet

STAYS = {SESSION_EXPIRY_INTERVAL: 3600}


@pytest.fixture
async def node():
    async with MqttNode(qos2="exactly_once") as node:
        yield node


def send(peer, kind, packet_id, code=None):
    """Send PUBREC, PUBREL or PUBCOMP."""
    first = kind << 4 | (2 if kind == codes.PUBREL else 0)
    peer.send(packet(first, packet_id.to_bytes(2) + (b"" if code is None else bytes((code,)))))


async def answers(peer):
    """Type, packet identifier and code of the acknowledgements since the last call."""
    kinds = (codes.PUBACK, codes.PUBREC, codes.PUBREL, codes.PUBCOMP)
    return [
        (one.kind, int.from_bytes(one.body[:2]), one.body[2] if len(one.body) > 2 else 0)
        for one in await peer.packets()
        if one.kind in kinds
    ]


async def stays(node, client_id="sensor", level=codes.LEVEL_5):
    """A client with a persistent session."""
    properties = STAYS if level == codes.LEVEL_5 else None
    peer = node.connect()
    code, is_present = await peer.connect(client_id, level, clean=False, properties=properties)
    assert code == codes.SUCCESS
    return peer, is_present


@pytest.mark.parametrize("level", [codes.LEVEL_311, codes.LEVEL_5])
@pytest.mark.parametrize("clean", [True, False])
async def test_both_handshakes(node, level, clean):
    options = {"level": level, "clean": clean}
    if not clean and level == codes.LEVEL_5:
        options["properties"] = STAYS
    subscriber = await node.connect().connected("subscriber", **options)
    publisher = await node.connect().connected("publisher", **options)
    assert await subscriber.subscribe("a", qos=2) == [2]
    publisher.publish("a", b"once", qos=2, packet_id=7)
    assert await answers(publisher) == [(codes.PUBREC, 7, 0)]
    (message,) = await subscriber.delivered()
    assert (message.topic, message.payload, message.qos) == ("a", b"once", 2)
    send(publisher, codes.PUBREL, 7)
    assert await answers(publisher) == [(codes.PUBCOMP, 7, 0)]
    send(subscriber, codes.PUBREC, message.packet_id)
    assert await answers(subscriber) == [(codes.PUBREL, message.packet_id, 0)]
    send(subscriber, codes.PUBCOMP, message.packet_id)
    assert await subscriber.packets() == []


async def test_a_repeated_publish_is_not_handed_over_again(node):
    subscriber = await node.connect().connected("subscriber")
    await subscriber.subscribe("a", qos=2)
    publisher, _ = await stays(node)
    publisher.publish("a", b"once", qos=2, packet_id=7)
    assert await answers(publisher) == [(codes.PUBREC, 7, 0)]
    publisher.lose()
    publisher, is_present = await stays(node)
    assert is_present
    publisher.publish("a", b"once", qos=2, packet_id=7)
    assert await answers(publisher) == [(codes.PUBREC, 7, 0)]
    assert len(await subscriber.delivered()) == 1
    send(publisher, codes.PUBREL, 7)
    assert await answers(publisher) == [(codes.PUBCOMP, 7, 0)]
    publisher.publish("a", b"another", qos=2, packet_id=7)
    assert [one.payload for one in await subscriber.delivered()] == [b"another"]


async def test_a_clean_start_forgets_packet_identifiers(node):
    subscriber = await node.connect().connected("subscriber")
    await subscriber.subscribe("a", qos=2)
    publisher, _ = await stays(node)
    publisher.publish("a", b"first", qos=2, packet_id=7)
    await answers(publisher)
    publisher.lose()
    publisher = await node.connect().connected("sensor", codes.LEVEL_5, properties=STAYS)
    publisher.publish("a", b"second", qos=2, packet_id=7)
    assert [one.payload for one in await subscriber.delivered()] == [b"first", b"second"]


async def test_unknown_packet_identifiers(node):
    peer, _ = await stays(node)
    send(peer, codes.PUBREL, 9)
    assert await answers(peer) == [(codes.PUBCOMP, 9, codes.PACKET_IDENTIFIER_NOT_FOUND)]
    await peer.subscribe("a", qos=2)
    send(peer, codes.PUBREC, 9)
    assert await answers(peer) == [(codes.PUBREL, 9, codes.PACKET_IDENTIFIER_NOT_FOUND)]
    send(peer, codes.PUBCOMP, 9)
    assert await answers(peer) == []


@pytest.mark.parametrize("is_received", [False, True])
async def test_a_subscriber_that_comes_back(node, is_received):
    subscriber, _ = await stays(node, "subscriber")
    await subscriber.subscribe("a", qos=2)
    publisher = await node.connect().connected("publisher")
    publisher.publish("a", b"once", qos=2, packet_id=1)
    (first,) = await subscriber.delivered()
    if is_received:
        send(subscriber, codes.PUBREC, first.packet_id)
        await answers(subscriber)
    subscriber.lose()
    subscriber, is_present = await stays(node, "subscriber")
    assert is_present
    if is_received:
        assert await answers(subscriber) == [(codes.PUBREL, first.packet_id, 0)]
    else:
        (again,) = await subscriber.delivered()
        assert (again.packet_id, again.payload) == (first.packet_id, b"once")
        assert again.is_repeated
        send(subscriber, codes.PUBREC, first.packet_id)
        await answers(subscriber)
    send(subscriber, codes.PUBCOMP, first.packet_id)
    publisher.publish("a", b"next", qos=2, packet_id=2)
    (following,) = await subscriber.delivered()
    assert (following.payload, following.is_repeated) == (b"next", False)


async def test_messages_of_lower_qos_keep_it(node):
    subscriber = await node.connect().connected("subscriber")
    await subscriber.subscribe("a", qos=2)
    publisher = await node.connect().connected("publisher")
    for qos in (0, 1, 2):
        publisher.publish("a", bytes((qos,)), qos=qos, packet_id=1)
    found = await subscriber.delivered()
    assert sorted((one.payload, one.qos) for one in found) == [(b"\0", 0), (b"\1", 1), (b"\2", 2)]


async def test_the_receive_maximum_counts_until_pubcomp(node):
    subscriber = await node.connect().connected(
        "subscriber", codes.LEVEL_5, properties={RECEIVE_MAXIMUM: 1}
    )
    await subscriber.subscribe("a", qos=2)
    publisher = await node.connect().connected("publisher")
    for packet_id in (1, 2):
        publisher.publish("a", b"%d" % packet_id, qos=2, packet_id=packet_id)
    (first,) = await subscriber.delivered()
    send(subscriber, codes.PUBREC, first.packet_id)
    assert await subscriber.delivered() == []
    send(subscriber, codes.PUBCOMP, first.packet_id)
    assert [one.payload for one in await subscriber.delivered()] == [b"2"]


async def test_a_message_that_the_subscriber_refuses_is_done(node):
    subscriber = await node.connect().connected(
        "subscriber", codes.LEVEL_5, properties={RECEIVE_MAXIMUM: 1}
    )
    await subscriber.subscribe("a", qos=2)
    publisher = await node.connect().connected("publisher")
    for packet_id in (1, 2):
        publisher.publish("a", b"%d" % packet_id, qos=2, packet_id=packet_id)
    (first,) = await subscriber.delivered()
    send(subscriber, codes.PUBREC, first.packet_id, codes.UNSPECIFIED_ERROR)
    assert [one.payload for one in await subscriber.delivered()] == [b"2"]


async def test_a_message_without_a_subscriber(node):
    publisher = await node.connect().connected("publisher", codes.LEVEL_5)
    publisher.publish("nowhere", b"", qos=2, packet_id=3)
    assert await answers(publisher) == [(codes.PUBREC, 3, codes.NO_MATCHING_SUBSCRIBERS)]
