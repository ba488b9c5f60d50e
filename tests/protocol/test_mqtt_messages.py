"""MQTT: messages of QoS 0 and 1, sessions, wills, retained messages."""

import pytest

from leveret.broker.protocols.mqtt import codes
from leveret.broker.registry.declaration_log import NotTaken
from leveret.broker.runtime.pending import Answer
from leveret.broker.runtime.virtual_clock import VirtualClock
from tests.protocol.mqtt_peer import Delivery, MqttNode, packet, publish


@pytest.fixture
def clock():
    return VirtualClock()


@pytest.fixture
async def node(clock):
    async with MqttNode(clock) as node:
        yield node


async def test_a_message_goes_from_one_client_to_another(node):
    subscriber = await node.connect().connected("subscriber")
    publisher = await node.connect().connected("publisher")
    assert await subscriber.subscribe("a/+", qos=1) == [1]
    publisher.publish("a/b", b"kept", qos=1, packet_id=7)
    publisher.publish("a/b", b"fast", qos=0)
    assert await publisher.acked() == [7]
    assert await subscriber.delivered() == [
        Delivery("a/b", b"kept", 1, 1),
        Delivery("a/b", b"fast"),
    ]


async def test_many_messages_in_one_read_and_in_single_bytes(node):
    subscriber = await node.connect().connected("subscriber")
    publisher = await node.connect().connected("publisher")
    await subscriber.subscribe("#", qos=0)
    sent = [publish(f"t/{number % 3}", b"%d" % number, qos=1, packet_id=number)
            for number in range(1, 40)]  # fmt: skip
    publisher.send(b"".join(sent))
    for octet in publish("t/last", b"x" * 300, qos=1, packet_id=40):
        publisher.send(bytes((octet,)))
    assert await publisher.acked() == list(range(1, 41))
    payloads = [one.payload for one in await subscriber.delivered()]
    assert payloads == [b"%d" % number for number in range(1, 40)] + [b"x" * 300]


async def test_a_client_gets_no_more_than_the_prefetch_count(node):
    client = await node.connect().connected()
    await client.subscribe("t", qos=1)
    for number in range(12):
        client.publish("t", b"%d" % number, qos=1, packet_id=number + 1)
    first = await client.delivered()
    assert [one.packet_id for one in first] == list(range(1, 11))
    client.ack(1)
    client.ack(2)
    assert [one.payload for one in await client.delivered()] == [b"10", b"11"]


async def test_a_session_that_stays_keeps_its_messages(node):
    client = await node.connect().connected("client", clean=False)
    publisher = await node.connect().connected("publisher")
    await client.subscribe("t", qos=1)
    publisher.publish("t", b"one", qos=1)
    assert await client.delivered() == [Delivery("t", b"one", 1, 1)]
    client.lose()
    publisher.publish("t", b"two", qos=1)
    again = node.connect()
    assert await again.connect("client", clean=False) == (0, True)
    assert await again.delivered() == [
        Delivery("t", b"one", 1, 1, is_repeated=True),
        Delivery("t", b"two", 1, 2),
    ]
    again.lose()
    assert await node.connect().connect("client", clean=True) == (0, False)


async def test_a_lost_client_leaves_its_will(node):
    watcher = await node.connect().connected("watcher")
    await watcher.subscribe("gone", qos=1)
    client = await node.connect().connected("client", will=("gone", b"lost", 8))
    client.lose()
    assert await watcher.delivered() == [Delivery("gone", b"lost", 1, 1)]


async def test_a_client_that_is_silent_is_disconnected(node, clock):
    watcher = await node.connect().connected("watcher")
    await watcher.subscribe("gone")
    client = await node.connect().connected(
        "client", level=5, keep_alive=10, will=("gone", b"late", 0)
    )
    clock.advance(14)
    client.send(b"\xc0\0")
    clock.advance(14)
    assert not client.socket.is_closed
    clock.advance(3)
    assert await client.closed_with() == 0x8D
    assert [one.payload for one in await watcher.delivered()] == [b"late"]


async def test_silence_is_noticed_after_other_clients_were_lost(node, clock):
    lost = await node.connect().connected("lost", keep_alive=2)
    silent = await node.connect().connected("silent", keep_alive=10)
    lost.lose()
    del lost
    clock.advance(16)
    assert silent.socket.is_closed


async def test_a_retained_message_reaches_later_subscribers(node):
    publisher = await node.connect().connected("publisher")
    publisher.publish("kept", b"last", qos=1, retain=True)
    assert await publisher.acked() == [1]
    client = await node.connect().connected()
    await client.subscribe("kept", qos=1)
    assert await client.delivered() == [Delivery("kept", b"last", 1, 1, retain=True)]
    publisher.publish("kept", b"", qos=1, retain=True)
    await publisher.packets()
    later = await node.connect().connected("later")
    await later.subscribe("kept", qos=1)
    assert await later.delivered() == []


async def test_nothing_is_retained_for_the_empty_topic_nor_removed_by_it(node, caplog):
    publisher = await node.connect().connected("publisher")
    publisher.publish("kept", b"last", qos=1, retain=True)
    publisher.publish("", b"nowhere", qos=1, packet_id=2, retain=True)
    publisher.publish("", b"", qos=1, packet_id=3, retain=True)
    assert await publisher.acked() == [1, 2, 3]
    client = await node.connect().connected()
    await client.subscribe("kept", qos=1)
    assert [one.topic for one in await client.delivered()] == ["kept"]
    assert "could not be handled" not in caplog.text


async def test_a_second_client_takes_the_place_of_the_first(node):
    first = await node.connect().connected("same", level=5)
    await first.subscribe("t", qos=1)
    second = await node.connect().connected("same", level=5)
    assert await first.closed_with() == 0x8E
    await second.subscribe("t", qos=1)
    second.publish("t", b"mine", qos=1)
    assert [one.payload for one in await second.delivered()] == [b"mine"]


async def test_unsubscribing_ends_deliveries(node):
    client = await node.connect().connected(level=5)
    await client.subscribe("a", "b")
    assert await client.unsubscribe("a", "none") == [0, 0x11]
    client.publish("a", b"no")
    client.publish("b", b"yes")
    assert [one.payload for one in await client.delivered()] == [b"yes"]


async def test_very_many_filters_in_one_packet(node):
    client = await node.connect().connected("client", clean=False)
    filters = [f"many/{number}" for number in range(2000)]
    assert await client.subscribe(*filters, qos=1) == [1] * 2000
    client.publish("many/1999", b"m", qos=1)
    assert len(await client.delivered()) == 1
    client.lose()
    again = await node.connect().connected("client", level=5, clean=False)
    assert await again.unsubscribe(*filters[:1999]) == [0] * 1999
    for topic in ("many/0", "many/1999"):
        again.publish(topic, b"after", qos=1)
    assert [one.topic for one in await again.delivered() if one.payload == b"after"] == [
        "many/1999"
    ]


async def test_the_queues_of_a_session_that_stays_may_be_quorum_queues():
    async with MqttNode(is_lone=True, durable_queue_type="quorum") as node:
        client = await node.connect().connected("client", clean=False)
        assert await client.subscribe("a", qos=1) == [1]
        assert await client.subscribe("b", qos=0) == [0]
        queues = client.connection.vhost.queues
        kinds = [queues[f"mqtt-subscription-clientqos{qos}"].kind.name for qos in (1, 0)]
        assert kinds == ["quorum", "classic"]
        publisher = await node.connect().connected("publisher")
        publisher.publish("a", b"one", qos=1)
        publisher.publish("a", b"two", qos=1)
        assert await publisher.acked() == [1, 1]
        first, _ = await client.delivered()
        client.ack(first.packet_id)
        await client.packets()
        client.lose()
        again = node.connect()
        assert await again.connect("client", clean=False) == (0, True)
        assert await again.delivered() == [Delivery("a", b"two", 1, 1, is_repeated=True)]


async def test_the_namespaces_of_sparkplug_keep_their_dot():
    async with MqttNode(sparkplug=True) as node:
        client = await node.connect().connected()
        await client.subscribe("spBv1.0/plant/#", "other/#", qos=1)
        for topic in ("spBv1.0/plant/NDATA/x", "other/a.b"):
            client.publish(topic, qos=1)
        assert [one.topic for one in await client.delivered()] == [
            "spBv1.0/plant/NDATA/x", "other/a/b"
        ]  # fmt: skip


async def test_a_node_whose_cluster_takes_no_changes_refuses_without_an_error_of_the_program(
    node, monkeypatch, caplog
):
    client = await node.connect().connected(level=5)
    refused = Answer()
    refused.refuse(NotTaken("the node is not a running member of its cluster"))
    monkeypatch.setattr(node.broker.services.declarations, "submit", lambda *_, **__: refused)
    client.send(packet(0x82, b"\0\1\0\0\1t\1"))
    assert await client.closed_with() == codes.UNSPECIFIED_ERROR
    assert "Traceback" not in caplog.text
