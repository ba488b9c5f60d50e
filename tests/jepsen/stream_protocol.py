"""A small client of the stream protocol: what the publishers and readers of a run need."""

import asyncio
import struct
import zlib
from collections.abc import Sequence

from leveret.broker.protocols.stream import codes
from leveret.storage.stream_log.chunks import HEAD_BYTES, read_head
from tests.patience import PATIENCE_SECONDS
from tests.protocol.stream_peer import frame, octets, pairs, string

PORT = 5552
PUBLISHER, SUBSCRIPTION = 1, 1
CREDIT = 4
DATA_SECTION = b"\0\x53\x75\xa0"
LOST = (OSError, asyncio.IncompleteReadError, TimeoutError, ConnectionError)


class Refused(ConnectionError):
    """The node has refused a request, with this code, or a publish."""

    def __init__(self, text: str, code: int = codes.OK) -> None:
        super().__init__(text)
        self.code = code


class StreamClient:
    """One connection. Use as an asynchronous context manager; raises LOST when it is lost."""

    def __init__(self, address: str, port: int = PORT) -> None:
        self._address, self._port = address, port
        self._correlation = 0

    async def __aenter__(self) -> "StreamClient":
        opening = asyncio.open_connection(self._address, self._port)
        self._input, self._output = await asyncio.wait_for(opening, PATIENCE_SECONDS)
        await self.request(codes.PEER_PROPERTIES, pairs(product="test"))
        await self.request(codes.SASL_HANDSHAKE)
        password = octets(b"\0guest\0guest")
        await self.request(codes.SASL_AUTHENTICATE, string("PLAIN") + password)
        self.send(codes.TUNE | codes.RESPONSE, struct.pack(">II", 1 << 20, 0))
        await self.request(codes.OPEN, string("/"))
        return self

    async def __aexit__(self, *_exception: object) -> None:
        self._output.transport.abort()

    def send(self, key: int, body: bytes) -> None:
        """Send a frame."""
        self._output.write(frame(key, body))

    async def request(self, key: int, body: bytes = b"") -> bytes:
        """What the response has after its code. Frames before it are dropped."""
        self._correlation += 1
        correlation = struct.pack(">I", self._correlation)
        self.send(key, correlation + body)
        while True:
            found, answer = await self.receive()
            if found == key | codes.RESPONSE and answer[:4] == correlation:
                break
        code = int.from_bytes(answer[4:6], "big")
        if code != codes.OK:
            raise Refused(f"request {key} was answered with code {code}", code)
        return answer[6:]

    async def receive(self, patience_s: float = PATIENCE_SECONDS) -> tuple[int, bytes]:
        """The key of the next frame, and what it has after its version."""
        async with asyncio.timeout(patience_s):
            size = int.from_bytes(await self._input.readexactly(4), "big")
            data = await self._input.readexactly(size)
        return int.from_bytes(data[:2], "big"), data[4:]

    # Publishing

    async def declare_publisher(self, stream: str, name: str) -> int:
        """Publish under this name; returns the last number that the stream has of it."""
        body = bytes([PUBLISHER]) + string(name) + string(stream)
        await self.request(codes.DECLARE_PUBLISHER, body)
        answer = await self.request(codes.QUERY_PUBLISHER_SEQUENCE, string(name) + string(stream))
        return int.from_bytes(answer[:8], "big")

    def publish(self, number: int, body: bytes) -> None:
        """Publish a message of AMQP 1.0 with this body, which has to be short."""
        entry = octets(DATA_SECTION + bytes([len(body)]) + body)
        self.send(codes.PUBLISH, struct.pack(">BIQ", PUBLISHER, 1, number) + entry)

    async def confirmed(self, patience_s: float) -> Sequence[int]:
        """The next numbers that are confirmed."""
        key, body = await self.receive(patience_s)
        if key != codes.PUBLISH_CONFIRM:
            raise Refused(f"a frame {key} instead of a confirm")
        (count,) = struct.unpack_from(">I", body, 1)
        return struct.unpack_from(f">{count}Q", body, 5)

    # Stored offsets

    def store_offset(self, stream: str, name: str, offset: int) -> None:
        """Store an offset under a name. There is no answer."""
        self.send(codes.STORE_OFFSET, string(name) + string(stream) + struct.pack(">Q", offset))

    async def stored_offset(self, stream: str, name: str) -> int:
        """The offset that is stored under a name; 0 if there is none."""
        try:
            answer = await self.request(codes.QUERY_OFFSET, string(name) + string(stream))
        except Refused as refused:
            if refused.code == codes.NO_OFFSET:
                return 0
            raise
        return int.from_bytes(answer[:8], "big")

    # Reading

    async def subscribe(self, stream: str, offset: bytes, **properties: str) -> None:
        """Read from an offset specification on. A dash in a property is an underscore."""
        await self._subscribe(stream, offset, CREDIT, **properties)

    async def subscribe_without_credit(self, stream: str, offset: bytes) -> None:
        """Ask for nothing yet."""
        await self._subscribe(stream, offset, 0)

    async def _subscribe(self, stream: str, offset: bytes, credit: int, **properties: str) -> None:
        body = bytes([SUBSCRIPTION]) + string(stream) + offset + struct.pack(">H", credit)
        table = {name.replace("_", "-"): value for name, value in properties.items()}
        await self.request(codes.SUBSCRIBE, body + pairs(**table))

    async def chunk(self) -> tuple[int, list[bytes]]:
        """The first offset and the entries of the next chunk, whose checksum is compared."""
        while True:
            key, body = await self.receive()
            if key == codes.DELIVER:
                break
            if key == codes.METADATA_UPDATE:
                raise Refused("the stream is not available")
        self.send(codes.CREDIT, struct.pack(">Bh", SUBSCRIPTION, 1))
        return read_chunk(body)


def read_chunk(body: bytes) -> tuple[int, list[bytes]]:
    """The first offset and the entries of the chunk in a delivery; its checksum is compared."""
    chunk = body[1:]
    head = read_head(chunk)
    data = chunk[HEAD_BYTES:]
    assert zlib.crc32(data) == head.crc, f"the chunk at {head.offset} has another checksum"
    entries = []
    while data:
        length = int.from_bytes(data[:4], "big")
        entries.append(data[4 : 4 + length])
        data = data[4 + length :]
    assert len(entries) == head.entry_count, f"the chunk at {head.offset} lacks entries"
    return head.offset, entries
