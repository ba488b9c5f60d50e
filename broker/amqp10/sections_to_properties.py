"""The properties of AMQP 0-9-1 of a message of AMQP 1.0, from the bytes of its sections. Pure.

This runs for each message that is published with AMQP 1.0 or that a consumer of a stream gets, so
nothing is decoded: each value is copied behind its letter. It understands the forms that 0-9-1 has
as well, which are all that properties_to_sections.py writes but nested values and uuids. For
messages of other forms, such as those with a body of another kind than data, `SectionsReader.read`
returns False, and conversion.py converts them.

What the message annotations say is kept: the address and the delivery mode, in RabbitMQ 3.x's form,
are those of many messages. `Annotations` is immutable.
"""

from typing import Final

from librt.strings import (
    BytesWriter,
    read_i32_be,
    read_i64_be,
    write_i32_be,
    write_i64_be,
)
from mypy_extensions import i64, u8

from leveret.broker.amqp.properties import (
    APP_ID,
    CONTENT_ENCODING,
    CONTENT_TYPE,
    CORRELATION_ID,
    DELIVERY_MODE,
    EXPIRATION,
    HEADERS,
    MESSAGE_ID,
    PERSISTENT,
    PRIORITY,
    REPLY_TO,
    TIMESTAMP,
    TRANSIENT,
    TYPE,
    USER_ID,
)
from leveret.broker.amqp.table_scan import UNSIGNED
from leveret.broker.amqp10.annotations import OFFSET_NAME, TYPE_NAME, Annotations, read_annotations
from leveret.broker.amqp10.short_copies import copy_part, copy_short
from leveret.broker.amqp10.type_codes import (
    BINARY8,
    BINARY32,
    EMPTY_LIST,
    FALSE,
    LIST8,
    LIST32,
    MAP8,
    MAP32,
    NULL,
    SMALL_UINT,
    SMALL_ULONG,
    STRING8,
    SYMBOL8,
    TIME,
    TRUE,
    UBYTE,
    UINT,
    ZERO_UINT,
)
from leveret.broker.amqp10.values_to_fields import OTHER, write_field

KEPT_MAX: Final = 1024
"""How many different annotations are kept. Above it, all of them are dropped."""
KEPT_BYTES_MAX: Final = 1024
"""Larger annotations are not kept, and are left to conversion.py."""
NO_OFFSET: Final = -1
UNKNOWN_KIND: Final = -1
"""The properties may need care, or have an expiration."""

_HEADER: Final = 0x70
_ANNOTATIONS: Final = 0x72
_PROPERTIES: Final = 0x73
_APPLICATION_PROPERTIES: Final = 0x74
_DATA: Final = 0x75

_HEADER_MAX: Final = 5
_PROPERTIES_MAX: Final = 13

_OFFSET_FIELD: Final = b"\x0fx-stream-offsetl"
_APP_ID_NAME: Final = b"\x0ex-basic-app-id"
_B: Final = ord("B")
_C: Final = ord("C")
_x: Final = ord("x")
_DASH: Final = ord("-")
_WITHOUT: Final = Annotations()


class SectionsReader:
    """Reads messages, one after the other. is_4: as RabbitMQ 4.0 does.

    annotations: of the last message. sections_at, sections_end: where its sections properties and
    application-properties are in the bytes that were read; the same place if it has neither.
    body_at: where its body begins. to_at, subject_at, user_at: where these properties are, as short
    strings; 0 for none. kind: of its properties (`properties.scan`); UNKNOWN_KIND if they have to
    be scanned. table_at, table_end: where the headers are in the properties that were written, with
    their size; both are where headers would be if there are none.
    """

    __slots__ = (
        "_app_id",
        "_application_end",
        "_application_properties",
        "_content_encoding",
        "_content_type",
        "_correlation_id",
        "_count",
        "_created",
        "_has_plain_names",
        "_header_mode",
        "_header_priority",
        "_header_ttl",
        "_is_4",
        "_is_durable",
        "_kept",
        "_last_annotations",
        "_last_bytes",
        "_message_id",
        "_reply_to",
        "_type",
        "_user_id",
        "annotations",
        "body_at",
        "kind",
        "sections_at",
        "sections_end",
        "subject_at",
        "table_at",
        "table_end",
        "to_at",
        "user_at",
    )  # fmt: skip

    def __init__(self, is_4: bool, is_durable: bool = True) -> None:
        """is_durable: whether a message of 4.0 is durable that has no header section."""
        self._is_4 = is_4
        self._is_durable = is_durable
        self._kept: dict[bytes, Annotations] = {}
        self._last_bytes = b""
        self._last_annotations = _WITHOUT
        self.annotations = _WITHOUT
        self.sections_at: i64 = 0
        self.sections_end: i64 = 0
        self.body_at: i64 = 0
        self.to_at: i64 = 0
        self.subject_at: i64 = 0
        self.user_at: i64 = 0
        self.table_at: i64 = 0
        self.table_end: i64 = 0
        self.kind: i64 = UNKNOWN_KIND
        self._has_plain_names = True
        self._header_mode: i64 = -1
        self._header_priority: i64 = -1
        self._header_ttl: i64 = -1
        # Where each property begins: its size; 0 for none.
        self._content_type: i64 = 0
        self._content_encoding: i64 = 0
        self._correlation_id: i64 = 0
        self._reply_to: i64 = 0
        self._message_id: i64 = 0
        self._created: i64 = 0
        self._app_id: i64 = 0
        self._type: i64 = 0
        self._user_id: i64 = 0
        self._application_properties: i64 = 0
        self._application_end: i64 = 0
        self._count: i64 = 0

    def read(self, data: bytes, at: i64, end: i64) -> bool:
        """Read the sections of the message from `at` to `end`; returns whether that is possible.

        Raises IndexError if the bytes are cut off.
        """
        self._forget()
        last: i64 = 0
        while at + 5 <= end:
            code: i64 = data[at + 2]
            if data[at] or data[at + 1] != SMALL_ULONG or code <= last:
                return False
            last_before = last
            last = code
            at += 3
            if code == _DATA:
                self.sections_end = at - 3
                if last_before < _PROPERTIES:
                    self.sections_at = self.sections_end
                return self._take_body(data, at, end)
            if code >= _PROPERTIES > last_before:
                self.sections_at = at - 3
            form: i64 = data[at]
            if form == EMPTY_LIST:
                if code == _HEADER:
                    self._header_mode = TRANSIENT
                at += 1
                continue
            if form in (LIST8, MAP8):
                first: i64 = at + 3
                count: i64 = data[at + 2]
                at += 2 + data[at + 1]
            elif form in (LIST32, MAP32) and at + 9 <= end:
                first = at + 9
                count = i64(read_i32_be(data, at + 5))
                at += 5 + i64(read_i32_be(data, at + 1))
            else:
                return False
            if count < 0 or at > end or not first <= at:
                return False
            if not self._take(data, code, form, first, at, count):
                return False
        return False

    def _forget(self) -> None:
        self.annotations = _WITHOUT
        self._header_mode = -1
        self._header_priority = -1
        self._header_ttl = -1
        self._content_type = 0
        self._content_encoding = 0
        self._correlation_id = 0
        self._reply_to = 0
        self._message_id = 0
        self._created = 0
        self._app_id = 0
        self._type = 0
        self._user_id = 0
        self.to_at = 0
        self.subject_at = 0
        self.user_at = 0
        self._count = 0

    def _take(self, data: bytes, code: i64, form: i64, at: i64, end: i64, count: i64) -> bool:
        """Take a section before the body. at, end: of its values. count: of them."""
        is_list = form in (LIST8, LIST32)
        if code == _ANNOTATIONS and not is_list:
            return self._take_annotations(data, at, end, count)
        if code == _PROPERTIES and is_list:
            return self._take_properties(data, at, end, count)
        if code == _APPLICATION_PROPERTIES and not is_list and not count & 1:
            if not count and at != end:
                return False
            self._application_properties = at
            self._application_end = end
            self._count = count
            return True
        return code == _HEADER and is_list and self._take_header(data, at, end, count)

    def _take_body(self, data: bytes, at: i64, end: i64) -> bool:
        form: i64 = data[at]
        if form == BINARY8:
            self.body_at = at + 2
            return self.body_at + data[at + 1] == end
        if form == BINARY32 and at + 5 <= end:
            self.body_at = at + 5
            return self.body_at + i64(read_i32_be(data, at + 1)) == end
        return False

    def _take_header(self, data: bytes, at: i64, end: i64, count: i64) -> bool:
        """Take durable, priority and ttl. The other two fields are those that RabbitMQ writes."""
        if count > _HEADER_MAX:
            return False
        self._header_mode = TRANSIENT
        place: i64 = 0
        while place < count:
            code: i64 = data[at]
            at += 1
            if code == TRUE and place in (0, 3):
                if place == 0:
                    self._header_mode = PERSISTENT
            elif code == UBYTE and place == 1:
                self._header_priority = data[at]
                at += 1
            elif code == SMALL_UINT and place == 2:
                self._header_ttl = data[at]
                at += 1
            elif code == UINT and place == 2:
                self._header_ttl = i64(read_i32_be(data, at)) & UNSIGNED
                at += 4
            elif code == ZERO_UINT and place == 2:
                self._header_ttl = 0
            elif not _is_plain_header_value(code, place):
                return False
            place += 1
        return at == end

    def _take_annotations(self, data: bytes, at: i64, end: i64, count: i64) -> bool:
        if end - at > KEPT_BYTES_MAX:
            return False
        found = data[at:end]
        if found == self._last_bytes:
            self.annotations = self._last_annotations
            return True
        annotations = self._kept.get(found)
        if annotations is None:
            annotations = read_annotations(found, count, self._is_4)
            if annotations is None:
                return False
            if len(self._kept) >= KEPT_MAX:
                self._kept.clear()
            self._kept[found] = annotations
        self._last_bytes, self._last_annotations = found, annotations
        self.annotations = annotations
        return True

    def _take_properties(self, data: bytes, at: i64, end: i64, count: i64) -> bool:
        """Take the properties that 0-9-1 has, in the order of 1.0."""
        if count > _PROPERTIES_MAX:
            return False
        place: i64 = 0
        while place < count:
            code: i64 = data[at]
            at += 1
            if code != NULL:
                if code == TIME:
                    if place != 9 or read_i64_be(data, at) < 0:
                        return False
                    self._created = at
                    at += 8
                else:
                    if code == BINARY8 and place == 1:
                        self.user_at = at
                        user = data[at + 1 : at + 1 + data[at]]
                        if user.decode("utf-8", "surrogateescape").isprintable():
                            self._user_id = at
                    elif not self._take_text(code, place, at):
                        return False
                    at += 1 + data[at]
            place += 1
        return at == end

    def _take_text(self, code: i64, place: i64, at: i64) -> bool:
        """Take a property that is a short text. at: its size."""
        if code == STRING8:
            if place == 0:
                self._message_id = at
            elif place == 4:
                self._reply_to = at
            elif place == 5:
                self._correlation_id = at
            elif place == 10:
                self._app_id = at
            else:
                # `to` and `subject` have no place in 0-9-1, nor has `reply-to-group-id`.
                if place == 2:
                    self.to_at = at
                elif place == 3:
                    self.subject_at = at
                return place in (2, 3, 12)
            return True
        if code == SYMBOL8:
            if place == 6:
                self._content_type = at
                return True
            if place == 7:
                self._content_encoding = at
                return True
        return False

    @property
    def has_annotations(self) -> bool:
        """Whether the last message has a section of message annotations."""
        return self.annotations is not _WITHOUT

    # The properties of 0-9-1

    def write_properties(self, writer: BytesWriter, data: bytes, offset: i64) -> bool:
        """Write the properties of the message that was read, with a header for its offset in a
        stream. offset: NO_OFFSET without one. The writer is empty.

        Returns whether that is possible. Raises IndexError if the bytes are cut off.
        """
        flags: i64 = 0
        annotations = self.annotations
        self._has_plain_names = not annotations.fields
        writer.write(b"\0\0")
        if self._content_type:
            flags |= CONTENT_TYPE
            copy_short(writer, data, self._content_type)
        if self._content_encoding:
            flags |= CONTENT_ENCODING
            copy_short(writer, data, self._content_encoding)
        size_at: i64 = len(writer)
        write_i32_be(writer, 0)
        writer.write(annotations.fields)
        if self._count and not self._write_headers(writer, data):
            return False
        if offset != NO_OFFSET:
            writer.write(_OFFSET_FIELD)
            write_i64_be(writer, offset)
        size: i64 = len(writer) - size_at - 4
        if size:
            flags |= HEADERS
            writer[size_at] = u8(size >> 24)
            writer[size_at + 1] = u8(size >> 16 & 0xFF)
            writer[size_at + 2] = u8(size >> 8 & 0xFF)
            writer[size_at + 3] = u8(size & 0xFF)
        else:
            writer.truncate(size_at)
        self.table_at, self.table_end = size_at, len(writer)
        flags |= self._write_numbers(writer, annotations)
        flags |= self._write_texts(writer, data, annotations)
        writer[0] = u8(flags >> 8)
        writer[1] = u8(flags & 0xFF)
        if flags & (REPLY_TO | EXPIRATION | USER_ID) or not self._has_plain_names:
            self.kind = UNKNOWN_KIND
        return True

    def _write_numbers(self, writer: BytesWriter, annotations: Annotations) -> i64:
        flags: i64 = 0
        mode = annotations.mode
        if self._header_mode >= 0:
            mode = self._header_mode
        elif mode < 0 and self._is_4:
            mode = PERSISTENT if self._is_durable else TRANSIENT
        if mode >= 0:
            flags = DELIVERY_MODE
            writer.append(u8(mode))
        priority = self._header_priority
        if priority < 0:
            priority = annotations.priority
        if priority >= 0:
            flags |= PRIORITY
            writer.append(u8(priority))
        is_known = -1 <= mode <= PERSISTENT and mode != 0
        kind: i64 = priority + 1 << 8 | (mode if mode > 0 else TRANSIENT)
        self.kind = kind if is_known else UNKNOWN_KIND
        return flags

    def _write_texts(self, writer: BytesWriter, data: bytes, annotations: Annotations) -> i64:
        flags: i64 = 0
        if self._correlation_id:
            flags = CORRELATION_ID
            copy_short(writer, data, self._correlation_id)
        if self._reply_to:
            flags |= REPLY_TO
            copy_short(writer, data, self._reply_to)
        if self._header_ttl >= 0:
            flags |= EXPIRATION
            digits = str(self._header_ttl).encode()
            writer.append(len(digits))
            writer.write(digits)
        elif annotations.expiration:
            flags |= EXPIRATION
            writer.write(annotations.expiration)
        if self._message_id:
            flags |= MESSAGE_ID
            copy_short(writer, data, self._message_id)
        if self._created:
            flags |= TIMESTAMP
            write_i64_be(writer, read_i64_be(data, self._created) // 1000)
        if self._type:
            flags |= TYPE
            copy_short(writer, data, self._type)
        elif annotations.kind:
            flags |= TYPE
            writer.write(annotations.kind)
        if self._user_id:
            flags |= USER_ID
            copy_short(writer, data, self._user_id)
        if self._app_id:
            flags |= APP_ID
            copy_short(writer, data, self._app_id)
        return flags

    def _write_headers(self, writer: BytesWriter, data: bytes) -> bool:
        """Write the application properties as fields of headers."""
        at = self._application_properties
        count = self._count
        is_4 = self._is_4
        while count:
            count -= 2
            if data[at] != STRING8:
                return False
            name_at = at + 1
            at = name_at + 1 + data[name_at]
            first: i64 = data[name_at + 1]
            if first == _x and data[name_at + 2] == _DASH:
                name = data[name_at:at]
                self._has_plain_names = False
                if data[at] == STRING8:
                    if name == TYPE_NAME:
                        self._type = at + 1
                        at += 2 + data[at + 1]
                        continue
                    if name == _APP_ID_NAME:
                        self._app_id = at + 1
                        at += 2 + data[at + 1]
                        continue
                if name == OFFSET_NAME:
                    # It was read from another stream, or from this one.
                    start: i64 = len(writer)
                    at = write_field(writer, data, at, is_4)
                    writer.truncate(start)
                    if at == OTHER:
                        return False
                    continue
                writer.write(name)
            else:
                if first in (_B, _C):
                    self._has_plain_names = False
                copy_part(writer, data, name_at, at)
            at = write_field(writer, data, at, is_4)
            if at == OTHER:
                return False
        return at == self._application_end


def _is_plain_header_value(code: i64, place: i64) -> bool:
    """Whether a field of a header section may be ignored."""
    if code == NULL:
        return True
    if code == FALSE:
        return place in (0, 3)
    return code == ZERO_UINT and place == 4
