"""The properties of a message as they are on the wire: flags, then the values that are present.

The broker delivers a message with the bytes of its properties unchanged, so that most are never
decoded. `ContentHeader` keeps those bytes and reads only what routing and queueing need; it steps
over the others, so that it is known that they can be decoded. Several messages, each in several
queues, may share one `ContentHeader`, so it is never changed.
"""

import struct
from collections.abc import Sequence
from typing import Any

import msgspec

from leveret.broker.amqp.field_table import (
    FieldTableError,
    Table,
    decode_table,
    encode_short_string,
    encode_table,
    table_end,
    text_of,
)

Properties = dict[str, Any]
"""Property names to values, in the order of the wire; `headers` is a `Table`."""

CONTENT_TYPE = 0x8000
CONTENT_ENCODING = 0x4000
HEADERS = 0x2000
DELIVERY_MODE = 0x1000
PRIORITY = 0x0800
USER_ID = 0x0010
EXPIRATION = 0x0100
REPLY_TO = 0x0200
TIMESTAMP = 0x0040
FLAGS_CONTINUED = 0x0001
TEXTS_BEFORE_TIMESTAMP, TEXTS_AFTER_TIMESTAMP = 0x0780, 0x003C
AFTER_PRIORITY = TEXTS_BEFORE_TIMESTAMP | TIMESTAMP | TEXTS_AFTER_TIMESTAMP | FLAGS_CONTINUED

PROPERTY_TYPES: tuple[tuple[str, int, str], ...] = (
    ("content_type", 0x8000, "shortstr"),
    ("content_encoding", 0x4000, "shortstr"),
    ("headers", HEADERS, "table"),
    ("delivery_mode", DELIVERY_MODE, "octet"),
    ("priority", PRIORITY, "octet"),
    ("correlation_id", 0x0400, "shortstr"),
    ("reply_to", REPLY_TO, "shortstr"),
    ("expiration", EXPIRATION, "shortstr"),
    ("message_id", 0x0080, "shortstr"),
    ("timestamp", 0x0040, "timestamp"),
    ("type", 0x0020, "shortstr"),
    ("user_id", USER_ID, "shortstr"),
    ("app_id", 0x0008, "shortstr"),
    ("cluster_id", 0x0004, "shortstr"),
)
"""Name, flag and wire type of each property, in order (specification, section 4.2.6.1)."""

DIRECT_REPLY_TO = "amq.rabbitmq.reply-to"
_DIRECT_REPLY_TO_BYTES = DIRECT_REPLY_TO.encode()
PERSISTENT = 2
TRANSIENT = 1
NOWHERE = -1

_U16 = struct.Struct(">H")
_U64 = struct.Struct(">Q")


STORED_BCC = "x-leveret-BCC"
"""The header in which the keys of BCC are on disk. A client's header of this name is removed."""
_STORED_BCC_BYTES = STORED_BCC.encode()


class PropertiesError(ValueError):
    """The bytes are not a property list."""


class ContentHeader(msgspec.Struct, gc=False, eq=False):
    """The properties that a message was published with.

    raw: the property flags and values as received, and as consumers get them.
    stored: what is kept on disk of them.
    delivery_mode: 1, 2 or what the publisher sent; 1 if it sent none.
    priority: None if the publisher set none.
    needs_care: the publish path must decode the header: it has an expiration, a user id, a CC, BCC
        or x-death header, a direct reply-to or an unknown delivery mode (or bytes that look like
        one of these).
    kind: messages of one kind may be published together: they have the same delivery mode and
        priority, and the same need for care.
    bcc_keys: the routing keys of the BCC header that was removed, because consumers must not see
        it.
    is_kept: the message survives a restart whatever its delivery mode is.

    Not tracked by the garbage collector: each message may have a header of its own
    (storage/message.py says why messages are not).
    """

    raw: bytes
    delivery_mode: int = TRANSIENT
    priority: int | None = None
    needs_care: bool = False
    kind: int = TRANSIENT
    bcc_keys: Sequence[str] = ()
    is_kept: bool = False
    stored: bytes = b""
    _properties: Properties | None = None

    def __post_init__(self) -> None:
        """Find what queues need. Raises PropertiesError."""
        if not self.stored:
            self.stored = self.raw
        if self.raw != b"\0\0":
            self._scan(self.raw)

    def _scan(self, raw: bytes) -> None:
        """Find the few values that queues need, and check that the rest can be decoded later."""
        try:
            flags = raw[0] << 8 | raw[1]
            position = 2
            if flags & (CONTENT_TYPE | CONTENT_ENCODING | HEADERS):
                position = _headers_end(raw, flags)
            if flags & DELIVERY_MODE:
                self.delivery_mode = raw[position]
                position += 1
            if flags & PRIORITY:
                self.priority = raw[position]
                position += 1
            if flags & AFTER_PRIORITY:
                position = _rest_end(raw, flags, position)
        except (struct.error, IndexError, FieldTableError):
            position = NOWHERE
        if position != len(raw):
            raise PropertiesError(_problem_of(raw))
        self.needs_care = bool(
            flags & (EXPIRATION | USER_ID)
            or self.delivery_mode not in (TRANSIENT, PERSISTENT)
            or (flags & HEADERS and (b"\2CC" in raw or b"BCC" in raw or b"x-death" in raw))
            or (flags & REPLY_TO and _DIRECT_REPLY_TO_BYTES in raw)
        )
        priority = 0 if self.priority is None else self.priority + 1
        self.kind = self.needs_care << 17 | priority << 8 | self.delivery_mode

    @property
    def is_persistent(self) -> bool:
        """Whether the message survives a restart in a durable queue."""
        return self.is_kept or self.delivery_mode == PERSISTENT

    @property
    def properties(self) -> Properties:
        """Every property that is present. Shared: must not be changed."""
        if self._properties is None:
            self._properties = decode_properties(self.raw)
        return self._properties

    @property
    def headers(self) -> Table:
        """The headers table, empty if there is none. Shared: must not be changed."""
        headers: Table = self.properties.get("headers", {})
        return headers

    def as_persistent(self) -> "ContentHeader":
        """The same header, of a message that is kept on disk whatever its delivery mode is."""
        return ContentHeader(self.raw, bcc_keys=self.bcc_keys, is_kept=True, stored=self.stored)

    def replace(self, **changes: Any) -> "ContentHeader":
        """A copy with these properties changed; None removes one. The keys of BCC stay."""
        merged = {**self.properties, **changes}
        return blind_copy(encode_properties(merged), self.bcc_keys)


def blind_copy(raw: bytes, bcc_keys: Sequence[str]) -> ContentHeader:
    """A header whose BCC header was removed. On disk its keys are in a header of the broker."""
    if not bcc_keys:
        return ContentHeader(raw)
    properties = decode_properties(raw)
    mark = ("A", [("S", key) for key in bcc_keys])
    headers = {**properties.get("headers", {}), STORED_BCC: mark}
    stored = encode_properties({**properties, "headers": headers})
    return ContentHeader(raw, bcc_keys=tuple(bcc_keys), stored=stored)


def read_stored(raw: bytes) -> ContentHeader:
    """The header whose `stored` these bytes are. Raises PropertiesError."""
    header = ContentHeader(raw)
    if _STORED_BCC_BYTES not in raw or STORED_BCC not in header.headers:
        return header
    headers = dict(header.headers)
    _, keys = headers.pop(STORED_BCC)
    return blind_copy(header.replace(headers=headers or None).raw, [key for _, key in keys])


def _problem_of(raw: bytes) -> str:
    """Why these bytes are no property list."""
    try:
        decode_properties(raw)
    except (struct.error, IndexError, FieldTableError, PropertiesError) as error:
        return str(error)
    return "the properties end too early or go on too long"


def _headers_end(raw: bytes, flags: int) -> int:
    """The offset after the headers, or after what comes before them."""
    position = 2
    if flags & CONTENT_TYPE:
        position += 1 + raw[position]
    if flags & CONTENT_ENCODING:
        position += 1 + raw[position]
    return table_end(raw, position) if flags & HEADERS else position


def _rest_end(raw: bytes, flags: int, position: int) -> int:
    """The offset after the properties that follow the priority, which begin at `position`."""
    if flags & FLAGS_CONTINUED:
        raise PropertiesError("more property flags than the basic class has")
    for _ in range((flags & TEXTS_BEFORE_TIMESTAMP).bit_count()):
        position += 1 + raw[position]
    if flags & TIMESTAMP:
        position += 8
    for _ in range((flags & TEXTS_AFTER_TIMESTAMP).bit_count()):
        position += 1 + raw[position]
    return position


def decode_properties(raw: bytes) -> Properties:
    """Decode properties. Raises struct.error, IndexError, FieldTableError, PropertiesError."""
    flags = _U16.unpack_from(raw)[0]
    position = 2
    properties: Properties = {}
    for name, flag, kind in PROPERTY_TYPES:
        if not flags & flag:
            continue
        if kind == "shortstr":
            end = position + 1 + raw[position]
            value: Any = text_of(raw[position + 1 : end])
            position = end
        elif kind == "octet":
            value = raw[position]
            position += 1
        elif kind == "timestamp":
            value = _U64.unpack_from(raw, position)[0]
            position += 8
        else:
            value, position = decode_table(raw, position)
        properties[name] = value
    if position != len(raw):
        raise PropertiesError("the properties end too early or go on too long")
    return properties


def encode_properties(properties: Properties) -> bytes:
    """Encode flags and values; a property that is None is left out."""
    flags = 0
    values = []
    for name, flag, kind in PROPERTY_TYPES:
        value = properties.get(name)
        if value is None:
            continue
        flags |= flag
        if kind == "shortstr":
            values.append(encode_short_string(value))
        elif kind == "octet":
            values.append(bytes((value,)))
        elif kind == "timestamp":
            values.append(_U64.pack(value))
        else:
            values.append(encode_table(value))
    return _U16.pack(flags) + b"".join(values)
