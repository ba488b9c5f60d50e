"""A minimal AMQP client for load generation: method calls one at a time, message frames written
raw.

`call` sends a method and waits for its answer. Other incoming frames (deliveries, confirms,
returns) go to the channel's handler. `take` is first offered all received bytes, so that it can
process runs of messages at once, and the handler then gets the frames that it did not take. A
handler that cannot take more for now pauses the connection (`hold`): nothing is read for that time,
so TCP slows down the broker.
"""

import asyncio
import os
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Protocol

from pamqp import base, commands

from leveret.broker.amqp.errors import ConnectionFault
from leveret.broker.amqp.frames import (
    FRAME_END,
    HEARTBEAT,
    HEARTBEAT_FRAME,
    METHOD,
    PROTOCOL_HEADER,
)
from leveret.broker.amqp.methods import UnknownMethod, decode_method, method_frame
from leveret.mgmt.perf.address import BrokerAddress, read_address
from leveret.mgmt.perf.messages import FRAME_HEAD_BYTES
from leveret.mgmt.perf.options import Options

CONNECT_SECONDS_MAX, CLOSE_SECONDS_MAX = 15, 5
WRITE_BUFFER_BYTES_MAX, WRITE_BUFFER_BYTES_LOW = 1024 * 1024, 256 * 1024
CAPABILITIES = (
    "authentication_failure_close", "basic.nack", "connection.blocked", "consumer_cancel_notify",
    "publisher_confirms",
)  # fmt: skip


class PerfError(Exception):
    """The broker cannot be reached, or closed the connection; the text says why."""


class NotReachable(PerfError):
    """The broker does not answer, or closed the connection without a reason."""


class ChannelClosed(PerfError):
    """The broker closed a channel because of a method that was called on it."""

    def __init__(self, reply_code: int, reply_text: str) -> None:
        super().__init__(f"{reply_code} {reply_text}")
        self.reply_code = reply_code


class ChannelHandler(Protocol):
    """Handles what arrives on a channel."""

    def take(self, data: bytes, start: int) -> int:
        """Consume known frames at the front, and return the offset of the first other one."""

    def on_method(self, method: base.Frame) -> None:
        """Handle a method that is not an answer."""

    def on_content(self, kind: int, payload: bytes) -> None:
        """Handle a content header or body frame that `take` did not take."""


class Connection(asyncio.Protocol):
    """One connection.

    is_writable: the socket's buffer has room; on_writable is called when it has room again. closed:
    done when the connection has ended; failure says why. on_blocked: called with the broker's
    reason when it blocks publishers, and with None afterwards.
    """

    def __init__(self, on_blocked: Callable[[str | None], object] | None = None) -> None:
        self.handlers: dict[int, ChannelHandler] = {}
        self.is_writable = True
        self.on_writable: list[Callable[[], object]] = []
        self.failure: PerfError | None = None
        self.closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.frame_bytes_max = 0
        self._on_blocked = on_blocked
        self._buffer = b""
        self._waiting: dict[int, asyncio.Future[base.Frame]] = {}
        self._transport: Any = None
        self._held: asyncio.TimerHandle | None = None

    # asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Remember the transport."""
        self._transport = transport
        self._transport.set_write_buffer_limits(WRITE_BUFFER_BYTES_MAX, WRITE_BUFFER_BYTES_LOW)

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail the connection."""
        reason = _reason(exc) if isinstance(exc, OSError) else exc or "end of file"
        self.fail(NotReachable(f"the broker closed the connection: {reason}"))

    def pause_writing(self) -> None:
        """Note that the socket's buffer is full."""
        self.is_writable = False

    def resume_writing(self) -> None:
        """Note that the socket's buffer has room again."""
        self.is_writable = True
        for callback in self.on_writable:
            callback()

    def data_received(self, data: bytes) -> None:
        """Handle received bytes."""
        if self._buffer:
            data = self._buffer + data
        try:
            stop = self._scan(data)
        except PerfError as error:
            self.fail(error)
        except (ConnectionFault, UnknownMethod) as error:
            self.fail(PerfError(f"the broker sent invalid data: {error}"))
        else:
            self._buffer = data[stop:]

    def _scan(self, data: bytes) -> int:
        """Handle all complete frames, and return the offset of the rest."""
        start, end = 0, len(data)
        while end - start > FRAME_HEAD_BYTES and self._held is None and self.failure is None:
            handler = self.handlers.get(data[start + 1] << 8 | data[start + 2])
            if handler is not None:
                taken = handler.take(data, start)
                if taken > start:
                    start = taken
                    continue
                if self._held is not None:
                    break
            stop = start + FRAME_HEAD_BYTES
            stop += int.from_bytes(data[start + 3 : stop], "big")
            if end <= stop:
                break
            self._on_frame(data, start, stop)
            start = stop + 1
        return start

    def _on_frame(self, data: bytes, start: int, stop: int) -> None:
        if data[stop] != FRAME_END:
            raise PerfError("the broker sent a frame without a frame end")
        kind, channel = data[start], data[start + 1] << 8 | data[start + 2]
        payload = data[start + FRAME_HEAD_BYTES : stop]
        if kind == HEARTBEAT:
            self.write(HEARTBEAT_FRAME)
        elif kind == METHOD:
            self._on_method(channel, decode_method(payload))
        elif channel in self.handlers:
            self.handlers[channel].on_content(kind, payload)

    def _on_method(self, channel: int, method: base.Frame) -> None:
        match method:
            case commands.Connection.Close():
                self.send(0, commands.Connection.CloseOk)
                raise PerfError(f"{method.reply_code} {method.reply_text}")
            case commands.Channel.Close():
                self.send(channel, commands.Channel.CloseOk)
                error = ChannelClosed(method.reply_code or 0, method.reply_text or "")
                if not self._answer(channel, error):
                    raise error
            case commands.Connection.Blocked():
                self._blocked(method.reason)
            case commands.Connection.Unblocked():
                self._blocked(None)
            case _ if isinstance(method, _UNASKED) or not self._answer(channel, method):
                if channel in self.handlers:
                    self.handlers[channel].on_method(method)

    def _blocked(self, reason: str | None) -> None:
        if self._on_blocked is not None:
            self._on_blocked(reason)

    def _answer(self, channel: int, answer: base.Frame | PerfError) -> bool:
        """Pass the answer to the waiting call; False if there is none."""
        waiting = self._waiting.pop(channel, None)
        if waiting is None:
            return False
        if waiting.done():
            return True
        if isinstance(answer, PerfError):
            waiting.set_exception(answer)
        else:
            waiting.set_result(answer)
        return True

    # Interface for workers

    def write(self, data: bytes) -> None:
        """Write bytes."""
        if self._transport is not None and self.failure is None:
            self._transport.write(data)

    def send(self, channel: int, method: type[base.Frame], **arguments: Any) -> None:
        """Send a method."""
        self.write(method_frame(channel, method, **arguments))

    async def call(self, channel: int, method: type[base.Frame], **arguments: Any) -> base.Frame:
        """Send a method and wait for its answer. Raises PerfError."""
        return await self._ask(channel, method_frame(channel, method, **arguments))

    async def _ask(self, channel: int, data: bytes) -> base.Frame:
        if self.failure is not None:
            raise self.failure
        future: asyncio.Future[base.Frame] = asyncio.get_running_loop().create_future()
        self._waiting[channel] = future
        self.write(data)
        return await future

    def hold(self, wait_s: float) -> None:
        """Stop reading for this number of seconds."""
        if self._held is None and self.failure is None:
            self._transport.pause_reading()
            self._held = asyncio.get_running_loop().call_later(wait_s, self.release)

    def release(self) -> None:
        """Resume reading."""
        if self._held is None:
            return
        self._held.cancel()
        self._held = None
        if self.failure is None:
            self._transport.resume_reading()
            self.data_received(b"")

    def fail(self, error: PerfError) -> None:
        """End the connection with an error."""
        if self.failure is not None:
            return
        self.failure = error
        for channel in list(self._waiting):
            self._answer(channel, error)
        if not self.closed.done():
            self.closed.set_result(None)
        if self._transport is not None:
            self._transport.close()

    async def open(self, address: BrokerAddress, options: Options, name: str) -> None:
        """Log in and open the vhost. Raises PerfError."""
        await self._ask(0, PROTOCOL_HEADER)
        login = {"mechanism": "PLAIN", "response": f"\0{address.user}\0{address.password}"}
        if options.sasl_external:
            login = {"mechanism": "EXTERNAL", "response": ""}
        tune = await self.call(
            0, commands.Connection.StartOk, locale="en_US", **login,
            client_properties={
                "product": ("S", "leveret perf"), "connection_name": ("S", name),
                "capabilities": ("F", dict.fromkeys(CAPABILITIES, ("t", True))),
            },
        )  # fmt: skip
        if not isinstance(tune, commands.Connection.Tune):
            raise PerfError(
                f"the broker answered the login with {tune.name}, not with connection.tune"
            )
        self.frame_bytes_max = min(tune.frame_max or options.framemax, options.framemax)
        self.send(
            0, commands.Connection.TuneOk, channel_max=tune.channel_max,
            frame_max=self.frame_bytes_max, heartbeat=options.heartbeat,
        )  # fmt: skip
        await self.call(0, commands.Connection.Open, virtual_host=address.vhost)
        if options.heartbeat:
            self._beat(options.heartbeat / 2)

    def _beat(self, wait_s: float) -> None:
        if self.failure is None:
            self.write(HEARTBEAT_FRAME)
            asyncio.get_running_loop().call_later(wait_s, self._beat, wait_s)

    async def close(self) -> None:
        """Close the connection in order."""
        self.release()
        if self.failure is None:
            goodbye = self.call(0, commands.Connection.Close, reply_code=200, reply_text="done")
            # The run is over, so it does not matter if the broker is already closing.
            with suppress(PerfError, TimeoutError):
                await asyncio.wait_for(goodbye, CLOSE_SECONDS_MAX)
        self.fail(PerfError("closed"))


async def connect(
    uri: str, options: Options, name: str, on_blocked: Callable[[str | None], object] | None = None
) -> Connection:
    """Open a connection with a client-provided name. Raises PerfError."""
    try:
        address = read_address(uri, options.server_name)
    except OSError as error:
        problem = f"cannot read the certificates that the address names: {_reason(error)}"
        raise PerfError(problem) from None
    place = f"{address.host}:{address.port}"
    try:
        async with asyncio.timeout(CONNECT_SECONDS_MAX):
            _, connection = await asyncio.get_running_loop().create_connection(
                lambda: Connection(on_blocked), address.host, address.port, ssl=address.tls,
                server_hostname=address.server_name,
            )  # fmt: skip
            await connection.open(address, options, name)
    except TimeoutError:
        problem = f"no broker answered at {place} within {CONNECT_SECONDS_MAX} seconds"
        raise PerfError(problem) from None
    except OSError as error:
        raise NotReachable(f"cannot connect to {place}: {_reason(error)}") from None
    except PerfError as error:
        kind = NotReachable if isinstance(error, NotReachable) else PerfError
        raise kind(f"{place}: {error}") from None
    return connection


def _reason(error: OSError) -> str:
    """Describe the error without the numbers and addresses that asyncio adds."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        return f"no TLS: {error.reason}"
    if isinstance(error, socket.gaierror):
        return f"{error.strerror}"
    return os.strerror(error.errno) if error.errno else str(error)


_UNASKED = (
    commands.Basic.Ack, commands.Basic.Nack, commands.Basic.Deliver, commands.Basic.Return,
    commands.Basic.Cancel, commands.Tx.CommitOk,
)  # fmt: skip
"""Methods that go to the channel's handler even while an answer is awaited."""
