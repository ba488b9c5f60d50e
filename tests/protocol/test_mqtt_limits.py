"""MQTT: limits of what waits for a client, and of what it may have under way."""

from leveret.broker.protocols.mqtt import codes
from leveret.broker.protocols.mqtt.properties import RECEIVE_MAXIMUM, read_properties
from tests.protocol.mqtt_peer import MqttNode, packet, publish


async def payloads_after_congestion(node, **subscriber):
    """What a client gets that did not read while 300 messages of QoS 0 were published."""
    client = await node.connect().connected("slow", **subscriber)
    await client.subscribe("t")
    publisher = await node.connect().connected("publisher")
    client.connection.pause_writing()
    publisher.send(b"".join(publish("t", b"%d" % number) for number in range(300)))
    assert await client.delivered() == []
    client.connection.resume_writing()
    return [int(one.payload) for one in await client.delivered()]


async def test_a_client_that_does_not_read_gets_the_newest_messages_later():
    async with MqttNode(mailbox_soft_limit=100) as node:
        assert await payloads_after_congestion(node) == list(range(200, 300))


async def test_a_limit_of_0_is_none():
    async with MqttNode(mailbox_soft_limit=0) as node:
        assert await payloads_after_congestion(node) == list(range(300))


async def test_a_session_that_stays_keeps_all_messages():
    async with MqttNode(mailbox_soft_limit=100) as node:
        assert await payloads_after_congestion(node, clean=False) == list(range(300))


async def test_a_client_that_reads_gets_all_messages():
    async with MqttNode(mailbox_soft_limit=100) as node:
        client = await node.connect().connected()
        await client.subscribe("t")
        client.connection.pause_writing()
        client.connection.resume_writing()
        client.send(b"".join(publish("t", b"%d" % number) for number in range(300)))
        assert [int(one.payload) for one in await client.delivered()] == list(range(300))


async def test_a_client_has_at_most_the_receive_maximum_unanswered():
    async with MqttNode(receive_maximum=3) as node:
        client = node.connect()
        client.level = 5
        body = b"\0\4MQTT\5\xc2\0\0\0\0\6client\0\5guest\0\5guest"
        client.send(packet(0x10, body))
        answer = await client.answer(codes.CONNACK)
        told, _ = read_properties(answer.body, 2, len(answer.body))
        assert told[RECEIVE_MAXIMUM] == 3
        # Those of one read are answered together.
        for _ in range(2):
            for packet_id in (1, 2, 3):
                client.publish("t", qos=1, packet_id=packet_id)
            assert [packet_id for packet_id, _ in await client.acked()] == [1, 2, 3]
        sent = [publish("t", qos=1, packet_id=number, level=5) for number in range(1, 5)]
        client.send(b"".join(sent))
        assert await client.closed_with() == codes.RECEIVE_MAXIMUM_EXCEEDED


async def test_messages_of_qos_0_and_clients_of_311_have_no_receive_maximum():
    async with MqttNode(receive_maximum=3) as node:
        client = await node.connect().connected(level=5)
        client.send(b"".join(publish("t", qos=0, level=5) for _ in range(10)))
        old = await node.connect().connected("old")
        old.send(b"".join(publish("t", qos=1, packet_id=number) for number in range(1, 11)))
        assert await old.acked() == list(range(1, 11))
        assert not client.socket.is_closed
