"""A client of AMQP 1.0 without a socket, on a broker without files.

It connects as a client of AMQP 0-9-1 does: the protocol header makes the difference. Each `send` is
one read of the broker.
"""

import struct
from typing import NamedTuple

from leveret.broker.amqp10.sections import Amqp10Message, data_section, encode_message, read_message
from leveret.broker.amqp10.values import Value
from leveret.broker.auth.backends.internal import InternalBackend
from leveret.broker.auth.identity import Identity
from leveret.broker.declarations.requester import THE_NODE
from leveret.broker.protocols.amqp10.login import HEADER, SASL_HEADER
from leveret.broker.protocols.amqp10.performatives import (
    RECEIVER,
    SENDER,
    Accepted,
    Attach,
    Begin,
    Disposition,
    Flow,
    Open,
    SaslInit,
    Source,
    Target,
    Transfer,
    encode_performative,
    frame,
    frame_of,
    read_performative,
)
from leveret.broker.sessions.declaring_queues import QueueProperties
from leveret.broker.sessions.direct import DirectConnection
from tests.protocol.socketless import MemoryNode, Socket

HEADER_BYTES = 8


class Amqp10Socket(Socket):
    """A transport that can be given to a connection of another protocol."""

    protocol = None

    def set_protocol(self, protocol):
        self.protocol = protocol


class Received(NamedTuple):
    """A frame that the broker sent. performative: the header of a protocol, or None if empty."""

    channel: int
    performative: object
    payload: bytes

    @property
    def message(self):
        return read_message(self.payload)


class Amqp10Peer:
    """One client."""

    def __init__(self, broker):
        self.broker = broker
        self.socket = Amqp10Socket()
        self.socket.protocol = broker._accept()
        self.socket.protocol.connection_made(self.socket)
        self.delivery_id = 0

    @property
    def connection(self):
        return self.socket.protocol

    def send_bytes(self, data):
        self.connection.data_received(data)

    def send(self, performative, channel=0, payload=b""):
        self.send_bytes(frame_with(performative, payload, channel))

    async def frames(self):
        """All frames since the last call."""
        found, rest = read_frames(await self.socket.take_written())
        assert not rest
        return found

    async def answers(self, performative, channel=0, payload=b""):
        """The performatives with which the broker answers."""
        self.send(performative, channel, payload)
        return [one.performative for one in await self.frames()]

    async def log_in(self, user="guest", password="guest", mechanism="PLAIN"):
        self.send_bytes(SASL_HEADER)
        response = f"\0{user}\0{password}".encode()
        await self.frames()
        return await self.answers(SaslInit(mechanism, response))

    async def open(self, **limits):
        await self.log_in()
        self.send_bytes(HEADER)
        self.send(Open("test", **limits))
        await self.frames()
        return self

    async def begin(self, channel=0, window=1000, **limits):
        self.send(Begin(None, 0, window, 1000, **limits), channel)
        await self.frames()
        return self

    async def publisher(self, address, handle=0, **properties):
        """Attach a link to an address of the broker."""
        target = Target(address)
        return await self.answers(
            Attach(f"link {handle}", handle, SENDER, source=Source(), target=target, **properties)
        )

    async def consumer(self, address, handle=0, credit=10, **properties):
        """Attach a link from an address of the broker, and give it credit."""
        source = Source(address, filter=properties.pop("filter", None))
        answers = await self.answers(
            Attach(f"link {handle}", handle, RECEIVER, source=source, target=Target(), **properties)
        )
        if credit:
            self.credit(handle, credit)
        return answers

    def credit(self, handle, credit, delivery_count=0, **fields):
        self.send(
            Flow(None, 1000, 0, 1000, handle, delivery_count, credit, **fields),
        )

    async def publish(self, body, handle=0, settled=False, **sections):
        """Publish a message; returns the performatives of the answer."""
        delivery_id = self.delivery_id
        self.delivery_id += 1
        tag = struct.pack(">I", delivery_id)
        transfer = Transfer(handle, delivery_id, tag, 0, settled)
        return await self.answers(transfer, payload=encoded(body, **sections))

    async def received(self):
        """The messages since the last call, as pairs of transfer and message."""
        return [
            (one.performative, one.message)
            for one in await self.frames()
            if isinstance(one.performative, Transfer)
        ]

    def settle(self, first, last=None, outcome=Accepted()):  # noqa: B008 - a value
        self.send(Disposition(RECEIVER, first, last, True, outcome))

    def disconnect(self):
        self.connection.connection_lost(None)


def frame_with(performative, payload=b"", channel=0):
    if payload:
        return frame(channel, encode_performative(performative) + payload)
    return frame_of(channel, performative)


def read_frames(data):
    """The frames in these bytes, and the bytes of one that is not complete."""
    found = []
    while len(data) >= HEADER_BYTES:
        if data.startswith(b"AMQP"):
            found.append(Received(0, data[:HEADER_BYTES], b""))
            data = data[HEADER_BYTES:]
            continue
        size, words, _, channel = struct.unpack_from(">IBBH", data)
        if len(data) < size:
            break
        body = data[4 * words : size]
        performative, at = read_performative(body) if body else (None, 0)
        found.append(Received(channel, performative, body[at:]))
        data = data[size:]
    return found, data


def encoded(body, **sections):
    """A message as bytes. sections: attributes of an `Amqp10Message`."""
    message = Amqp10Message()
    message.body = data_section(body.encode())
    for name, content in sections.items():
        setattr(message, name, content)
    message.has_header = bool(message.header)
    return encode_message(message)


def bodies(received):
    return [message.data.decode() for _, message in received]


def text(content):
    return Value("string", content)


class Amqp10Node(MemoryNode):
    """A broker without files, and its clients."""

    def __init__(self, clock=None, compat="4.0", **settings):
        super().__init__(clock, compat=compat, **settings)

    def connect(self):
        """A client that has sent nothing yet."""
        return Amqp10Peer(self.broker)

    async def client(self, **limits):
        """A client with an open session."""
        peer = await self.connect().open(**limits)
        return await peer.begin()

    async def declare(self, name, **arguments):
        """Declare a durable queue.

        arguments: texts, numbers and truth values, without `x-` and with `_` for each `-`.
        """
        letters = {str: "S", bool: "t", int: "l"}
        services = self.broker.services
        backend = InternalBackend(services.users, services.permissions)
        guest = Identity("guest", ("administrator",), authorization=backend)
        table = {
            f"x-{key.replace('_', '-')}": (letters[type(value)], value)
            for key, value in arguments.items()
        }
        vhost = services.vhosts["/"]
        with DirectConnection(services, guest, vhost, "127.0.0.1", THE_NODE) as connection:
            await connection.declare_queue(name, QueueProperties(table, durable=True))
