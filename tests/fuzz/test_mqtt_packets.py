"""MQTT packets that are cut, altered or out of place: the connection goes on, or it is closed.

No error of the broker's own is behind it, and no other client is affected.
"""

import asyncio
import logging

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from leveret.broker.protocols.mqtt import packets
from leveret.broker.protocols.mqtt.packet_input import PacketInput
from leveret.broker.protocols.mqtt.properties import (
    CONTENT_TYPE,
    CORRELATION_DATA,
    MESSAGE_EXPIRY_INTERVAL,
    RESPONSE_TOPIC,
    SUBSCRIPTION_IDENTIFIER,
    TOPIC_ALIAS,
    USER_PROPERTY,
    MalformedPacket,
    decode_properties,
    encode_each,
    encode_properties,
    encode_text,
)
from tests.protocol.mqtt_peer import MqttNode, packet, publish

PROPERTIES = {
    CONTENT_TYPE: "text/plain", CORRELATION_DATA: b"\1\xff", MESSAGE_EXPIRY_INTERVAL: 60,
    RESPONSE_TOPIC: "answers/x", USER_PROPERTY: [("a", "b"), ("a", "c"), ("CC", "x")],
}  # fmt: skip
SUBSCRIPTION = encode_properties({SUBSCRIPTION_IDENTIFIER: [300]})
PACKETS = [
    publish("a/b", b"payload"),
    publish("a/b", b"payload", qos=1),
    publish("a/b", b"x" * 200, qos=1, properties=PROPERTIES, level=5),
    publish("a/b", b"x", properties={TOPIC_ALIAS: 3}, level=5),
    publish("", b"x", properties={TOPIC_ALIAS: 3}, level=5),
    publish("a/b", b"payload", qos=2, packet_id=9),
    publish("a/b", b"kept", qos=1, retain=True),
    packet(0x40, b"\0\1"),
    packet(0x40, b"\0\1\x80\0"),
    packet(0x62, b"\0\1"),
    packet(0x82, b"\0\1" + encode_text("a/#") + b"\1" + encode_text("b") + b"\0"),
    packet(0x82, b"\0\1" + SUBSCRIPTION + encode_text("a/+") + b"\x0d"),
    packet(0xA2, b"\0\1" + encode_text("a/#")),
    packet(0xA2, b"\0\1\0" + encode_text("a/#")),
    packet(0xC0),
    packet(0xE0),
    packet(0xE0, b"\4" + encode_properties({})),
    packet(0xF0, b"\x18\0"),
    packet(0x10, encode_text("MQTT") + b"\4\2\0\0" + encode_text("again")),
]


def taken(pieces):
    """The packets in bytes that come in pieces: first byte and body."""
    reader, found = PacketInput(1000), []
    for piece in pieces:
        reader.add(piece)
        while reader.take():
            found.append((reader.first, reader.data[reader.begin : reader.end]))
    return found


@given(st.lists(st.sampled_from(PACKETS), max_size=6), st.data())
def test_packets_are_the_same_in_any_pieces(sent, data):
    every = b"".join(sent)
    cuts = sorted(data.draw(st.sets(st.integers(0, len(every)), max_size=8)))
    pieces = [every[a:b] for a, b in zip([0, *cuts], [*cuts, len(every)], strict=True)]
    assert taken(filter(None, pieces)) == taken([every] if every else [])


@given(st.binary(max_size=40))
def test_any_bytes_are_packets_or_malformed(data):
    for read in (packets.read_connect, packets.read_packet_id):
        try:
            read(data, 0, len(data))
        except MalformedPacket:
            continue
    for read in (packets.read_subscribe, packets.read_unsubscribe, packets.read_disconnect):
        for level in (4, 5):
            try:
                read(data, 0, len(data), level)
            except MalformedPacket:
                continue


@given(st.binary(max_size=60))
def test_properties_that_can_be_read_are_written_the_same(data):
    try:
        properties = decode_properties(data, 0, len(data))
    except MalformedPacket:
        return
    written = encode_each(properties)
    assert decode_properties(written, 0, len(written)) == properties


@pytest.mark.parametrize("level", [4, 5])
async def test_no_bytes_of_a_client_cause_an_error_of_the_broker(level, caplog):
    caplog.set_level(logging.ERROR)
    async with MqttNode() as node:
        other = await node.connect().connected("other")
        await other.subscribe("untouched", qos=1)

        async def send(data):
            client = await node.connect().connected("fuzzed", level=level)
            client.send(data)
            await asyncio.sleep(0)
            client.lose()

        @settings(max_examples=150, suppress_health_check=list(HealthCheck), deadline=None)
        @given(
            st.lists(st.sampled_from(PACKETS), min_size=1, max_size=4),
            st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255)), max_size=3),
            st.integers(0, 400),
        )
        def collect(sent, changes, size):
            altered = bytearray(b"".join(sent))
            for place, octet in changes:
                altered[place % len(altered)] = octet
            collected.append(bytes(altered[: size or None]))

        collected = []
        collect()
        for data in collected:
            await send(data)
        other.publish("untouched", b"fine", qos=1)
        assert [one.payload for one in await other.delivered()] == [b"fine"]
    assert "could not be handled" not in caplog.text
    assert "Traceback" not in caplog.text
