"""Converts the entries of a chunk to messages of AMQP 0-9-1, one pass over the bytes of a chunk.

Most messages have sections that 0-9-1 has as well: their properties are copied from the bytes
(broker/amqp10/sections_to_properties.py). Others are decoded. Messages of the stream protocol's
clients have no address: theirs is the stream's name. They may be bytes that are no message of
AMQP 1.0: these are the body of a message without properties.

A batch that a client has compressed is decompressed if the standard library can; the messages of
others are left out.
"""

import logging
import struct
import zlib
from struct import Struct
from typing import Final

from librt.strings import BytesWriter, read_i32_be
from mypy_extensions import i64

from leveret.broker.amqp.content import encode_address
from leveret.broker.amqp.content_header import ContentHeader, Form, header_with
from leveret.broker.amqp.properties import Properties, scan
from leveret.broker.amqp10.conversion import ConversionRules, to_amqp091
from leveret.broker.amqp10.filters.message_filter import MessageFilter
from leveret.broker.amqp10.sections import read_message
from leveret.broker.amqp10.sections_to_properties import UNKNOWN_KIND, SectionsReader
from leveret.broker.amqp10.stored_entries import ENTRY_FORM, delivered_sections
from leveret.broker.amqp10.values import Amqp10Error
from leveret.broker.queues.contract.offset_specification import OFFSET_ARGUMENT
from leveret.storage.messages.addresses import Addresses
from leveret.storage.messages.message import Address, Entry, Message
from leveret.storage.stream_log.chunks import HEAD_BYTES, read_head

BATCH_BYTES_MAX: Final = 64 * 1024 * 1024
"""A batch that claims to be larger is left out: a client may lie about it."""
DELIVERY_BYTES_MAX: Final = 512 * 1024
"""The approximate limit of the bytes that are given to one consumer at a time."""
DECODED_MAX: Final = 64
"""The limit of messages to decode at a time, which bounds a turn."""
_SIZE = Struct(">I")
_BATCH = Struct(">BHII")
_IS_BATCH: Final = 0x80
_UNCOMPRESSED, _GZIP = 0, 1
_COMPRESSIONS: Final = {2: "snappy", 3: "lz4", 4: "zstd"}
_GZIP_FORMAT: Final = 16 + zlib.MAX_WBITS
_NO_EXCHANGE: Final = b"\0"
_WRITER: Final = BytesWriter()
"""Emptied before each message."""

logger = logging.getLogger("leveret.cluster")


class StoredMessageReader:
    """Decodes messages for the consumers of one stream. addresses: shared by a node's messages.

    stream: its name. decoded: how many messages had to be decoded, or to be looked at by a filter,
    since it was made.
    """

    __slots__ = (
        "_address", "_addresses", "_annotations", "_own_address", "_rules", "_sections", "_stream",
        "decoded",
    )  # fmt: skip

    def __init__(self, stream: str, addresses: Addresses, rules: ConversionRules) -> None:
        self._stream = stream
        self._addresses = addresses
        self._rules = rules
        self._sections = SectionsReader(rules.is_4)
        self._own_address = self._address = addresses.find(encode_address("", stream))
        self._annotations = self._sections.annotations
        self.decoded: i64 = 0

    def message(self, data: bytes, at: i64, end: i64, offset: i64) -> Message:
        """The message whose sections are from `at` to `end`."""
        sections, writer = self._sections, _WRITER
        try:
            writer.truncate(0)
            if sections.read(data, at, end) and sections.write_properties(writer, data, offset):
                raw = writer.getvalue()
                kind = sections.kind
                if kind == UNKNOWN_KIND:
                    kind = scan(raw)
                header = ContentHeader(raw, kind, (), False, raw)
                return Message(self._found_address(), header, data[sections.body_at : end])
        except IndexError:
            # A value is cut off.
            pass
        return self._decoded(data[at:end], offset)

    def _found_address(self) -> Address:
        """The address of the message that was read last."""
        annotations = self._sections.annotations
        if annotations is not self._annotations:
            self._annotations = annotations
            self._address = self._own_address
            if annotations.routing_key:
                exchange = annotations.exchange or _NO_EXCHANGE
                self._address = self._addresses.find(exchange + annotations.routing_key)
        return self._address

    def _decoded(self, data: bytes, offset: int) -> Message:
        """A message of any form."""
        self.decoded += 1
        try:
            message = read_message(data)
            converted = to_amqp091(message, self._rules)
            key = converted.routing_key
            if message.annotation("x-routing-key").kind == "null":
                key = self._stream
            address = self._addresses.find(encode_address(converted.exchange, key))
            properties, body = converted.properties, converted.body
            header = self._header(properties, offset)
        except (Amqp10Error, ValueError):
            return Message(self._own_address, self._header({}, offset), data)
        return Message(address, header, body)

    def keep_sections(self, message: Message, entry: bytes, offset: int) -> None:
        """Give a message that `message` has made of an entry its sections as a form."""
        header, address = message.header, message.address
        assert isinstance(header, ContentHeader), "messages of streams have headers of their own"
        sections = delivered_sections(
            entry, address.exchange, address.routing_key, offset, is_durable=self._rules.is_4
        )
        if sections is not None:
            header.form = Form(ENTRY_FORM, sections)

    def _header(self, properties: Properties, offset: int) -> ContentHeader:
        headers = {**properties.get("headers", {}), OFFSET_ARGUMENT: ("l", offset)}
        return header_with(**{**properties, "headers": headers})


class ChunkEntries:
    """The messages of one chunk, which a consumer takes in parts.

    next_offset: the offset of the next message. time_ms: the time of the chunk.
    """

    __slots__ = (
        "_at", "_chunk", "_end", "_filter", "_first", "_keeps_entries", "_left", "_reader",
        "next_offset", "time_ms",
    )  # fmt: skip

    def __init__(
        self, reader: StoredMessageReader, chunk: bytes, first: int,
        message_filter: MessageFilter | None = None, keeps_entries: bool = False,
    ) -> None:  # fmt: skip
        """first: the offset of the first message that the consumer wants.

        message_filter: leaves messages out; None for all messages. keeps_entries: the headers of
        messages have their entries as forms.
        """
        head = read_head(chunk)
        self._reader = reader
        self._chunk = chunk
        self._first = first
        self._filter = message_filter
        self._keeps_entries = keeps_entries
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

        There may be none though the chunk has more, as a filter looks at few messages at a time.
        Raises ValueError if the chunk is damaged.
        """
        entries: list[Entry] = []
        chunk, reader, message_filter = self._chunk, self._reader, self._filter
        octets: i64 = 0
        decoded_end: i64 = reader.decoded + DECODED_MAX
        first, offset = self._first, self.next_offset
        at: i64 = self._at
        while len(entries) < count and octets < DELIVERY_BYTES_MAX and reader.decoded < decoded_end:
            if self._left:
                data = self._left.pop()
                begin: i64 = 0
                end: i64 = len(data)
            elif at >= self._end:
                break
            elif chunk[at] & _IS_BATCH:
                self._at, self.next_offset = at, offset
                self._unpack_batch()
                at, offset = self._at, self.next_offset
                continue
            else:
                data = chunk
                begin = at + _SIZE.size
                end = at = begin + i64(read_i32_be(chunk, at))
                if not begin <= end <= self._end:
                    raise ValueError(f"an entry of {end - begin} bytes is larger than its chunk")
            if offset >= first and (message_filter is None or self._passes(data, begin, end)):
                message = reader.message(data, begin, end, offset)
                if self._keeps_entries:
                    reader.keep_sections(message, data[begin:end], offset)
                entries.append(Entry(message, offset))
                octets += end - begin
            offset += 1
        self._at, self.next_offset = at, offset
        return entries

    def _passes(self, data: bytes, begin: i64, end: i64) -> bool:
        """Whether the filter lets a message pass. There has to be one."""
        self._reader.decoded += 1
        message_filter = self._filter
        return message_filter is not None and message_filter.matches(data, begin, end)

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
