"""Converts the entries of a chunk to messages of AMQP 0-9-1, one pass over the bytes of a chunk.

Most messages differ only in their bodies from others, so what the sections before the body say is
kept: an address, and properties in which only the offset is replaced. Entries whose sections are of
another form are decoded one by one. Messages of the stream protocol's clients have no address:
theirs is the stream's name. They may be bytes that are no message of AMQP 1.0: these are the body
of a message without properties.

A batch that a client has compressed is decompressed if the standard library can; the messages of
others are left out.
"""

import logging
import struct
import zlib
from struct import Struct
from typing import Final

from leveret.broker.amqp.content import encode_address
from leveret.broker.amqp.content_header import ContentHeader, header_with, read_header
from leveret.broker.amqp10.conversion import Amqp091Message, ConversionRules, to_amqp091
from leveret.broker.amqp10.sections import DATA, HEADER, read_message
from leveret.broker.amqp10.values import Amqp10Error
from leveret.broker.queues.contract.offset_specification import OFFSET_ARGUMENT
from leveret.storage.messages.addresses import Addresses
from leveret.storage.messages.message import Address, Entry, Message
from leveret.storage.stream_log.chunks import HEAD_BYTES, read_head

KEPT_MAX: Final = 1024
"""How many different sections are kept. Above it, all of them are dropped."""
BATCH_BYTES_MAX: Final = 64 * 1024 * 1024
"""A batch that claims to be larger is left out: a client may lie about it."""
DELIVERY_BYTES_MAX: Final = 512 * 1024
"""About the most bytes that are given to one consumer at a time."""
_SIZE = Struct(">I")
_OFFSET = Struct(">q")
_BATCH = Struct(">BHII")
_IS_BATCH: Final = 0x80
_UNCOMPRESSED, _GZIP = 0, 1
_COMPRESSIONS: Final = {2: "snappy", 3: "lz4", 4: "zstd"}
_GZIP_FORMAT: Final = 16 + zlib.MAX_WBITS
_EMPTY_LIST, _LIST8, _MAP8, _LIST32, _MAP32 = 0x45, 0xC0, 0xC1, 0xD0, 0xD1
_BINARY8, _BINARY32 = 0xA0, 0xB0
_NO_BODY: Final = -1

logger = logging.getLogger("leveret.cluster")


class _Template:
    """What messages with the same sections before the body have in common.

    kind: that of their properties. before, after: the properties around the offset.
    """

    __slots__ = ("address", "after", "before", "kind")

    def __init__(self, address: Address, header: ContentHeader) -> None:
        self.address = address
        raws = [
            header.replace(headers={**header.headers, OFFSET_ARGUMENT: ("l", number)}).raw
            for number in (0, -1)
        ]
        at = next(place for place, octet in enumerate(raws[0]) if octet != raws[1][place])
        self.before, self.after = raws[0][:at], raws[0][at + _OFFSET.size :]
        self.kind = read_header(raws[0]).kind

    def message(self, body: bytes, offset: int) -> Message:
        """The message with a body at an offset."""
        raw = self.before + _OFFSET.pack(offset) + self.after
        return Message(self.address, ContentHeader(raw, self.kind, (), False, raw), body)


class StoredMessageReader:
    """Decodes messages for the consumers of one stream. addresses: shared by a node's messages.

    stream: its name.
    """

    __slots__ = ("_addresses", "_kept", "_rules", "_stream", "_without_properties")

    def __init__(self, stream: str, addresses: Addresses, rules: ConversionRules) -> None:
        self._stream = stream
        self._addresses = addresses
        self._rules = rules
        self._kept: dict[bytes, _Template] = {}
        self._without_properties = _Template(self._address("", stream), header_with())

    def message(self, data: bytes, offset: int) -> Message:
        """The message whose sections these bytes are."""
        body_at = _body_at(data)
        if body_at == _NO_BODY:
            return self._decoded(data, offset)
        sections = data[:body_at]
        template = self._kept.get(sections)
        if template is None:
            try:
                template = self._template(self._converted(sections))
            except (Amqp10Error, ValueError):
                return self._without_properties.message(data, offset)
            if len(self._kept) >= KEPT_MAX:
                self._kept.clear()
            self._kept[sections] = template
        return template.message(
            data[body_at + (5 if data[body_at + 3] == _BINARY8 else 8) :], offset
        )

    def _decoded(self, data: bytes, offset: int) -> Message:
        """A message whose body is not one data section that is the last section."""
        try:
            converted = self._converted(data)
            return self._template(converted).message(converted.body, offset)
        except (Amqp10Error, ValueError):
            return self._without_properties.message(data, offset)

    def _converted(self, data: bytes) -> Amqp091Message:
        """The message with these sections. Raises Amqp10Error, ValueError."""
        message = read_message(data)
        converted = to_amqp091(message, self._rules)
        if message.annotation("x-routing-key").kind == "null":
            return converted._replace(routing_key=self._stream)
        return converted

    def _template(self, converted: Amqp091Message) -> _Template:
        properties = {
            **converted.properties,
            "headers": dict(converted.properties.get("headers", {})),
        }
        header = header_with(**properties)
        return _Template(self._address(converted.exchange, converted.routing_key), header)

    def _address(self, exchange: str, routing_key: str) -> Address:
        return self._addresses.find(encode_address(exchange, routing_key))


def _body_at(data: bytes) -> int:
    """Where the body begins, if it is one data section at the end; `_NO_BODY` otherwise."""
    at, size = 0, len(data)
    while at + 4 < size:
        code = data[at + 2]
        if data[at] or data[at + 1] != 0x53 or not HEADER <= code <= DATA:
            return _NO_BODY
        form = data[at + 3]
        if code == DATA:
            if form == _BINARY8:
                return at if at + 5 + data[at + 4] == size else _NO_BODY
            if form == _BINARY32 and at + 8 <= size:
                return at if at + 8 + _SIZE.unpack_from(data, at + 4)[0] == size else _NO_BODY
            return _NO_BODY
        if form == _EMPTY_LIST:
            at += 4
        elif form in {_LIST8, _MAP8}:
            at += 5 + data[at + 4]
        elif form in {_LIST32, _MAP32} and at + 8 <= size:
            at += 8 + _SIZE.unpack_from(data, at + 4)[0]
        else:
            return _NO_BODY
    return _NO_BODY


class ChunkEntries:
    """The messages of one chunk, which a consumer takes in parts.

    next_offset: of the next message. time_ms: when the chunk was made.
    """

    __slots__ = ("_at", "_chunk", "_end", "_first", "_left", "_reader", "next_offset", "time_ms")

    def __init__(self, reader: StoredMessageReader, chunk: bytes, first: int) -> None:
        """first: the offset of the first message that the consumer wants."""
        head = read_head(chunk)
        self._reader = reader
        self._chunk = chunk
        self._first = first
        self._at = HEAD_BYTES + head.filter_bytes
        self._end = self._at + head.entries_bytes
        self._left: list[bytes] = []
        self.next_offset = head.offset
        self.time_ms = head.time_ms

    @property
    def is_empty(self) -> bool:
        """Whether all messages were taken."""
        return self._at >= self._end and not self._left

    def take(self, count: int) -> list[Entry]:
        """The next messages as entries, at most `count`. Their positions are their offsets.

        Raises ValueError if the chunk is damaged.
        """
        entries: list[Entry] = []
        chunk, reader = self._chunk, self._reader
        octets = 0
        while len(entries) < count and octets < DELIVERY_BYTES_MAX:
            if self._left:
                data = self._left.pop()
            elif self._at >= self._end:
                break
            elif chunk[self._at] & _IS_BATCH:
                self._unpack_batch()
                continue
            else:
                begin = self._at + _SIZE.size
                self._at = begin + _SIZE.unpack_from(chunk, self._at)[0]
                if self.next_offset < self._first:
                    self.next_offset += 1
                    continue
                data = chunk[begin : self._at]
            offset = self.next_offset
            self.next_offset += 1
            if offset >= self._first:
                entries.append(Entry(reader.message(data, offset), offset))
                octets += len(data)
        return entries

    def _unpack_batch(self) -> None:
        """Decompress the next entry, a batch of messages."""
        kind, count, size, stored = _BATCH.unpack_from(self._chunk, self._at)
        begin = self._at + _BATCH.size
        self._at = begin + stored
        compression = kind >> 4 & 7
        try:
            data = _decompressed(self._chunk[begin : self._at], compression, size)
            self._left = _messages_of(data, count)[::-1]
        except (ValueError, struct.error, zlib.error) as error:
            logger.warning(
                "%d messages from offset %d of a stream on are left out: their batch cannot be "
                "read: %s", count, self.next_offset, error,
            )  # fmt: skip
            self.next_offset += count


def _decompressed(data: bytes, compression: int, size: int) -> bytes:
    """The messages of a batch, with their sizes. Raises ValueError and zlib.error."""
    if compression == _UNCOMPRESSED:
        return data
    if compression != _GZIP:
        raise ValueError(
            f"this node cannot decompress {_COMPRESSIONS.get(compression, compression)}"
        )
    if size > BATCH_BYTES_MAX:
        raise ValueError(f"it has {size} bytes; {BATCH_BYTES_MAX} are allowed")
    return zlib.decompressobj(_GZIP_FORMAT).decompress(data, size)


def _messages_of(data: bytes, count: int) -> list[bytes]:
    """The messages of a batch. Raises ValueError and struct.error."""
    messages: list[bytes] = []
    at = 0
    for _ in range(count):
        first = at + _SIZE.size
        at = first + _SIZE.unpack_from(data, at)[0]
        messages.append(data[first:at])
    if at != len(data):
        raise ValueError(f"{count} messages of {at} bytes are in {len(data)} bytes")
    return messages
