"""The sections of AMQP 1.0 before the body, from the bytes of the properties of AMQP 0-9-1. Pure.

This runs for each message to a stream, so nothing is decoded: each value is copied behind the code
of its type. The sections are those that RabbitMQ stores, byte for byte (the tests have
recorded ones).

    0-9-1                    RabbitMQ 3.x                          RabbitMQ 4.0
    delivery_mode            annotation x-basic-delivery-mode      header: durable
    priority                 annotation x-basic-priority           header: priority
    expiration               annotation x-basic-expiration         header: ttl
    message_id               property of this name                 `urn:uuid:...` is a uuid
    correlation_id           property of this name                 `urn:uuid:...` is a uuid
    user_id, reply_to        properties of these names             the same; of a direct reply,
                                                                   the address of its queue
    content_type, _encoding  properties of these names             the same
    timestamp (seconds)      creation-time (milliseconds)          the same
    app_id                   application property x-basic-app-id   property group-id
    type                     application property x-basic-type     annotation x-basic-type
    headers x-...            application properties                annotations
    header timestamp_in_ms   application property                  annotation (amqp/annotations.py)
    header CC                left out                              annotation x-cc
    other headers            application properties                the same
    tables and arrays        left out                              annotations, or left out
    exchange                 annotation x-exchange                 the same
    routing key              annotation x-routing-key              the same

In 4.0 a text is binary if it is not UTF-8, is longer than 4096 bytes, or has a zero. What 1.0 does
not have is null or left out: decimals, for which RabbitMQ closes the connection, what is nested too
deep, and in 4.0 expirations of 2**32 and more, of which RabbitMQ stores the remainder.
"""

import uuid
from typing import Final

from librt.strings import (
    BytesWriter,
    read_i32_be,
)
from mypy_extensions import i64, u8

from leveret.broker.amqp.annotations import RECEIVED_AT, RECEIVED_AT_IN_1_0
from leveret.broker.amqp.field_table import encode_short_string
from leveret.broker.amqp.properties import (
    APP_ID,
    CONTENT_ENCODING,
    CONTENT_TYPE,
    CORRELATION_ID,
    DELIVERY_MODE,
    DIRECT_REPLY_TO,
    EXPIRATION,
    HEADERS,
    MESSAGE_ID,
    NO_TTL,
    PERSISTENT,
    PRIORITY,
    REPLY_TO,
    TIMESTAMP,
    TYPE,
    USER_ID,
    expiration_ms,
)
from leveret.broker.amqp.table_scan import field_end
from leveret.broker.amqp10.fields_to_values import end_compound, write_field, write_time, write_uint
from leveret.broker.amqp10.short_copies import copy_part, copy_short
from leveret.broker.amqp10.type_codes import (
    BINARY8,
    FALSE,
    NULL,
    STRING8,
    SYMBOL8,
    TIME,
    TRUE,
    UBYTE,
    UUID,
)
from leveret.broker.amqp10.values import encode_string, encode_symbol

FILTER_VALUE_NAME: Final = b"x-stream-filter-value"
_FILTER_VALUE_NAME_BYTES: Final = len(FILTER_VALUE_NAME)
_URN: Final = b"urn:uuid:"
_REPLY_QUEUE: Final = f"{DIRECT_REPLY_TO}.".encode()
_QUEUES: Final = "/queues/"
_TTL_MAX: Final = (1 << 32) - 1
_NOWHERE: Final = -1

_HEADER: Final = b"\x00\x53\x70\xc0\x00\x05"
_ANNOTATIONS: Final = b"\x00\x53\x72\xc1\x00\x00"
_PROPERTIES: Final = b"\x00\x53\x73\xc0\x00\x0d"
_APPLICATION_PROPERTIES: Final = b"\x00\x53\x74\xc1\x00\x00"
_X_EXCHANGE: Final = b"\xa3\x0ax-exchange"
_X_ROUTING_KEY: Final = b"\xa3\x0dx-routing-key"
_X_MODE: Final = b"\xa3\x15x-basic-delivery-mode\x50"
_X_PRIORITY: Final = b"\xa3\x10x-basic-priority\x50"
_X_EXPIRATION: Final = b"\xa3\x12x-basic-expiration\xa1"
_X_TYPE: Final = b"\xa3\x0cx-basic-type\xa1"
_TYPE_PROPERTY: Final = b"\xa1\x0cx-basic-type\xa1"
_APP_ID_PROPERTY: Final = b"\xa1\x0ex-basic-app-id\xa1"
_X_CC: Final = b"\xa3\x04x-cc"
_RECEIVED: Final = encode_symbol(RECEIVED_AT_IN_1_0)
_RECEIVED_FIELD: Final = encode_short_string(RECEIVED_AT) + b"l"
_RECEIVED_FIELD_BYTES: Final = len(_RECEIVED_FIELD)
_ADDRESS_NAMES: Final = frozenset((b"x-exchange", b"x-routing-key"))

_NOT_FIRST: Final = b"\x41\x43"
"""RabbitMQ writes the fields first-acquirer and delivery-count of each header."""
_S: Final = ord("S")
_x: Final = ord("x")
_A: Final = ord("A")
_F: Final = ord("F")
_D: Final = ord("D")
_C: Final = ord("C")
_DASH: Final = ord("-")


class SectionsWriter:
    """Writes the sections of messages. is_4: as RabbitMQ 4.0 does.

    filter_value: of the last message, from its header x-stream-filter-value; empty if it has none.
    """

    __slots__ = (
        "_app_id", "_content_encoding", "_content_type", "_correlation_id", "_expiration", "_flags",
        "_is_4", "_message_id", "_mode", "_priority", "_reply_to", "_table", "_table_end",
        "_timestamp", "_type", "_user_id", "filter_value",
    )  # fmt: skip

    def __init__(self, is_4: bool) -> None:
        self._is_4 = is_4
        self.filter_value = b""
        self._flags: i64 = 0
        # Where each property of the message begins.
        self._content_type: i64 = 0
        self._content_encoding: i64 = 0
        self._table: i64 = 0
        self._table_end: i64 = 0
        self._mode: i64 = 0
        self._priority: i64 = 0
        self._correlation_id: i64 = 0
        self._reply_to: i64 = 0
        self._expiration: i64 = 0
        self._message_id: i64 = 0
        self._timestamp: i64 = 0
        self._type: i64 = 0
        self._user_id: i64 = 0
        self._app_id: i64 = 0

    def write(self, writer: BytesWriter, raw: bytes, address: bytes) -> None:
        """Write the sections of a message with these properties, which can be decoded.

        address: the annotations of its address (`address_annotations`).
        """
        self.filter_value = b""
        self._find(raw)
        if self._is_4:
            self._write_header(writer, raw)
            self._write_annotations_of_4(writer, raw, address)
        else:
            self._write_annotations_of_3(writer, raw, address)
        self._write_properties(writer, raw)
        self._write_application_properties(writer, raw)

    def has_type(self, raw: bytes, wanted: bytes) -> bool:
        """Whether the last message has this type. raw: its properties. wanted: a short string."""
        at = self._type
        return self._flags & TYPE != 0 and raw[at : at + len(wanted)] == wanted

    def _find(self, raw: bytes) -> None:
        """Find where the properties begin."""
        flags: i64 = raw[0] << 8 | raw[1]
        self._flags = flags
        at: i64 = 2
        if flags & CONTENT_TYPE:
            self._content_type = at
            at += 1 + raw[at]
        if flags & CONTENT_ENCODING:
            self._content_encoding = at
            at += 1 + raw[at]
        if flags & HEADERS:
            at += 4
            self._table = at
            at += i64(read_i32_be(raw, at - 4))
            self._table_end = at
        if flags & DELIVERY_MODE:
            self._mode = at
            at += 1
        if flags & PRIORITY:
            self._priority = at
            at += 1
        self._find_rest(raw, flags, at)

    def _find_rest(self, raw: bytes, flags: i64, at: i64) -> None:
        if flags & CORRELATION_ID:
            self._correlation_id = at
            at += 1 + raw[at]
        if flags & REPLY_TO:
            self._reply_to = at
            at += 1 + raw[at]
        if flags & EXPIRATION:
            self._expiration = at
            at += 1 + raw[at]
        if flags & MESSAGE_ID:
            self._message_id = at
            at += 1 + raw[at]
        if flags & TIMESTAMP:
            self._timestamp = at
            at += 8
        if flags & TYPE:
            self._type = at
            at += 1 + raw[at]
        if flags & USER_ID:
            self._user_id = at
            at += 1 + raw[at]
        if flags & APP_ID:
            self._app_id = at

    # The sections

    def _write_header(self, writer: BytesWriter, raw: bytes) -> None:
        flags = self._flags
        start: i64 = len(writer)
        writer.write(_HEADER)
        is_durable = flags & DELIVERY_MODE != 0 and raw[self._mode] == PERSISTENT
        writer.append(TRUE if is_durable else FALSE)
        if flags & PRIORITY:
            writer.append(UBYTE)
            writer.append(raw[self._priority])
        else:
            writer.append(NULL)
        ttl: i64 = expiration_ms(raw) if flags & EXPIRATION else NO_TTL
        if 0 <= ttl <= _TTL_MAX:
            write_uint(writer, ttl)
        else:
            writer.append(NULL)
        writer.write(_NOT_FIRST)
        writer[start + 4] = u8(len(writer) - start - 5)

    def _write_annotations_of_3(self, writer: BytesWriter, raw: bytes, address: bytes) -> None:
        flags = self._flags
        start: i64 = len(writer)
        writer.write(_ANNOTATIONS)
        writer.write(address)
        count: i64 = 4
        if flags & PRIORITY:
            writer.write(_X_PRIORITY)
            writer.append(raw[self._priority])
            count += 2
        if flags & DELIVERY_MODE:
            writer.write(_X_MODE)
            writer.append(raw[self._mode])
            count += 2
        if flags & EXPIRATION:
            writer.write(_X_EXPIRATION)
            copy_short(writer, raw, self._expiration)
            count += 2
        end_compound(writer, start + 3, count)

    def _write_annotations_of_4(self, writer: BytesWriter, raw: bytes, address: bytes) -> None:
        flags = self._flags
        start: i64 = len(writer)
        writer.write(_ANNOTATIONS)
        count: i64 = 4
        if flags & TYPE:
            writer.write(_X_TYPE)
            copy_short(writer, raw, self._type)
            count += 2
        if flags & HEADERS:
            count += self._write_header_annotations(writer, raw)
        writer.write(address)
        end_compound(writer, start + 3, count)

    def _write_header_annotations(self, writer: BytesWriter, raw: bytes) -> i64:
        """Write the headers that are annotations in 4.0; returns how many values they are."""
        count: i64 = 0
        at = self._table
        end = self._table_end
        while at < end:
            value_at: i64 = at + 1 + raw[at]
            if _is_extension(raw, at):
                if raw[at + 1 : value_at] in _ADDRESS_NAMES:
                    at = field_end(raw, value_at)
                    continue
                self._note_filter_value(raw, at, value_at)
                writer.append(SYMBOL8)
                copy_part(writer, raw, at, value_at)
                at = write_field(writer, raw, value_at, True, 0)
                count += 2
            elif raw[at] == 2 and raw[at + 1] == raw[at + 2] == _C and raw[value_at] == _A:
                writer.write(_X_CC)
                at = write_field(writer, raw, value_at, True, 0)
                count += 2
            elif _is_received_at(raw, at):
                at += _RECEIVED_FIELD_BYTES
                writer.write(_RECEIVED)
                writer.append(TIME)
                copy_part(writer, raw, at, at + 8)
                at += 8
                count += 2
            else:
                at = field_end(raw, value_at)
        return count

    def _write_properties(self, writer: BytesWriter, raw: bytes) -> None:
        flags = self._flags
        if not flags & _IN_PROPERTIES and not (self._is_4 and flags & APP_ID):
            return
        start: i64 = len(writer)
        writer.write(_PROPERTIES)
        if flags & MESSAGE_ID:
            self._write_id(writer, raw, self._message_id)
        else:
            writer.append(NULL)
        _write_short(writer, raw, BINARY8, self._user_id if flags & USER_ID else _NOWHERE)
        writer.append(NULL)
        writer.append(NULL)
        if flags & REPLY_TO:
            self._write_reply_to(writer, raw)
        else:
            writer.append(NULL)
        if flags & CORRELATION_ID:
            self._write_id(writer, raw, self._correlation_id)
        else:
            writer.append(NULL)
        _write_short(writer, raw, SYMBOL8, self._content_type if flags & CONTENT_TYPE else _NOWHERE)
        encoding = self._content_encoding if flags & CONTENT_ENCODING else _NOWHERE
        _write_short(writer, raw, SYMBOL8, encoding)
        writer.append(NULL)
        if flags & TIMESTAMP:
            write_time(writer, raw, self._timestamp)
        else:
            writer.append(NULL)
        has_group = self._is_4 and flags & APP_ID != 0
        _write_short(writer, raw, STRING8, self._app_id if has_group else _NOWHERE)
        writer.append(NULL)
        writer.append(NULL)
        end_compound(writer, start + 3, 13)

    def _write_reply_to(self, writer: BytesWriter, raw: bytes) -> None:
        """Write where replies go: for a direct reply, in 4.0 the address of its queue."""
        at = self._reply_to
        if self._is_4 and raw[at + 1 : at + 1 + len(_REPLY_QUEUE)] == _REPLY_QUEUE:
            name = raw[at + 1 : at + 1 + raw[at]]
            writer.write(encode_string(_QUEUES + name.decode("utf-8", "surrogateescape")))
        else:
            _write_short(writer, raw, STRING8, at)

    def _write_id(self, writer: BytesWriter, raw: bytes, at: i64) -> None:
        """Write an id, in 4.0 a uuid if it is the text of one."""
        if self._is_4 and raw[at + 1 : at + 1 + len(_URN)] == _URN:
            end = at + 1 + raw[at]
            try:
                found = uuid.UUID(raw[at + 1 + len(_URN) : end].decode()).bytes
            except ValueError:
                found = b""
            if found:
                writer.append(UUID)
                writer.write(found)
                return
        _write_short(writer, raw, STRING8, at)

    def _write_application_properties(self, writer: BytesWriter, raw: bytes) -> None:
        flags = self._flags
        is_4 = self._is_4
        if not flags & (HEADERS | TYPE | APP_ID):
            return
        start: i64 = len(writer)
        writer.write(_APPLICATION_PROPERTIES)
        count: i64 = 0
        if not is_4:
            if flags & TYPE:
                writer.write(_TYPE_PROPERTY)
                copy_short(writer, raw, self._type)
                count += 2
            if flags & APP_ID:
                writer.write(_APP_ID_PROPERTY)
                copy_short(writer, raw, self._app_id)
                count += 2
        if flags & HEADERS:
            count += self._write_headers(writer, raw)
        if count:
            end_compound(writer, start + 3, count)
        else:
            writer.truncate(start)

    def _write_headers(self, writer: BytesWriter, raw: bytes) -> i64:
        """Write the headers that are application properties; returns how many values they are."""
        is_4 = self._is_4
        count: i64 = 0
        at = self._table
        end = self._table_end
        while at < end:
            value_at: i64 = at + 1 + raw[at]
            letter: i64 = raw[value_at]
            is_extension = _is_extension(raw, at)
            if is_extension and not is_4:
                self._note_filter_value(raw, at, value_at)
            is_annotation = is_4 and (is_extension or _is_received_at(raw, at))
            if letter in (_F, _A, _D) or is_annotation:
                at = field_end(raw, value_at)
                continue
            writer.append(STRING8)
            copy_part(writer, raw, at, value_at)
            at = write_field(writer, raw, value_at, is_4, 0)
            count += 2
        return count

    def _note_filter_value(self, raw: bytes, at: i64, value_at: i64) -> None:
        """Take the value of the header at `at` if it is that of filters."""
        if (
            raw[at] == _FILTER_VALUE_NAME_BYTES
            and raw[value_at] == _S
            and raw[at + 1 : value_at] == FILTER_VALUE_NAME
        ):
            self.filter_value = raw[value_at + 5 : field_end(raw, value_at)]


_IN_PROPERTIES: Final = (
    MESSAGE_ID | USER_ID | REPLY_TO | CORRELATION_ID | CONTENT_TYPE | CONTENT_ENCODING | TIMESTAMP
)


def address_annotations(address: bytes, is_4: bool) -> bytes:
    """The annotations of an address. address: exchange and routing key as short strings."""
    key_at = 1 + address[0]
    exchange, key = address[:key_at], address[key_at:]
    if is_4:
        return b"%b\xa1%b%b\xa1%b" % (_X_EXCHANGE, exchange, _X_ROUTING_KEY, key)
    return b"%b\xa1%b%b\xa1%b" % (_X_ROUTING_KEY, key, _X_EXCHANGE, exchange)


def _is_extension(raw: bytes, at: i64) -> bool:
    """Whether the name at `at` begins with "x-"."""
    return raw[at] >= 2 and raw[at + 1] == _x and raw[at + 2] == _DASH


def _is_received_at(raw: bytes, at: i64) -> bool:
    """Whether the header at `at` says when the broker received the message."""
    end = at + _RECEIVED_FIELD_BYTES
    return raw[at] == _RECEIVED_FIELD_BYTES - 2 and raw[at:end] == _RECEIVED_FIELD


def _write_short(writer: BytesWriter, raw: bytes, code: int, at: i64) -> None:
    """Write the short string at `at` behind a code; null for `_NOWHERE`."""
    if at == _NOWHERE:
        writer.append(NULL)
    else:
        writer.append(code)
        copy_short(writer, raw, at)
