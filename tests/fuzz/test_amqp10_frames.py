"""Frames of AMQP 1.0 that are cut, altered, nested or lie: answered by the protocol's rules.

Whatever a client sends, the connection goes on, or its link, session or connection ends with an
error; no error of the broker's own is behind it, and no other client is affected.
"""

import asyncio
import logging
import struct

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from leveret.broker.amqp10.values import NESTING_MAX, Amqp10Error, Value, decode, encode
from leveret.broker.protocols.amqp10.frame_input import FrameError, FrameInput
from leveret.broker.protocols.amqp10.performatives import (
    RECEIVER,
    SENDER,
    Accepted,
    Attach,
    Begin,
    Close,
    Detach,
    Disposition,
    End,
    Flow,
    Modified,
    Open,
    Source,
    Target,
    Transfer,
    frame,
    read_performative,
)
from tests.protocol.amqp10_peer import Amqp10Node, bodies, encoded, frame_with, text

QUEUE = "/queue/fuzzed"
PAIRED = Value("map", [(Value("symbol", "paired"), Value("boolean", True))])
MANAGEMENT = {"source": Source("/management"), "target": Target("/management")}
ANNOTATIONS = Value("map", [(Value("symbol", "x-opt-a"), Value("ulong", 1))])
REQUEST = encoded("", properties={"to": text("/queues/fuzzed"), "subject": text("GET")})
FRAMES = [
    frame_with(Attach("in", 0, SENDER, source=Source(), target=Target(QUEUE))),
    frame_with(Attach("out", 1, RECEIVER, source=Source(QUEUE, filter=ANNOTATIONS))),
    frame_with(Attach("any", 2, SENDER, target=Target())),
    frame_with(Attach("m", 3, SENDER, 1, properties=PAIRED, **MANAGEMENT)),
    frame_with(Attach("m", 4, RECEIVER, 1, properties=PAIRED, **MANAGEMENT)),
    frame_with(Flow(None, 1000, 0, 1000, 1, 0, 10, echo=True)),
    frame_with(Flow(None, 1000, 0, 1000, 1, 0, 2**32 - 1, drain=True)),
    frame_with(Flow(None, 1000, 0, 1000, 4, 0, 10)),
    frame_with(Transfer(0, 0, b"t", 0), encoded("m", message_annotations=ANNOTATIONS.value)),
    frame_with(Transfer(0, 1, b"u", 0, more=True), encoded("m")[:4]),
    frame_with(Transfer(0, aborted=True)),
    frame_with(Transfer(2, 2, b"v", 0, True), encoded("m", properties={"to": text(QUEUE)})),
    frame_with(Transfer(3, 3, b"w", 0, True), REQUEST),
    frame_with(Disposition(RECEIVER, 0, 2**32 - 1, True, Accepted())),
    frame_with(Disposition(RECEIVER, 0, None, False, Modified(True, False, ANNOTATIONS))),
    frame_with(Detach(0, True)),
    frame_with(Begin(None, 2**32 - 1, 2**32 - 1, 0, 0), channel=63),
    frame_with(End()),
    frame_with(Open("again")),
    frame_with(Close()),
    frame(0, b""),
]


def compound(code, count, items):
    """A list, map or array with a count of its own."""
    return bytes((code,)) + struct.pack(">II", len(items) + 4, count) + items


LYING = [
    compound(0xD0, 2**32 - 1, b"\x40"),
    compound(0xD1, 3, b"\x40\x40\x40"),
    compound(0xD0, 1, b"\x40\x40\x40"),
    compound(0xF0, 2**32 - 1, b"\x40"),
    compound(0xF0, 200, b"\x70" + bytes(4)),
    compound(0xF0, 1, b"\x70" + bytes(8)),
    compound(0xF0, 1, b"\x00\x40\x00\x40\x40"),
    b"\xf0\xff\xff\xff\xff\0\0\0\1\x40",
    b"\xb0\xff\xff\xff\xffabc",
    b"\xa1\xffabc",
    b"\xc0\x00\x00",
    b"\xc1\x01\x01",
]


def nested(depth):
    """Lists within lists."""
    data = b"\x45"
    for _ in range(depth):
        data = compound(0xD0, 1, data)
    return data


@pytest.mark.parametrize("data", [*LYING, nested(NESTING_MAX + 1), b"\0" * 100_000])
def test_values_that_lie_are_refused(data):
    with pytest.raises(Amqp10Error):
        decode(data)


@given(st.binary(max_size=80))
def test_any_bytes_are_values_or_refused(data):
    try:
        value, _ = decode(data)
    except Amqp10Error:
        return
    encode(value)


@given(st.binary(max_size=80))
def test_any_bytes_are_performatives_or_refused(data):
    for begin in (b"", b"\0\x53\x12", b"\0\x53\x14", b"\0\x53\x15"):
        try:
            read_performative(begin + data)
        except Amqp10Error:
            continue


@given(st.lists(st.sampled_from(FRAMES), max_size=6), st.data())
def test_frames_are_the_same_in_any_pieces(sent, data):
    every = b"".join(sent)
    cuts = sorted(data.draw(st.sets(st.integers(0, len(every)), max_size=8)))
    pieces = [every[a:b] for a, b in zip([0, *cuts], [*cuts, len(every)], strict=True)]
    reader, found = FrameInput(10_000), []
    for piece in filter(None, pieces):
        reader.add(piece)
        while reader.take():
            found.append(reader.data[reader.begin : reader.end])
    assert found == [one[8:] for one in sent]


def test_a_frame_is_not_gathered_beyond_the_limit():
    reader = FrameInput(1000)
    reader.add(struct.pack(">IBBH", 2**31, 2, 0, 0))
    with pytest.raises(FrameError):
        reader.take()


MESSAGE = encoded(
    "m" * 20, message_annotations=ANNOTATIONS.value,
    properties={"to": text(QUEUE), "message-id": Value("ulong", 7)},
    application_properties=[(text("key"), Value("double", 1.5))],
)  # fmt: skip
BROKEN = [
    *(MESSAGE[:size] for size in range(len(MESSAGE))),
    *(b"\0\x53\x75" + lie for lie in LYING),
    *(section + nested(NESTING_MAX + 1) for section in (b"\0\x53\x77", b"\0\x53\x72")),
    *(b"\0\x53" + bytes((code,)) + LYING[0] for code in range(0x70, 0x79)),
]


async def test_messages_that_are_cut_nested_or_lie_end_at_most_their_link(caplog):
    caplog.set_level(logging.ERROR)
    async with Amqp10Node(compat="4.x") as node:
        client = await node.client()
        await client.publisher(QUEUE, 1)
        await client.consumer(QUEUE, 2, credit=1000)
        for number, broken in enumerate(BROKEN):
            await client.publisher(QUEUE, 0)
            client.send(Transfer(0, number, b"t", 0), payload=broken)
            frames = await client.frames()
            assert {type(one.performative) for one in frames} <= {Detach, Disposition, Transfer}
            client.send(Detach(0, True))
            await client.frames()
        client.delivery_id = len(BROKEN)
        await client.publish("fine", 1)
    assert "has failed" not in caplog.text
    assert "Traceback" not in caplog.text


async def test_a_client_that_leaves_no_room_gets_nothing_and_keeps_nothing(caplog):
    """Credit without a window, and windows that shrink below what was sent."""
    async with Amqp10Node(compat="4.x") as node:
        client = await node.client()
        await client.publisher(QUEUE, 1)
        await client.consumer(QUEUE, 2, credit=0)
        for number in range(20):
            await client.publish(f"{number}", 1)
        client.send(Flow(None, 0, 0, 0, 2, 0, 2**32 - 1))
        assert await client.received() == []
        client.send(Flow(None, 3, 0, 2**32 - 1, 2, 0, 2**32 - 1))
        assert bodies(await client.received()) == ["0", "1", "2"]
        client.send(Flow(2**32 - 4, 1, 0, 0, 2, 0, 5))
        assert await client.received() == []
        client.send(Flow(2**32 - 1, 2**32 - 1, 2**32 - 1, 2**32 - 1, 2, 3, 5))
        assert bodies(await client.received()) == ["3", "4", "5", "6", "7"]
        client.send(Flow(4, 2, 0, 0, 2, 2**32 - 1, 9))
        assert len(await client.received()) <= 2


async def test_no_bytes_of_a_client_cause_an_error_of_the_broker(caplog):
    caplog.set_level(logging.ERROR)
    async with Amqp10Node() as node:
        other = await node.client()
        await other.publisher("/queue/untouched")

        async def send(data):
            client = await node.client()
            client.send_bytes(data)
            await asyncio.sleep(0)
            client.disconnect()

        @settings(max_examples=200, suppress_health_check=list(HealthCheck), deadline=None)
        @given(
            st.lists(st.sampled_from([*FRAMES[:14], *FRAMES]), min_size=1, max_size=6),
            st.lists(st.tuples(st.integers(0, 600), st.integers(0, 255)), max_size=3),
            st.sampled_from([b"", *(frame(0, lie) for lie in LYING)]),
        )
        def collect(sent, changes, lie):
            altered = bytearray(b"".join(sent))
            for place, octet in changes:
                altered[place % len(altered)] = octet
            collected.append(bytes(altered) + lie)

        collected = []
        collect()
        for data in collected:
            await send(data)
        await other.publish("fine")
        await other.consumer("/queue/untouched", 1)
        assert bodies(await other.received()) == ["fine"]
    assert "has failed" not in caplog.text
    assert "could not be handled" not in caplog.text
    assert "Traceback" not in caplog.text
