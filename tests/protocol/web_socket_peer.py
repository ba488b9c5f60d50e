"""A WebSocket of a client without a socket: what it sends, and the frames that it gets."""

from typing import NamedTuple

from leveret.broker.protocols.websockets.frames import BINARY
from tests.protocol.socketless import Socket

MASK = b"\x37\xfa\x21\x3d"


class Message(NamedTuple):
    """A frame that the broker sent."""

    opcode: int
    payload: bytes


class WebSocketSocket(Socket):
    """A transport that knows whether it is read, and closes at once."""

    def is_reading(self):
        return self.is_read

    def get_extra_info(self, name, _default=None):
        return super().get_extra_info(name)


class WebSocketPeer:
    """A client of a served protocol over WebSockets."""

    def __init__(self, protocol):
        self.socket = WebSocketSocket()
        self.web_socket = protocol.make_connection()
        self.web_socket.connection_made(self.socket)

    async def written(self):
        """The bytes that the broker has written since the last call."""
        return await self.socket.take_written()

    async def open(self, subprotocol=None, **headers):
        self.web_socket.data_received(request(subprotocol=subprotocol, **headers))
        answer = await self.written()
        assert answer.startswith(b"HTTP/1.1 101 ")
        return self

    def send(self, payload, opcode=BINARY):
        self.web_socket.data_received(masked_frame(opcode, payload))

    async def messages(self):
        """The frames that the broker has sent since the last call."""
        data, found = await self.written(), []
        while data:
            size, begin = data[1], 2
            if size == 126:
                size, begin = int.from_bytes(data[2:4], "big"), 4
            elif size == 127:
                size, begin = int.from_bytes(data[2:10], "big"), 10
            found.append(Message(data[0] & 15, data[begin : begin + size]))
            data = data[begin + size :]
        return found

    def disconnect(self):
        self.web_socket.connection_lost(None)


def request(
    path="/ws", method="GET", version="13", key="AAAAAAAAAAAAAAAAAAAAAA==", subprotocol=None,
    extensions=None, authorization=None,
):  # fmt: skip
    """A request for an opening."""
    lines = [
        f"{method} {path} HTTP/1.1", "Host: localhost", "Upgrade: websocket",
        "Connection: keep-alive, Upgrade", f"Sec-WebSocket-Version: {version}",
        f"Sec-WebSocket-Key: {key}",
    ]  # fmt: skip
    if subprotocol is not None:
        lines.append(f"Sec-WebSocket-Protocol: {subprotocol}")
    if extensions is not None:
        lines.append(f"Sec-WebSocket-Extensions: {extensions}")
    if authorization is not None:
        lines.append(f"Authorization: {authorization}")
    return "\r\n".join([*lines, "", ""]).encode()


def deflated_frame(opcode, payload, is_final=True):
    """A frame of a client, with the mark of a compressed message."""
    frame = masked_frame(opcode, payload, is_final)
    return bytes([frame[0] | 0x40]) + frame[1:]


def masked_frame(opcode, payload, is_final=True):
    """A frame of a client."""
    mask = MASK
    size = len(payload)
    head = bytes([(0x80 if is_final else 0) | opcode])
    if size < 126:
        head += bytes([0x80 | size])
    elif size < 1 << 16:
        head += bytes([0x80 | 126]) + size.to_bytes(2, "big")
    else:
        head += bytes([0x80 | 127]) + size.to_bytes(8, "big")
    key = (mask * (size // 4 + 1))[:size]
    number = int.from_bytes(payload, "big") ^ int.from_bytes(key, "big")
    return head + mask + number.to_bytes(size, "big")
