"""A client of the stream protocol without a socket, on a broker with streams in memory.

Each `send` is one read of the broker; a test can send bytes in any pieces.
"""

import struct
from typing import NamedTuple

from leveret.broker.protocols.stream import codes
from leveret.broker.protocols.stream.connection import StreamConnection
from tests.fakes.stream_queue import STREAMS
from tests.protocol.socketless import MemoryNode, Socket


class Frame(NamedTuple):
    """A frame that the broker sent. body: after the version."""

    key: int
    version: int
    body: bytes

    @property
    def code(self):
        """The code of a response."""
        return int.from_bytes(self.body[4:6], "big")

    @property
    def fields(self):
        """What a response has after its code."""
        return self.body[6:]


class StreamPeer:
    """One client."""

    def __init__(self, broker):
        self.broker = broker
        self.socket = Socket()
        self.connection = StreamConnection(broker.services, broker.connections)
        self.connection.connection_made(self.socket)
        self._correlation = 0
        self._kept = []

    def send_bytes(self, data):
        self.connection.data_received(data)

    def send(self, key, body=b"", version=1):
        self.send_bytes(frame(key, body, version))

    async def request(self, key, body=b"", version=1):
        """The response. Other frames are kept for `frames`."""
        self._correlation += 1
        correlation = struct.pack(">I", self._correlation)
        self.send(key, correlation + body, version)
        found = await self.frames()
        place = next(
            place
            for place, one in enumerate(found)
            if one.key == key | codes.RESPONSE and one.body[:4] == correlation
        )
        response = found.pop(place)
        self._kept = found
        return response

    async def code(self, key, body=b""):
        """The code of the response."""
        return (await self.request(key, body)).code

    async def frames(self):
        """All frames since the last call."""
        data = await self.socket.take_written()
        found, self._kept = self._kept, []
        while data:
            size = int.from_bytes(data[:4], "big")
            key, version = struct.unpack(">HH", data[4:8])
            found.append(Frame(key, version, data[8 : 4 + size]))
            data = data[4 + size :]
        return found

    async def log_in(self, user="guest", password="guest"):
        await self.request(codes.PEER_PROPERTIES, pairs(product="test"))
        await self.request(codes.SASL_HANDSHAKE)
        response = octets(f"\0{user}\0{password}".encode())
        return await self.code(codes.SASL_AUTHENTICATE, string("PLAIN") + response)

    async def open(self, vhost="/", frame_max=1_048_576, heartbeat=0, **user):
        assert await self.log_in(**user) == codes.OK
        self.send(codes.TUNE | codes.RESPONSE, struct.pack(">II", frame_max, heartbeat))
        assert await self.code(codes.OPEN, string(vhost)) == codes.OK
        self._kept = []
        return self

    async def create(self, name, **arguments):
        table = {key.replace("_", "-"): value for key, value in arguments.items()}
        return await self.code(codes.CREATE, string(name) + pairs(**table))

    async def declare_publisher(self, number, stream, reference=""):
        body = bytes([number]) + string(reference) + string(stream)
        return await self.code(codes.DECLARE_PUBLISHER, body)

    def publish(self, number, *messages):
        """messages: pairs of a publishing id and a body."""
        self.send(codes.PUBLISH, published(number, *messages))

    async def subscribe(self, number, stream, offset=b"\0\1", credit=10, **properties):
        body = bytes([number]) + string(stream) + offset + struct.pack(">H", credit)
        table = {key.replace("_", "-"): value for key, value in properties.items()}
        return await self.code(codes.SUBSCRIBE, body + pairs(**table))

    def credit(self, number, credit):
        self.send(codes.CREDIT, struct.pack(">Bh", number, credit))

    async def delivered(self):
        """The messages of each subscription that were delivered since the last call."""
        found = {}
        for one in await self.frames():
            if one.key == codes.DELIVER:
                chunk = one.body[1 + 8 * (one.version - 1) :]
                found.setdefault(one.body[0], []).extend(messages_of(chunk))
        return found

    def disconnect(self):
        self.connection.connection_lost(None)


def frame(key, body=b"", version=1):
    return struct.pack(">IHH", 4 + len(body), key, version) + body


def string(text):
    return struct.pack(">h", len(text.encode())) + text.encode()


def octets(data):
    return struct.pack(">i", len(data)) + data


def strings(*texts):
    return struct.pack(">i", len(texts)) + b"".join(map(string, texts))


def pairs(**table):
    items = [string(key) + string(value) for key, value in table.items()]
    return struct.pack(">i", len(items)) + b"".join(items)


def published(number, *messages):
    """The body of a publish."""
    entries = [struct.pack(">Q", one) + octets(body.encode()) for one, body in messages]
    return struct.pack(">BI", number, len(entries)) + b"".join(entries)


def messages_of(chunk):
    """The bodies of a chunk without batches."""
    data, found = chunk[48:], []
    while data:
        size = int.from_bytes(data[:4], "big")
        found.append(data[4 : 4 + size].decode())
        data = data[4 + size :]
    return found


def confirmed(frames):
    """The publishing ids that were confirmed, by publisher."""
    found = {}
    for one in frames:
        if one.key == codes.PUBLISH_CONFIRM:
            number, count = struct.unpack_from(">BI", one.body)
            found.setdefault(number, []).extend(struct.unpack_from(f">{count}Q", one.body, 5))
    return found


def refused(frames):
    """Pairs of publishing id and code."""
    found = []
    for one in frames:
        if one.key == codes.PUBLISH_ERROR:
            found += struct.iter_unpack(">QH", one.body[5:])
    return found


class StreamNode(MemoryNode):
    """A broker with streams in memory, and its clients."""

    def __init__(self, clock=None, **config):
        super().__init__(clock, **config)
        self.broker.services.queue_kinds.add(STREAMS)

    def connect(self):
        """A client that has sent nothing yet."""
        return StreamPeer(self.broker)

    async def client(self, **opening):
        """A client with an open connection."""
        return await self.connect().open(**opening)
