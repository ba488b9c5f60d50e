"""Converts messages of AMQP 0-9-1 to entries of a stream: a size, then sections of AMQP 1.0.

The sections before the body are written from the bytes of the properties, without decoding them
(broker/amqp10/properties_to_sections.py). A body is copied once, when a command is made of entries.
A message from a client of AMQP 1.0 is stored with the sections that its publisher has sent.
"""

from typing import Final

from librt.strings import BytesWriter, write_i32_be
from mypy_extensions import i64, u8

from leveret.broker.amqp.content_header import ContentHeader
from leveret.broker.amqp.field_table import encode_short_string
from leveret.broker.amqp10.conversion import ENCODED_BODY_TYPE, ConversionRules
from leveret.broker.amqp10.properties_to_sections import SectionsWriter, address_annotations
from leveret.broker.protocols.amqp10.messages import FORM, Delivered
from leveret.storage.messages.message import Message

_LARGE_BODY: Final = b"\x00\x53\x75\xb0"
_SMALL_BODY: Final = b"\x00\x53\x75\xa0"
_SMALL_MAX: Final = 255
_SIZE_BYTES: Final = 4
_ENCODED_TYPE: Final = encode_short_string(ENCODED_BODY_TYPE)
_WRITER: Final = BytesWriter()
"""Emptied before each entry."""


class EntryWriter:
    """Makes entries. rules: those of a version of RabbitMQ."""

    __slots__ = ("_address", "_annotations", "_is_4", "_sections")

    def __init__(self, rules: ConversionRules) -> None:
        self._is_4: bool = rules.is_4
        self._sections = SectionsWriter(rules.is_4)
        self._address: object = None
        self._annotations = b""

    def write(
        self, messages: list[Message], pieces: list[bytes], filter_values: list[bytes]
    ) -> int:
        """Add the bytes of the entries of messages to `pieces`; returns how many there are.

        filter_values: gets one for each message, if any of them has one.
        """
        octets: i64 = 0
        sections = self._sections
        is_4 = self._is_4
        writer = _WRITER
        for place, message in enumerate(messages):
            header, body = message.header, message.body
            assert isinstance(header, ContentHeader), "messages are published with content headers"
            raw = header.raw
            address = message.address
            if address is not self._address:
                self._address = address
                self._annotations = address_annotations(address.encoded, is_4)
            writer.truncate(0)
            write_i32_be(writer, 0)
            sections.write(writer, raw, self._annotations)
            size: i64 = len(body)
            form = header.form
            if form is not None and form.protocol == FORM:
                writer.truncate(_SIZE_BYTES)
                writer.write(Delivered(header, address).payload(body, redelivered=False))
                body = b""
                size = 0
            # RabbitMQ 4.0 stores the sections of a body unchanged, and earlier versions as data.
            elif not is_4 or not sections.has_type(raw, _ENCODED_TYPE):
                if size <= _SMALL_MAX:
                    writer.write(_SMALL_BODY)
                    writer.append(u8(size))
                else:
                    writer.write(_LARGE_BODY)
                    write_i32_be(writer, len(body))
            size += len(writer)
            _set_size(writer, size - _SIZE_BYTES)
            pieces.append(writer.getvalue())
            pieces.append(body)
            octets += size
            if sections.filter_value:
                filter_values += [b""] * (place - len(filter_values))
                filter_values.append(sections.filter_value)
        if filter_values:
            filter_values += [b""] * (len(messages) - len(filter_values))
        return octets


def _set_size(writer: BytesWriter, size: i64) -> None:
    """Set the size at the beginning."""
    writer[0] = u8(size >> 24)
    writer[1] = u8(size >> 16 & 0xFF)
    writer[2] = u8(size >> 8 & 0xFF)
    writer[3] = u8(size & 0xFF)
