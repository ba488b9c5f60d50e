"""A client that works on single AMQP frames, for what a well-behaved client cannot do."""

import socket
import struct
import time
from typing import NamedTuple

from tests.conformance.field_table import encode_longstr, encode_shortstr, readable
from tests.conformance.methods import (
    decode_content_header,
    decode_method,
    encode_content_header,
    encode_method,
)
from tests.patience import PATIENCE_SECONDS

PROTOCOL_HEADER = b"AMQP\x00\x00\x09\x01"
METHOD_FRAME, HEADER_FRAME, BODY_FRAME, HEARTBEAT_FRAME = 1, 2, 3, 8
FRAME_END = 0xCE
FRAME_OVERHEAD = 8

CONTENT_METHODS = {"basic.deliver", "basic.get-ok", "basic.return"}
CLIENT_CAPABILITIES = {
    "authentication_failure_close": ("t", True),
    "basic.nack": ("t", True),
    "connection.blocked": ("t", True),
    "consumer_cancel_notify": ("t", True),
    "publisher_confirms": ("t", True),
}


class SocketClosed(Exception):
    """The broker closed the TCP connection."""


class Frame(NamedTuple):
    kind: int
    channel: int
    payload: bytes


def encode_frame(kind, channel, payload, end=FRAME_END):
    return struct.pack(">BHI", kind, channel, len(payload)) + payload + bytes([end])


def plain_response(user, password):
    return f"\0{user}\0{password}".encode()


def amqplain_response(user, password):
    fields = {"LOGIN": user, "PASSWORD": password}
    return b"".join(
        encode_shortstr(key) + b"S" + encode_longstr(value) for key, value in fields.items()
    )


class WireClient:
    """One TCP connection. Nothing is sent unless a method here is called."""

    def __init__(self, host, port, user, password, timeout=PATIENCE_SECONDS):
        self.user = user
        self.password = password
        self.timeout = timeout
        self.frame_max = 131072
        self.quiet_seconds = 0.4
        self.socket = socket.create_connection((host, port), timeout)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.received = b""

    def drop(self):
        """Close the socket without an AMQP goodbye."""
        self.socket.close()

    # Sending

    def send_bytes(self, data):
        try:
            self.socket.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            raise SocketClosed from None

    def send_frame(self, kind, channel, payload, end=FRAME_END):
        self.send_bytes(encode_frame(kind, channel, payload, end))

    def send(self, channel, method, **arguments):
        self.send_frame(METHOD_FRAME, channel, encode_method(method, arguments))

    def publish(
        self,
        channel,
        exchange="",
        routing_key="",
        body=b"",
        properties=None,
        mandatory=False,
        immediate=False,
    ):
        body = body.encode() if isinstance(body, str) else body
        self.send(
            channel,
            "basic.publish",
            exchange=exchange,
            routing_key=routing_key,
            mandatory=mandatory,
            immediate=immediate,
        )
        self.send_content_header(channel, len(body), properties or {})
        room = self.frame_max - FRAME_OVERHEAD
        for start in range(0, len(body), room):
            self.send_frame(BODY_FRAME, channel, body[start : start + room])

    def send_content_header(self, channel, body_size, properties=None, **overrides):
        payload = encode_content_header(body_size, properties or {}, **overrides)
        self.send_frame(HEADER_FRAME, channel, payload)

    # Receiving

    def _fill(self, size, deadline):
        while len(self.received) < size:
            self.socket.settimeout(max(deadline - time.monotonic(), 0.001))
            try:
                chunk = self.socket.recv(65536)
            except ConnectionResetError:
                chunk = b""
            if not chunk:
                raise SocketClosed
            self.received += chunk

    def read_bytes(self, size):
        self._fill(size, time.monotonic() + self.timeout)
        data, self.received = self.received[:size], self.received[size:]
        return data

    def read_frame(self, timeout=None):
        deadline = time.monotonic() + (timeout or self.timeout)
        self._fill(7, deadline)
        kind, channel, size = struct.unpack(">BHI", self.received[:7])
        self._fill(size + FRAME_OVERHEAD, deadline)
        frame, self.received = (
            self.received[: size + FRAME_OVERHEAD],
            self.received[size + FRAME_OVERHEAD :],
        )
        if frame[-1] != FRAME_END:
            raise ValueError("the broker sent a frame with a wrong end octet")
        return Frame(kind, channel, frame[7:-1])

    def read_event(self, timeout=None):
        """The next method, with its content where it carries one; heartbeats are passed over."""
        deadline = time.monotonic() + (timeout or self.timeout)
        frame = self.read_frame(timeout)
        while frame.kind == HEARTBEAT_FRAME:
            frame = self.read_frame(deadline - time.monotonic())
        name, arguments = decode_method(frame.payload)
        event = {"channel": frame.channel, "method": name, **arguments}
        if name in CONTENT_METHODS:
            body_size, event["properties"] = decode_content_header(self.read_frame().payload)
            body = b""
            while len(body) < body_size:
                body += self.read_frame().payload
            event["body"] = readable(body)
        return event

    def read_events(self, count):
        return [self.read_event() for _ in range(count)]

    def read_until_quiet(self, quiet_seconds=None):
        """Every event until the broker falls silent or closes the socket.

        A connection.close is answered, as the protocol asks. quiet_seconds: at the least; who
        listens to the broker may want to listen for longer.
        """
        seconds = max(quiet_seconds or 0, self.quiet_seconds)
        events = []
        while True:
            try:
                event = self.read_event(seconds)
                events.append(event)
                if event["method"] == "connection.close":
                    self.send(0, "connection.close-ok")
            except TimeoutError:
                return events
            except SocketClosed:
                return [*events, "socket closed"]

    def read_until_closed(self):
        """Every event until the broker closes the socket, which it must do."""
        events = self.read_until_quiet(self.timeout)
        if events[-1:] != ["socket closed"]:
            events.append("socket left open")
        return events

    def call(self, channel, method, **arguments):
        """Send a method and return the event that comes next."""
        self.send(channel, method, **arguments)
        return self.read_event()

    # Handshake

    def start(self):
        """Send the protocol header; return the broker's connection.start."""
        self.send_bytes(PROTOCOL_HEADER)
        return self.read_event()

    def log_in(self, mechanism="PLAIN", response=None, capabilities=None, locale="en_US"):
        """Answer connection.start; return what the broker says next."""
        if response is None:
            response = plain_response(self.user, self.password)
        if capabilities is None:
            capabilities = CLIENT_CAPABILITIES
        return self.call(
            0,
            "connection.start-ok",
            mechanism=mechanism,
            response=response,
            locale=locale,
            client_properties={"capabilities": ("F", capabilities)},
        )

    def tune(self, channel_max=2047, frame_max=131072, heartbeat=0):
        self.send(
            0,
            "connection.tune-ok",
            channel_max=channel_max,
            frame_max=frame_max,
            heartbeat=heartbeat,
        )
        self.frame_max = frame_max

    def open_connection(self, virtual_host="/", capabilities=None, **tuning):
        self.start()
        self.log_in(capabilities=capabilities)
        self.tune(**tuning)
        opened = self.call(0, "connection.open", virtual_host=virtual_host)
        if opened["method"] != "connection.open-ok":
            raise ConnectionError(f"the broker refused the connection: {opened}")

    def open_channel(self, channel=1):
        opened = self.call(channel, "channel.open")
        if opened["method"] != "channel.open-ok":
            raise ConnectionError(f"the broker refused the channel: {opened}")
        return channel
