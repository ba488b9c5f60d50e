"""A lean AMQP client for load: the handshake and methods by pamqp, messages by hand.

Methods are asked one at a time (`call`). What comes in unasked (deliveries, confirms, returns) goes
to the channel's handler. `feed` gives whole runs of deliveries to a consumer that can take them
(consumer.py), and cuts the rest into frames.
"""

import asyncio
import ssl
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Protocol
from urllib.parse import unquote, urlsplit

from pamqp import base, commands

from broker.amqp.frames import FRAME_END, HEARTBEAT, METHOD
from broker.amqp.methods import decode_method, method_frame

PROTOCOL_HEADER = b"AMQP\x00\x00\x09\x01"
HEARTBEAT_BYTES = b"\x08\x00\x00\x00\x00\x00\x00\xce"
FRAME_HEAD = 7
CLOSE_SECONDS = 5
PORT, TLS_PORT = 5672, 5671


class PerfError(Exception):
    """The broker cannot be reached, or has closed the connection; the text says why."""


class ChannelHandler(Protocol):
    """What is done with what comes in on a channel."""

    def take(self, data: bytes, start: int, end: int) -> int:
        """Take whole deliveries off the front; where what was not taken begins."""

    def on_method(self, method: base.Frame) -> None:
        """A method that nobody asked for."""

    def on_content(self, kind: int, payload: bytes) -> None:
        """A header or a body of a message that `take` did not take."""


class Connection(asyncio.Protocol):
    """One connection. is_writable: the socket takes what is written."""

    def __init__(self) -> None:
        self.handlers: dict[int, ChannelHandler] = {}
        self.is_writable = True
        self.failure: PerfError | None = None
        self.closed = asyncio.get_running_loop().create_future()
        self.on_writable: list[Callable[[], object]] = []
        self._buffer = b""
        self._waiting: dict[int, asyncio.Future[base.Frame]] = {}
        self._transport: Any = None
        self.frame_max = 131072

    # asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Connected."""
        self._transport = transport
        self._transport.set_write_buffer_limits(1024 * 1024, 256 * 1024)

    def connection_lost(self, exc: Exception | None) -> None:
        """Gone, for whatever reason."""
        self.fail(PerfError(f"the broker closed the connection: {exc or 'end of file'}"))

    def pause_writing(self) -> None:
        """The broker does not keep up."""
        self.is_writable = False

    def resume_writing(self) -> None:
        """It does again."""
        self.is_writable = True
        for callback in self.on_writable:
            callback()

    def data_received(self, data: bytes) -> None:
        """Bytes came in."""
        if self._buffer:
            data = self._buffer + data
        start, end = 0, len(data)
        try:
            while end - start > FRAME_HEAD:
                handler = self.handlers.get(data[start + 1] << 8 | data[start + 2])
                if handler is not None:
                    start = handler.take(data, start, end)
                    if end - start <= FRAME_HEAD:
                        break
                size = int.from_bytes(data[start + 3 : start + FRAME_HEAD], "big")
                stop = start + FRAME_HEAD + size
                if end <= stop:
                    break
                self._on_frame(data, start, stop)
                start = stop + 1
        except PerfError as error:
            self.fail(error)
        self._buffer = data[start:]

    def _on_frame(self, data: bytes, start: int, stop: int) -> None:
        if data[stop] != FRAME_END:
            raise PerfError("the broker sent a frame without an end")
        kind, channel = data[start], data[start + 1] << 8 | data[start + 2]
        payload = data[start + FRAME_HEAD : stop]
        if kind == HEARTBEAT:
            self.write(HEARTBEAT_BYTES)
        elif kind == METHOD:
            self._on_method(channel, decode_method(payload))
        elif channel in self.handlers:
            self.handlers[channel].on_content(kind, payload)

    def _on_method(self, channel: int, method: base.Frame) -> None:
        if isinstance(method, commands.Connection.Close | commands.Channel.Close):
            raise PerfError(f"{method.reply_code} {method.reply_text}")
        waiting = self._waiting.get(channel)
        handler = self.handlers.get(channel)
        if waiting is not None and not isinstance(method, _UNASKED):
            del self._waiting[channel]
            if not waiting.done():
                waiting.set_result(method)
        elif handler is not None:
            handler.on_method(method)

    # For workers

    def write(self, data: bytes) -> None:
        """Send bytes."""
        if self._transport is not None and self.failure is None:
            self._transport.write(data)

    def send(self, channel: int, method: type[base.Frame], **arguments: Any) -> None:
        """Send a method."""
        self.write(method_frame(channel, method, **arguments))

    async def call(self, channel: int, method: type[base.Frame], **arguments: Any) -> base.Frame:
        """Send a method and wait for its answer. Raises PerfError."""
        if self.failure is not None:
            raise self.failure
        future: asyncio.Future[base.Frame] = asyncio.get_running_loop().create_future()
        self._waiting[channel] = future
        self.send(channel, method, **arguments)
        return await future

    def fail(self, error: PerfError) -> None:
        """The connection is of no more use."""
        if self.failure is not None:
            return
        self.failure = error
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(error)
        self._waiting.clear()
        if not self.closed.done():
            self.closed.set_result(None)
        if self._transport is not None:
            self._transport.abort()

    async def close(self) -> None:
        """Say goodbye."""
        if self.failure is None:
            goodbye = self.call(0, commands.Connection.Close, reply_code=200, reply_text="done")
            # It is going anyway.
            with suppress(PerfError, TimeoutError):
                await asyncio.wait_for(goodbye, CLOSE_SECONDS)
        if self._transport is not None:
            self._transport.close()


_UNASKED = (
    commands.Basic.Ack, commands.Basic.Nack, commands.Basic.Deliver, commands.Basic.Return,
    commands.Basic.Cancel, commands.Connection.Blocked, commands.Connection.Unblocked,
)  # fmt: skip


async def connect(uri: str) -> Connection:
    """Open a connection. Raises PerfError."""
    parts = urlsplit(uri)
    if parts.scheme not in ("amqp", "amqps"):
        raise PerfError(f"'{uri}' is no amqp:// or amqps:// address")
    is_tls = parts.scheme == "amqps"
    host, port = parts.hostname or "127.0.0.1", parts.port or (TLS_PORT if is_tls else PORT)
    context = ssl.create_default_context() if is_tls else None
    try:
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_connection(Connection, host, port, ssl=context)
    except OSError as error:
        raise PerfError(f"cannot connect to {host}:{port}: {error}") from None
    name, password = unquote(parts.username or "guest"), unquote(parts.password or "guest")
    vhost = unquote(parts.path[1:]) if len(parts.path) > 1 else "/"
    future: asyncio.Future[base.Frame] = loop.create_future()
    connection._waiting[0] = future
    connection.write(PROTOCOL_HEADER)
    await future
    tune = await connection.call(
        0,
        commands.Connection.StartOk,
        client_properties={
            "product": ("S", "leveret perf"),
            "capabilities": ("F", {"authentication_failure_close": ("t", True)}),
        },
        mechanism="PLAIN",
        response=f"\0{name}\0{password}",
        locale="en_US",
    )
    assert isinstance(tune, commands.Connection.Tune)
    connection.frame_max = tune.frame_max or 131072
    connection.send(
        0, commands.Connection.TuneOk, channel_max=tune.channel_max, frame_max=tune.frame_max,
        heartbeat=0,
    )  # fmt: skip
    await connection.call(0, commands.Connection.Open, virtual_host=vhost)
    return connection
