"""A connection of the client without a socket: a test says what the server sends."""

import asyncio

from pamqp import base, commands

from leveret.broker.amqp.content import content_frames
from leveret.broker.amqp.frames import (
    METHOD,
    PROTOCOL_HEADER,
    FrameScanner,
    FrameSink,
)
from leveret.broker.amqp.methods import decode_method, encode_method, method_frame
from leveret.broker.moving.client.address import ServerAddress
from leveret.broker.moving.client.connection import ClientConnection
from leveret.broker.runtime.virtual_clock import VirtualClock

ADDRESS = ServerAddress("rabbit.example", user="ann", password="secret", vhost="burrow")
START = {
    "version_major": 0, "version_minor": 9, "server_properties": {"product": ("S", "a fake")},
    "mechanisms": "PLAIN AMQPLAIN", "locales": "en_US",
}  # fmt: skip
ROUNDS = 4
"""Of the event loop: a task begins in one, what it wrote goes out in the next."""
TUNE = {"channel_max": 2047, "frame_max": 131_072, "heartbeat": 60}


class Socket:
    """A transport: what was written, and how it has ended."""

    def __init__(self, connection):
        self._connection = connection
        self.unread, self.ended, self.is_read = bytearray(), "", True

    def get_extra_info(self, name):
        return {"sockname": ("127.0.0.1", 1234), "peername": ("127.0.0.1", 5672)}.get(name)

    def set_write_buffer_limits(self, high, low):
        pass

    def write(self, data):
        assert not self.ended
        self.unread += data

    def writelines(self, pieces):
        for piece in pieces:
            self.write(piece)

    def pause_reading(self):
        self.is_read = False

    def resume_reading(self):
        self.is_read = True

    def close(self):
        self.ended = self.ended or "closed"

    def abort(self):
        self.ended = "aborted"


class Frames(FrameSink):
    """The frames that a client has written: methods, and the payloads of contents."""

    def __init__(self):
        self.frames = []

    def on_publish(self, channel, arguments, properties, bodies, body_bytes):
        method = decode_method(b"\0\x3c\0\x28" + arguments)
        self.frames += [
            (channel, method, *content) for content in zip(properties, bodies, strict=True)
        ]

    def on_ack(self, channel, delivery_tags, multiple):
        self.frames += [(channel, commands.Basic.Ack(tag, bool(multiple))) for tag in delivery_tags]

    def on_frame(self, kind, channel, payload):
        content = decode_method(payload) if kind == METHOD else (kind, payload)
        self.frames.append((channel, content))


class Server:
    """A server that says what a test tells it to. connection: of the client to it."""

    def __init__(self, address=ADDRESS, on_blocked=None, connection=None):
        self.clock = VirtualClock()
        properties = {"product": ("S", "a test")}
        self.connection = connection or ClientConnection(
            address, properties, self.clock, on_blocked
        )
        self.socket = Socket(self.connection)
        self.connection.connection_made(self.socket)
        assert self.socket.unread == PROTOCOL_HEADER
        self.socket.unread.clear()
        self._frames = Frames()
        self._scanner = FrameScanner(self._frames, 0)

    def send(self, channel, method, **arguments):
        self.send_bytes(method_frame(channel, method, **arguments))

    def send_bytes(self, data):
        self.connection.data_received(bytes(data))

    async def received(self):
        """Return and forget what the client has written, in this round and what follows from it."""
        for _ in range(ROUNDS):
            await asyncio.sleep(0)
        self._scanner.add(bytes(self.socket.unread))
        self._scanner.scan()
        self.socket.unread.clear()
        frames, self._frames.frames = self._frames.frames, []
        return frames

    async def received_method(self):
        """Return the only method that the client has written."""
        ((_, method),) = await self.received()
        assert isinstance(method, base.Frame)
        return method

    def start(self, **changes):
        self.send(0, commands.Connection.Start, **(START | changes))

    async def tune(self, **changes):
        self.start()
        await self.received()
        self.send(0, commands.Connection.Tune, **(TUNE | changes))

    async def open(self, **changes):
        """Complete the handshake; returns this server."""
        await self.tune(**changes)
        await self.received()
        self.send(0, commands.Connection.OpenOk)
        assert self.connection.is_open
        return self

    async def open_channel(self):
        opening = asyncio.ensure_future(self.connection.open_channel())
        ((number, method),) = await self.received()
        assert isinstance(method, commands.Channel.Open)
        self.send(number, commands.Channel.OpenOk)
        return await opening

    async def consume(self, channel, take, tag="tag"):
        consuming = asyncio.ensure_future(channel.consume("queue", take))
        assert isinstance(await self.received_method(), commands.Basic.Consume)
        self.send(channel.number, commands.Basic.ConsumeOk, consumer_tag=tag)
        assert await consuming == tag


def delivery(channel, consumer_tag, tag, body=b"body", **more):
    """Return the frames of a delivery."""
    properties = more.pop("properties", b"\0\0")
    frame_bytes_max = more.pop("frame_bytes_max", 0)
    arguments = {"exchange": "", "routing_key": "key", "redelivered": False} | more
    method = encode_method(
        commands.Basic.Deliver, consumer_tag=consumer_tag, delivery_tag=tag, **arguments
    )
    return b"".join(content_frames(channel, method, properties, body, frame_bytes_max))
