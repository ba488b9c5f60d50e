"""Frames of STOMP that are cut, altered or out of place, with and without a WebSocket around them.

Whatever a client sends, its connection goes on, gets ERROR or is closed; no error of the broker's
own is behind it, and no more is kept than the limits allow.
"""

import asyncio

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from leveret.broker.protocols.stomp.frames import FrameScanner, MalformedFrame
from leveret.broker.protocols.websockets.frames import BINARY, ClientFrames, FrameRefused
from tests.protocol.socketless import TURNS
from tests.protocol.stomp_peer import StompNode, frame
from tests.protocol.web_socket_peer import masked_frame

FRAMES = [
    frame("SEND", "m", destination="/queue/q"),
    frame("SEND", "m", destination="/topic/a", receipt="r", priority="5", persistent="true"),
    frame("SEND", "m", destination="/exchange/amq.direct/k", reply_to="/temp-queue/x"),
    b"SEND\ndestination:/queue/q\ncontent-length:3\n\na\0b\0",
    frame("SUBSCRIBE", destination="/queue/q", id="0", ack="client", prefetch_count="2"),
    frame("SUBSCRIBE", destination="/topic/a.*", id="1", durable="true", auto_delete="false"),
    frame("ACK", id="T_0@@session@@1"),
    frame("NACK", id="T_0@@session@@1", requeue="false"),
    frame("UNSUBSCRIBE", id="0"),
    frame("BEGIN", transaction="t"),
    frame("SEND", "m", destination="/queue/q", transaction="t"),
    frame("COMMIT", transaction="t"),
    frame("ABORT", transaction="t"),
    frame("CONNECT", accept_version="1.2", heart_beat="1,1"),
    b"\r\n\n\0",
]
BYTES_MAX = 2_000

changes = st.lists(st.tuples(st.integers(0, 120), st.integers(0, 255)), max_size=6)
fuzzed = settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))


def altered(place, altering, rest):
    data = bytearray(FRAMES[place] + rest)
    for at, value in altering:
        data[at % len(data)] = value
    return bytes(data)


@pytest.fixture
async def node():
    async with StompNode() as node:
        yield node


async def survives(node, caplog, data, size):
    client = await node.client()
    for at in range(0, len(data), size):
        client.send_bytes(data[at : at + size])
    for _ in range(TURNS):
        await asyncio.sleep(0)
    client.disconnect()
    assert "has failed" not in caplog.text


async def test_each_frame_cut_at_each_byte(node, caplog):
    for one in FRAMES:
        for size in range(len(one)):
            await survives(node, caplog, one[:size] + FRAMES[0], 10_000)


@fuzzed
@given(
    place=st.integers(0, len(FRAMES) - 1),
    altering=changes,
    rest=st.binary(max_size=30),
    size=st.integers(1, 200),
)
async def test_altered_frames(node, caplog, place, altering, rest, size):
    await survives(node, caplog, altered(place, altering, rest) + FRAMES[0], size)


@fuzzed
@given(data=st.binary(max_size=400), size=st.integers(1, 400), limit=st.integers(1, BYTES_MAX))
def test_any_bytes_give_the_same_frames_in_any_pieces(data, size, limit):
    def scan(size):
        scanner = FrameScanner(limit)
        found = []
        try:
            for at in range(0, len(data), size):
                scanner.add(data[at : at + size])
                while scanner.take():
                    found.append((scanner.head.command, scanner.head.headers, scanner.body))
        except MalformedFrame:
            found.append("malformed")
        return found

    whole, pieces = scan(len(data) or 1), scan(size)
    # A frame may be refused before it is complete, or not be refused because it never is.
    shorter = min(len(whole), len(pieces))
    assert whole[: shorter - 1] == pieces[: shorter - 1]


@fuzzed
@given(payloads=st.lists(st.binary(max_size=300), max_size=5), size=st.integers(1, 50))
def test_the_payload_of_web_sockets_in_any_pieces(payloads, size):
    data = b"".join(masked_frame(BINARY, payload) for payload in payloads)
    frames = ClientFrames(None, True)
    found = [frames.add(data[at : at + size]) for at in range(0, len(data), size)]
    assert b"".join(found) == b"".join(payloads)


@fuzzed
@given(data=st.binary(max_size=400), size=st.integers(1, 400))
def test_any_bytes_of_a_web_socket(data, size):
    frames = ClientFrames(1000, False)
    codes = set()
    try:
        for at in range(0, len(data), size):
            assert len(frames.add(data[at : at + size])) <= size
            frames.take_control()
    except FrameRefused as refused:
        codes.add(refused.code)
    assert codes <= {1002, 1009}
