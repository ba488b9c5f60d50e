"""MQTT and STOMP over WebSockets: closes, control frames, limits of time, pauses."""

import gc
import weakref
import zlib

import pytest

from leveret.broker.config.web_socket_settings import WebStompSettings
from leveret.broker.protocols.websockets.deflating import deflate
from leveret.broker.protocols.websockets.frames import BINARY, CLOSE, PING, PONG, TEXT
from leveret.broker.protocols.websockets.web_protocols import (
    web_mqtt_protocol,
    web_stomp_protocol,
)
from leveret.broker.runtime.virtual_clock import VirtualClock
from tests.protocol.stomp_peer import StompNode, frame, frames_of
from tests.protocol.web_socket_peer import Message, WebSocketPeer, deflated_frame

CONNECT = frame("CONNECT", accept_version="1.2", login="guest", passcode="guest", host="/")
MQTT_CONNECT = b"\x10\x0d\0\x04MQTT\x04\x02\0\0\0\x01c"


class WebNode(StompNode):
    """A broker, and clients of it over WebSockets."""

    def stomp(self):
        return WebSocketPeer(web_stomp_protocol(self.broker.services, self.broker.connections))

    def mqtt(self):
        return WebSocketPeer(web_mqtt_protocol(self.broker.services, self.broker.connections))


@pytest.fixture
def clock():
    return VirtualClock()


@pytest.fixture
async def node(clock):
    async with WebNode(clock) as node:
        yield node


async def connected(node):
    client = await node.stomp().open("v12.stomp")
    client.send(CONNECT, TEXT)
    (answer,) = await client.messages()
    assert answer.payload.startswith(b"CONNECTED\n")
    return client


def close_of(message):
    assert message.opcode == CLOSE
    return int.from_bytes(message.payload[:2], "big"), message.payload[2:].decode()


async def test_stomp_in_text_frames(node):
    client = await connected(node)
    (connection,) = node.broker.connections
    assert connection.protocol == "Web STOMP 1.2"
    client.send(frame("SUBSCRIBE", destination="/queue/q", id="0")[:10])
    client.send(frame("SUBSCRIBE", destination="/queue/q", id="0")[10:])
    client.send(frame("SEND", "é", destination="/queue/q"))
    (got,) = await client.messages()
    assert got.opcode == TEXT
    assert frames_of(got.payload)[0].body == "é"


async def test_a_body_that_is_no_text_comes_in_a_binary_frame(node):
    client = await connected(node)
    client.send(frame("SUBSCRIBE", destination="/queue/q", id="0"))
    client.send(b"SEND\ndestination:/queue/q\ncontent-length:1\n\n\xff\0")
    (got,) = await client.messages()
    assert got.opcode == BINARY


async def test_all_frames_are_binary_if_configured(clock):
    async with WebNode(clock, web_stomp=WebStompSettings(frames="binary")) as node:
        client = await node.stomp().open()
        client.send(CONNECT)
        assert [one.opcode for one in await client.messages()] == [BINARY]


async def test_messages_are_compressed_if_both_sides_want_it(clock):
    async with WebNode(clock, web_stomp=WebStompSettings(compresses=True)) as node:
        client = await node.stomp().open(extensions="permessage-deflate")
        sent = CONNECT + frame("SUBSCRIBE", destination="/queue/q", id="0")
        sent += frame("SEND", 1000 * "x", destination="/queue/q")
        client.web_socket.data_received(deflated_frame(TEXT, deflate(sent)))
        data = await client.written()
    assert 1000 * b"x" not in data
    # The largest frame is the last one: 126 says that its size has two bytes.
    head = data.rindex(bytes((0xC1, 126))) if bytes((0xC1, 126)) in data else data.rindex(b"\xc1")
    payload = data[head + (4 if data[head + 1] == 126 else 2) :]
    inflated = zlib.decompressobj(-15).decompress(payload + b"\0\0\xff\xff")
    assert frames_of(inflated)[-1].body == 1000 * "x"


class TestHttpAuthentication:
    """The request for the WebSocket has the user, whatever CONNECT has."""

    @pytest.fixture
    async def node(self, clock):
        async with WebNode(clock, web_stomp=WebStompSettings(uses_http_auth=True)) as node:
            yield node

    async def answer(self, node, authorization):
        client = await node.stomp().open(authorization=authorization)
        client.send(frame("CONNECT", accept_version="1.2", login="nobody", passcode="x"))
        return await client.messages()

    @pytest.mark.parametrize("authorization", ["Basic Z3Vlc3Q6Z3Vlc3Q=", None])
    async def test_the_user_of_the_request_or_the_default_user_is_logged_in(
        self, node, authorization
    ):
        (answer,) = await self.answer(node, authorization)
        assert answer.payload.startswith(b"CONNECTED\n")
        (connection,) = node.broker.connections
        assert connection.user.name == "guest"

    async def test_a_wrong_password_of_the_request(self, node, clock):
        assert await self.answer(node, "Basic Z3Vlc3Q6d3Jvbmc=") == []
        (connection,) = node.broker.connections
        assert not connection.is_logged_in


async def test_disconnect_closes_the_web_socket(node):
    client = await connected(node)
    client.send(frame("DISCONNECT", receipt="bye"))
    receipt, close = await client.messages()
    assert receipt.payload.startswith(b"RECEIPT\n")
    assert close_of(close) == (1000, "STOMP died")
    assert not client.socket.is_closed
    client.send(b"\x03\xe8", CLOSE)
    assert client.socket.is_closed


async def test_a_client_that_does_not_answer_a_close(node, clock):
    client = await connected(node)
    client.send(frame("DISCONNECT"))
    await client.messages()
    clock.advance(10)
    assert client.socket.is_closed


async def test_a_client_closes_the_web_socket(node):
    client = await connected(node)
    client.send(b"\x03\xe9going away", CLOSE)
    (close,) = await client.messages()
    assert close_of(close) == (1001, "")
    assert client.socket.is_closed


async def test_pings_are_answered_unless_the_client_does_not_read(node):
    client = await connected(node)
    client.send(b"abc", PING)
    assert await client.messages() == [Message(PONG, b"abc")]
    client.web_socket.pause_writing()
    for number in range(100):
        client.send(str(number).encode(), PING)
    assert await client.messages() == []
    client.web_socket.resume_writing()
    assert await client.messages() == [Message(PONG, b"99")]


async def test_a_refused_frame_closes(node):
    client = await node.mqtt().open("mqtt")
    client.send(b"hello", TEXT)
    (close,) = await client.messages()
    assert close_of(close) == (1003, "unexpected WebSocket frame")
    assert client.socket.is_closed


async def test_bytes_that_are_not_mqtt(node):
    client = await node.mqtt().open("mqtt")
    client.send(b"hello")
    (close,) = await client.messages()
    assert close_of(close) == (1002, "cannot_parse")


async def test_mqtt_over_web_sockets_takes_over_a_client_id(node):
    first, second = await node.mqtt().open("mqtt"), await node.mqtt().open("mqtt")
    first.send(MQTT_CONNECT)
    assert (await first.messages())[0].payload == b"\x20\x02\0\0"
    second.send(MQTT_CONNECT)
    assert close_of((await first.messages())[-1]) == (1000, "MQTT died")
    second.send(b"\xe0\0")
    assert close_of((await second.messages())[-1]) == (1000, "MQTT died")


async def test_a_client_that_opens_nothing(node, clock):
    client = node.stomp()
    client.web_socket.data_received(b"GET /ws HTTP/1.1\r\n")
    clock.advance(10)
    assert client.socket.is_closed


async def test_a_client_that_does_not_log_in(node, clock):
    client = await node.stomp().open()
    clock.advance(10)
    (close,) = await client.messages()
    assert close_of(close) == (1000, "STOMP died")


async def test_an_idle_client_is_closed(node, clock):
    client = await connected(node)
    clock.advance(59)
    client.send(b"", PING)
    clock.advance(59)
    assert not client.socket.is_closed
    clock.advance(1)
    assert client.socket.is_closed


async def test_pauses_reach_both_sides(node):
    client = await connected(node)
    (connection,) = node.broker.connections
    connection.reading.pause_for_input()
    assert not client.socket.is_read
    connection.reading.resume_after_input()
    assert client.socket.is_read
    client.web_socket.pause_writing()
    assert connection.output.is_congested
    client.web_socket.resume_writing()
    assert not connection.output.is_congested


async def test_a_closed_web_socket_is_freed_at_once(node):
    client = await connected(node)
    client.send(frame("SUBSCRIBE", destination="/queue/q", id="0"))
    await client.messages()
    gc.collect()
    gc.disable()
    try:
        seen = weakref.ref(next(iter(node.broker.connections)))
        client.disconnect()
        await client.messages()
        assert seen() is None
    finally:
        gc.enable()
