"""Messages for clients, as frames: the transfers of deliveries, and the sections in them. Compiled.

The frames of a run are written one after the other to a buffer. The bytes that all frames of a link
share, and the annotations of an address, are made once. The stored sections of a message from an
AMQP 1.0 client are sent unchanged; those of an AMQP 0-9-1 message are made from the bytes of its
properties. messages.py makes the sections of other messages.
"""

from typing import Final

from librt.strings import BytesWriter
from mypy_extensions import i64, u8

from leveret.broker.amqp.annotations import RECEIVED_AT, ROUTED_BY
from leveret.broker.amqp.content import COPIED_BYTES_MAX
from leveret.broker.amqp.content_header import ContentHeader
from leveret.broker.amqp.field_table import encode_short_string
from leveret.broker.amqp.properties import EXPIRES, NO_TTL, PERSISTENT, ttl_ms_of
from leveret.broker.amqp10.conversion import ENCODED_BODY_TYPE
from leveret.broker.amqp10.fields_to_values import write_uint
from leveret.broker.amqp10.properties_to_sections import SectionsWriter, address_annotations
from leveret.broker.amqp10.stored_entries import ENTRY_FORM
from leveret.broker.amqp10.type_codes import (
    BINARY8,
    BINARY32,
    FALSE,
    NULL,
    TRUE,
    UBYTE,
    ZERO_UINT,
)
from leveret.broker.amqp10.unsigned import write_uint32
from leveret.broker.protocols.amqp10.messages import FORM, SECTION_START, Delivered, annotations_of
from leveret.broker.protocols.amqp10.transfer_frames import SERIAL, encode_uint, transfer_frames
from leveret.storage.messages.message import Address, Message

_HEADER_START: Final = b"\x00\x53\x70\xc0\x00\x05"
_HEADER_SIZE_AT: Final = 4
_DATA_START: Final = b"\x00\x53\x75"
_ENCODED_TYPE: Final = encode_short_string(ENCODED_BODY_TYPE)
_X: Final = b"x-"
_DELIVERY_COUNT: Final = b"x-delivery-count"
_ACQUIRED_COUNT: Final = b"x-acquired-count"
_DEATH: Final = b"-death"
"""Part of the names of all headers of dead letters."""
_OPTIONAL: Final = b"x-opt-"
_ROUTED_BY: Final = ROUTED_BY.encode()
_RECEIVED_AT: Final = RECEIVED_AT.encode()
_UINT_MAX: Final = SERIAL - 1
_TAG_BYTES: Final = 4
_SHORT_MAX: Final = 255
_WRITER: Final = BytesWriter()
"""Emptied before each use."""


class DeliveryWriter:
    """Writes the deliveries of one link.

    channel: the session's. handle: the link's. is_settled: deliveries are sent settled.
    frame_bytes_max: the client's limit.
    """

    __slots__ = (
        "_address", "_annotations", "_channel", "_delivered", "_encoded_address",
        "_frame_bytes_max", "_handle", "_head", "_header", "_is_settled", "_sections", "_start",
        "_tail",
    )  # fmt: skip

    def __init__(self, channel: int, handle: int, is_settled: bool, frame_bytes_max: int) -> None:
        self._channel = channel
        self._handle = handle
        self._is_settled = is_settled
        self._frame_bytes_max: i64 = frame_bytes_max
        encoded = encode_uint(handle)
        self._start = b"\x02\x00" + channel.to_bytes(2, "big")
        # The list of a transfer: its size, its count, and its fields around the delivery's number.
        size = 1 + len(encoded) + 5 + 2 + _TAG_BYTES + 2
        self._head = b"\x00\x53\x14\xc0" + bytes((size, 5)) + encoded + b"\x70"
        self._tail = b"\x43\x41" if is_settled else b"\x43\x42"
        self._sections = SectionsWriter(is_4=True)
        self._address: Address | None = None
        self._annotations = b""
        self._encoded_address = b""
        # Of the last message whose sections messages.py has made.
        self._header: ContentHeader | None = None
        self._delivered: Delivered | None = None

    def write(
        self, writer: BytesWriter, message: Message, redelivered: bool, delivery_id: i64
    ) -> bool:
        """Write the frame of a delivery if its body is small and it fits into one frame.

        Returns whether it is written.
        """
        body = message.body
        size: i64 = len(body)
        if size > COPIED_BYTES_MAX:
            return False
        header = message.header
        # Compiled code reads attributes of a known class in a tenth of the time.
        assert isinstance(header, ContentHeader)
        start: i64 = len(writer)
        write_uint32(writer, 0)
        writer.write(self._start)
        self._write_transfer(writer, delivery_id)
        form = header.form
        if form is not None and form.protocol == ENTRY_FORM and header.stored is header.raw:
            # A stream stores it in the form in which it is sent, and no interceptor has changed it.
            writer.write(form.data)
        elif self._write_simple(writer, header, message.address, redelivered):
            _write_data_start(writer, size)
            writer.write(body)
        else:
            delivered = self._delivered_of(header, message.address)
            writer.write(delivered.payload(body, redelivered))
        total: i64 = len(writer) - start
        if total > self._frame_bytes_max:
            writer.truncate(start)
            return False
        writer[start] = u8(total >> 24)
        writer[start + 1] = u8(total >> 16 & 0xFF)
        writer[start + 2] = u8(total >> 8 & 0xFF)
        writer[start + 3] = u8(total & 0xFF)
        return True

    def pieces(self, message: Message, redelivered: bool, delivery_id: i64) -> list[bytes]:
        """The frames of a delivery, however large it is."""
        payload = self.payload(message, redelivered)
        number = int(delivery_id % SERIAL)
        tag = number.to_bytes(_TAG_BYTES, "big")
        return transfer_frames(
            self._channel, int(self._frame_bytes_max), self._handle, number, tag, self._is_settled,
            payload,
        )  # fmt: skip

    def payload(self, message: Message, redelivered: bool) -> bytes:
        """The sections of a message."""
        header, address, body = message.header, message.address, message.body
        assert isinstance(header, ContentHeader)
        writer = _WRITER
        writer.truncate(0)
        if self._write_simple(writer, header, address, redelivered):
            _write_data_start(writer, len(body))
            return writer.getvalue() + body
        return self._delivered_of(header, address).payload(body, redelivered)

    def _write_transfer(self, writer: BytesWriter, delivery_id: i64) -> None:
        number: i64 = delivery_id & _UINT_MAX
        writer.write(self._head)
        write_uint32(writer, number)
        writer.append(BINARY8)
        writer.append(_TAG_BYTES)
        write_uint32(writer, number)
        writer.write(self._tail)

    def _write_simple(
        self, writer: BytesWriter, header: ContentHeader, address: Address, redelivered: bool
    ) -> bool:
        """Write the sections before the body; returns whether that was possible."""
        if _has_additions(header.raw):
            return False
        if address is not self._address:
            self._address = address
            self._annotations = annotations_of(address)
            self._encoded_address = address_annotations(address.encoded, True)
        form = header.form
        start: i64 = len(writer)
        if form is None:
            sections = self._sections
            sections.write(writer, header.raw, self._encoded_address)
            if sections.has_type(header.raw, _ENCODED_TYPE):
                writer.truncate(start)
                return False
            if redelivered:
                _set_redelivered(writer, start)
            return True
        data = form.data
        if form.protocol != FORM or (data and data[0] != SECTION_START):
            return False
        _write_header(writer, header, redelivered)
        writer.write(self._annotations)
        writer.write(data)
        return True

    def _delivered_of(self, header: ContentHeader, address: Address) -> Delivered:
        delivered = self._delivered
        if delivered is None or header is not self._header or delivered.address is not address:
            delivered = self._delivered = Delivered(header, address)
            self._header = header
        return delivered


def _has_additions(raw: bytes) -> bool:
    """Whether properties may have headers that queues and interceptors add to a message, and
    that AMQP 1.0 keeps in other sections.
    """
    # The operator `in` first looks whether its left side is a number, and makes the text of an
    # error that it drops: 3% of the time of a message.
    if raw.find(_X) >= 0 and (
        _DELIVERY_COUNT in raw
        or _ACQUIRED_COUNT in raw
        or _DEATH in raw
        or _OPTIONAL in raw
        or _ROUTED_BY in raw
    ):
        return True
    return raw.find(_RECEIVED_AT) >= 0


def _write_header(writer: BytesWriter, header: ContentHeader, redelivered: bool) -> None:
    """Write the section `header`."""
    start: i64 = len(writer)
    kind: i64 = header.kind
    priority: i64 = kind >> 8 & 0x1FF
    writer.write(_HEADER_START)
    writer.append(TRUE if kind & 0xFF == PERSISTENT else FALSE)
    if priority:
        writer.append(UBYTE)
        writer.append(u8(priority - 1))
    else:
        writer.append(NULL)
    ttl: i64 = ttl_ms_of(kind) if kind & EXPIRES else NO_TTL
    if ttl >= 0:
        write_uint(writer, min(ttl, _UINT_MAX))
    else:
        writer.append(NULL)
    writer.append(FALSE if redelivered else TRUE)
    writer.append(ZERO_UINT)
    writer[start + _HEADER_SIZE_AT] = u8(len(writer) - start - _HEADER_SIZE_AT - 1)


def _set_redelivered(writer: BytesWriter, start: i64) -> None:
    """Mark a message as acquired before. start: the position of its header section."""
    size: i64 = i64(writer[start + _HEADER_SIZE_AT])
    end: i64 = start + _HEADER_SIZE_AT + 1 + size
    writer[end - 2] = u8(FALSE)


def _write_data_start(writer: BytesWriter, size: i64) -> None:
    """Write the bytes that precede the content of a data section."""
    writer.write(_DATA_START)
    if size <= _SHORT_MAX:
        writer.append(BINARY8)
        writer.append(u8(size))
    else:
        writer.append(BINARY32)
        write_uint32(writer, size)
