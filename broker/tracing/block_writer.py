"""Writes the records of a trace log into a block, in the format of block_format.py.

This is on the path of each message, so a record is a few integers, written unencoded. Data that
records share is defined once in a block: texts, and the properties of a message that is both
published and delivered while the block is being written.
"""

from typing import Final

import msgspec
from librt.strings import BytesWriter, write_i32_le, write_i64_le

from leveret.broker.amqp.content_header import ContentHeader
from leveret.broker.tracing.block_format import (
    ACK,
    BODY,
    DELIVER,
    LENGTH,
    MAGIC,
    PROPERTIES,
    PUBLISH,
    RECORD,
    TEXT,
    VERSION,
)

NEVER: Final = -1


class SharedText:
    """A text that records share. Empty if there are no such records.

    block, number: the last block in which it was defined, and its number there.
    """

    __slots__ = ("block", "number", "text")

    def __init__(self, text: bytes) -> None:
        self.text = text
        self.block: int = NEVER
        self.number: int = 0


class BlockWriter:
    """The block of one log that is being written. records: the number of its records."""

    __slots__ = (
        "_block", "_from_us", "_node", "_properties", "_sample", "_texts", "_to_us", "_vhost",
        "_writer", "records",
    )  # fmt: skip

    def __init__(self, node: str, vhost: str, sample: int) -> None:
        """vhost: its name as records show it. sample: one message in this number is in the log."""
        self._node = node
        self._vhost = vhost
        self._sample = sample
        self._block: int = 0
        self._texts: int = 0
        self._properties: dict[ContentHeader, int] = {}
        self._from_us: int = 0
        self._to_us: int = 0
        self._writer = BytesWriter()
        self.records: int = 0

    @property
    def size(self) -> int:
        """The bytes of its contents."""
        return len(self._writer)

    def published(
        self,
        start: SharedText,
        about: SharedText,
        header: ContentHeader,
        time_us: int,
        message: int,
        body_size: int,
    ) -> None:
        """Add the record of a publish."""
        first, second = self._number_of(start), self._number_of(about)
        properties = self._number_of_properties(header)
        self._count(time_us)
        writer = self._writer
        writer.append(PUBLISH)
        write_i32_le(writer, first)
        write_i32_le(writer, second)
        write_i32_le(writer, properties)
        write_i64_le(writer, time_us)
        write_i64_le(writer, message)
        write_i32_le(writer, body_size)

    def delivered(
        self,
        start: SharedText,
        about: SharedText,
        header: ContentHeader,
        time_us: int,
        message: int,
        body_size: int,
        delivery_tag: int,
        redelivered: bool,
    ) -> None:
        """Add the record of a delivery."""
        first, second = self._number_of(start), self._number_of(about)
        properties = self._number_of_properties(header)
        self._count(time_us)
        writer = self._writer
        writer.append(DELIVER)
        write_i32_le(writer, first)
        write_i32_le(writer, second)
        write_i32_le(writer, properties)
        write_i64_le(writer, time_us)
        write_i64_le(writer, message)
        write_i32_le(writer, body_size)
        write_i64_le(writer, delivery_tag)
        writer.append(1 if redelivered else 0)

    def acked(self, start: SharedText, time_us: int, message: int, delivery_tag: int) -> None:
        """Add the record of an acknowledgement."""
        first = self._number_of(start)
        self._count(time_us)
        writer = self._writer
        writer.append(ACK)
        write_i32_le(writer, first)
        write_i64_le(writer, time_us)
        write_i64_le(writer, message)
        write_i64_le(writer, delivery_tag)

    def happened(self, time_us: int, line: bytes) -> None:
        """Add any other record, as a line."""
        self._count(time_us)
        self._add_bytes(RECORD, line)

    def add_body(self, body: bytes) -> None:
        """Add the body of the record that is added next."""
        self._add_bytes(BODY, body)

    def take(self) -> bytes:
        """The block, if it has records; later records are in the next one."""
        if not self.records:
            return b""
        header = {
            "version": VERSION, "node": self._node, "vhost": self._vhost, "sample": self._sample,
            "records": int(self.records), "from_us": int(self._from_us), "to_us": int(self._to_us),
        }  # fmt: skip
        encoded = msgspec.json.encode(header)
        block = b"".join((MAGIC, LENGTH.pack(len(encoded)), encoded, self._writer.getvalue()))
        self._writer = BytesWriter()
        self._block += 1
        self._texts = 0
        self._properties = {}
        self.records = self._from_us = self._to_us = 0
        return block

    def _count(self, time_us: int) -> None:
        if not self.records:
            self._from_us = self._to_us = time_us
        elif time_us > self._to_us:
            self._to_us = time_us
        elif time_us < self._from_us:
            self._from_us = time_us
        self.records += 1

    def _number_of(self, shared: SharedText) -> int:
        """The number of a text in this block."""
        if shared.block != self._block:
            self._add_bytes(TEXT, shared.text)
            shared.block = self._block
            shared.number = self._texts
            self._texts += 1
        return shared.number

    def _number_of_properties(self, header: ContentHeader) -> int:
        """The number of a message's properties in this block."""
        known = self._properties
        number = known.get(header)
        if number is None:
            self._add_bytes(PROPERTIES, header.raw)
            number = known[header] = len(known)
        return number

    def _add_bytes(self, kind: int, data: bytes) -> None:
        writer = self._writer
        writer.append(kind)
        write_i32_le(writer, len(data))
        writer.write(data)
