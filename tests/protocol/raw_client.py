"""A client that sends and receives single frames, for behaviour that libraries do not have.

It uses only the broker's codec: there is no state machine between a test and the socket. It never
sleeps; every read has a deadline.
"""

import socket
import struct
import threading
import time
from typing import NamedTuple

from pamqp import commands

from leveret.broker.amqp.content import body_frames, header_frame
from leveret.broker.amqp.frames import (
    BODY,
    HEADER,
    HEARTBEAT,
    METHOD,
    PROTOCOL_HEADER,
    encode_frame,
)
from leveret.broker.amqp.methods import METHODS, decode_method, encode_method
from leveret.broker.amqp.properties import decode_properties, encode_properties
from tests.patience import PATIENCE_SECONDS

POLL_SECONDS = 0.005
RECEIVE_BYTES = 256 * 1024
FRAME_BYTES_MAX = 131_072
CAPABILITIES = ("authentication_failure_close", "connection.blocked", "consumer_cancel_notify")

_FRAME_START = struct.Struct(">BHI")

BITS_OFF = {
    commands.Queue.Declare: ("passive", "durable", "exclusive", "auto_delete", "nowait"),
    commands.Exchange.Declare: ("passive", "durable", "auto_delete", "internal", "nowait"),
    commands.Queue.Bind: ("nowait",),
    commands.Basic.Publish: ("mandatory", "immediate"),
    commands.Basic.Consume: ("no_local", "no_ack", "exclusive", "nowait"),
    commands.Basic.Get: ("no_ack",),
    commands.Basic.Qos: ("global_",),
    commands.Basic.Ack: ("multiple",),
    commands.Confirm.Select: ("nowait",),
}
"""Bits of methods with the defaults of most tests."""


class Frame(NamedTuple):
    """A received frame."""

    kind: int
    channel: int
    payload: bytes


class Delivered(NamedTuple):
    """A received message, with its method."""

    method: object
    properties: dict
    body: bytes


class RawClient:
    """One socket to a broker. A context manager that closes it without connection.close."""

    def __init__(self, broker, receive_buffer_bytes=None):
        self.frame_bytes_max = FRAME_BYTES_MAX
        self.bytes_sent = 0
        self._buffer = b""
        self.socket = socket.socket()
        if receive_buffer_bytes is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.settimeout(PATIENCE_SECONDS)
        self.socket.connect((broker.host, broker.port))
        host, port = self.socket.getsockname()
        self.name = f"{host}:{port}"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    # Sending

    def send(self, data):
        """Send bytes unmodified."""
        self.bytes_sent += len(data)
        self.socket.sendall(data)

    def send_method(self, channel, method, **arguments):
        """Send a method without content."""
        self.send(method_bytes(channel, method, **arguments))

    def publish(self, channel, routing_key, body=b"", exchange="", **properties):
        """Publish a message in as few frames as frame_max allows."""
        self.send(
            publish_bytes(
                channel,
                routing_key,
                body,
                exchange,
                frame_bytes_max=self.frame_bytes_max,
                **properties,
            )
        )

    # Receiving

    def read_bytes(self, count):
        """Read exactly `count` bytes. Raises ConnectionError at the end of the stream."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while len(self._buffer) < count:
            self.socket.settimeout(max(0.001, deadline - time.monotonic()))
            data = self.socket.recv(RECEIVE_BYTES)
            if not data:
                raise ConnectionError(f"the broker closed the socket after {self._buffer!r}")
            self._buffer += data
        found, self._buffer = self._buffer[:count], self._buffer[count:]
        return found

    def read_frame(self):
        """Read the next frame."""
        kind, channel, size = _FRAME_START.unpack(self.read_bytes(_FRAME_START.size))
        payload = self.read_bytes(size + 1)
        assert payload[-1] == 0xCE
        return Frame(kind, channel, payload[:-1])

    def read_method(self, channel, method):
        """Read the next frame, which must be this method on this channel."""
        frame = self.read_frame()
        while frame.kind == HEARTBEAT:
            frame = self.read_frame()
        assert frame.kind == METHOD, frame
        decoded = decode_method(frame.payload)
        assert type(decoded) is method, described(decoded)
        assert frame.channel == channel
        return decoded

    def read_content(self, channel, method):
        """Read the next frames, which must be this method and its content."""
        decoded = self.read_method(channel, method)
        header = self.read_frame()
        assert (header.kind, header.channel) == (HEADER, channel)
        missing = int.from_bytes(header.payload[4:12], "big")
        body = b""
        while missing > len(body):
            piece = self.read_frame()
            assert (piece.kind, piece.channel) == (BODY, channel)
            body += piece.payload
        return Delivered(decoded, decode_properties(header.payload[12:]), body)

    def read_end(self):
        """Wait until the broker has closed the socket; returns the data before that."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            self.socket.settimeout(max(0.001, deadline - time.monotonic()))
            try:
                data = self.socket.recv(RECEIVE_BYTES)
            except ConnectionResetError:
                data = b""
            if not data:
                found, self._buffer = self._buffer, b""
                return found
            self._buffer += data

    def call(self, channel, method, answer, **arguments):
        """Send a method and read its answer."""
        self.send_method(channel, method, **arguments)
        return self.read_method(channel, answer)

    # Common first steps

    def start(self, **arguments):
        """Send the protocol header and connection.start-ok."""
        self.send(PROTOCOL_HEADER)
        started = self.read_method(0, commands.Connection.Start)
        self.send(start_ok_bytes(**arguments))
        return started

    def tune(self, **limits):
        """Continue to connection.open, with the broker's limits or these."""
        offered = self.read_method(0, commands.Connection.Tune)
        chosen = {
            "channel_max": offered.channel_max,
            "frame_max": offered.frame_max,
            "heartbeat": 0,
            **limits,
        }
        self.frame_bytes_max = chosen["frame_max"]
        self.send_method(0, commands.Connection.TuneOk, **chosen)
        return offered

    def open(self, *, capabilities=CAPABILITIES, vhost="/", **limits):
        """Execute the whole handshake; returns the client."""
        self.start(capabilities=capabilities)
        self.tune(**limits)
        self.call(0, commands.Connection.Open, commands.Connection.OpenOk, **open_arguments(vhost))
        return self

    def open_channel(self, channel=1):
        """Open a channel."""
        self.call(channel, commands.Channel.Open, commands.Channel.OpenOk)
        return self

    def declare(self, queue, channel=1, **arguments):
        """Declare a queue; returns the broker's answer."""
        return self.call(
            channel, commands.Queue.Declare, commands.Queue.DeclareOk, queue=queue, **arguments
        )

    def bind(self, queue, exchange, routing_key="", channel=1, **arguments):
        """Bind a queue to an exchange."""
        self.call(
            channel, commands.Queue.Bind, commands.Queue.BindOk, queue=queue, exchange=exchange,
            routing_key=routing_key, **arguments,
        )  # fmt: skip

    def declare_exchange(self, exchange, exchange_type, channel=1, **arguments):
        """Declare an exchange."""
        self.call(
            channel, commands.Exchange.Declare, commands.Exchange.DeclareOk, exchange=exchange,
            exchange_type=exchange_type, **arguments,
        )  # fmt: skip

    def delete(self, queue, channel=1):
        """Delete a queue; returns the broker's answer."""
        return self.call(
            channel, commands.Queue.Delete, commands.Queue.DeleteOk, queue=queue, if_unused=False,
            if_empty=False, nowait=False,
        )  # fmt: skip

    def consume(self, queue, channel=1, **arguments):
        """Start a consumer."""
        return self.call(
            channel, commands.Basic.Consume, commands.Basic.ConsumeOk, queue=queue, **arguments
        )

    def take(self, queue, channel=1):
        """Get and acknowledge the first message, which has to be there."""
        self.send_method(channel, commands.Basic.Get, queue=queue, no_ack=True)
        return self.read_content(channel, commands.Basic.GetOk)

    def get(self, queue, channel=1):
        """Get and acknowledge the first message; returns its body, None if there is none."""
        self.send_method(channel, commands.Basic.Get, queue=queue, no_ack=True)
        if self.peek_method() is commands.Basic.GetEmpty:
            self.read_method(channel, commands.Basic.GetEmpty)
            return None
        return self.read_content(channel, commands.Basic.GetOk).body

    def peek_method(self):
        """Return the type of the next method without reading it."""
        frame = self.read_frame()
        self._buffer = encode_frame(*frame) + self._buffer
        return METHODS[int.from_bytes(frame.payload[:4], "big")]


def opened(broker, **arguments):
    """Return a client with an open connection and channel 1."""
    return RawClient(broker).open(**arguments).open_channel()


def method_bytes(channel, method, **arguments):
    """Return the frame of a method; bits that are not named are off."""
    bits = dict.fromkeys(BITS_OFF.get(method, ()), False)
    return encode_frame(METHOD, channel, encode_method(method, **{**bits, **arguments}))


def publish_bytes(
    channel, routing_key, body=b"", exchange="", *, frame_bytes_max=FRAME_BYTES_MAX, **properties
):
    """Return the frames of a message."""
    parts = [
        method_bytes(channel, commands.Basic.Publish, exchange=exchange, routing_key=routing_key),
        header_frame(channel, encode_properties(properties), len(body)),
        *body_frames(channel, body, frame_bytes_max),
    ]
    return b"".join(parts)


def start_ok_bytes(
    *, mechanism="PLAIN", response="\0guest\0guest", capabilities=CAPABILITIES, channel=0
):
    """Return connection.start-ok. response: text, or bytes that are not UTF-8."""
    if isinstance(response, bytes):
        response = response.decode("utf-8", "surrogateescape")
    table = {"capabilities": ("F", dict.fromkeys(capabilities, ("t", True)))}
    return method_bytes(
        channel,
        commands.Connection.StartOk,
        client_properties=table,
        mechanism=mechanism,
        response=response,
        locale="en_US",
    )


def open_arguments(vhost="/"):
    """The arguments of connection.open; the others are reserved."""
    return {"virtual_host": vhost, "capabilities": "", "insist": False}


def close_arguments():
    """The arguments of a client's connection.close."""
    return {"reply_code": 200, "reply_text": "Goodbye", "class_id": 0, "method_id": 0}


def described(method):
    """Describe a method and its arguments, for the message of a failed assertion."""
    return f"{method.name} {[(name, getattr(method, name, None)) for name in method.attributes()]}"


def connection_count(broker):
    """Return the number of the broker's connections."""
    return broker.call(lambda embedded: len(embedded.broker.connections))


def side_of_broker(embedded, client):
    """Return the broker's connection to a client; call it in the broker's thread."""
    found = [one for one in embedded.broker.connections if one.name.startswith(f"{client.name} ")]
    return found[0]


def wait_until_read(broker, client):
    """Wait until the broker has read all that a client has sent."""

    def is_read(embedded):
        return side_of_broker(embedded, client).bytes_in == client.bytes_sent

    wait_until(lambda: connection_count(broker) and broker.call(is_read))


def wait_until(condition, seconds_max=PATIENCE_SECONDS):
    """Wait for a condition that another thread makes true."""
    deadline = time.monotonic() + seconds_max
    pause = threading.Event()
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError("what was waited for did not come about")
        pause.wait(POLL_SECONDS)
