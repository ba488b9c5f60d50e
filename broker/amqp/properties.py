"""The properties of a message as they are on the wire: flags, then the values that are present.

The broker delivers a message with the bytes of its properties unchanged, so that most are never
decoded. `scan` reads only what routing and queueing need; it steps over the others, so that it is
known that they can be decoded.
"""

import struct
from typing import Any, Final

from leveret.broker.amqp.field_table import (
    FieldTableError,
    decode_table,
    encode_short_string,
    encode_table,
    table_end,
    text_of,
)

Properties = dict[str, Any]
"""Property names to values, in the order of the wire; `headers` is a `Table`."""

CONTENT_TYPE: Final = 0x8000
CONTENT_ENCODING: Final = 0x4000
HEADERS: Final = 0x2000
DELIVERY_MODE: Final = 0x1000
PRIORITY: Final = 0x0800
USER_ID: Final = 0x0010
EXPIRATION: Final = 0x0100
REPLY_TO: Final = 0x0200
TIMESTAMP: Final = 0x0040
FLAGS_CONTINUED: Final = 0x0001
TEXTS_BEFORE_TIMESTAMP: Final = 0x0780
TEXTS_AFTER_TIMESTAMP: Final = 0x003C
AFTER_PRIORITY: Final = TEXTS_BEFORE_TIMESTAMP | TIMESTAMP | TEXTS_AFTER_TIMESTAMP | FLAGS_CONTINUED

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
_DIRECT_REPLY_TO_BYTES: Final = DIRECT_REPLY_TO.encode()
PERSISTENT: Final = 2
TRANSIENT: Final = 1
NOWHERE: Final = -1
NO_PROPERTIES: Final = b"\0\0"
NEEDS_CARE: Final = 1 << 17
"""See `scan`."""

_U16 = struct.Struct(">H")
_U64 = struct.Struct(">Q")


class PropertiesError(ValueError):
    """The bytes are not a property list."""


def scan(raw: bytes) -> int:
    """The kind of a message with these properties, after a check that they can be decoded.

    Only what queues need is read: bits 0 to 7 are the delivery mode (1 if there is none), bits 8 to
    16 the priority plus 1 (0 if there is none), and `NEEDS_CARE` is set if the publish path must
    decode the properties: there is an expiration, a user id, a CC, BCC or x-death header, a direct
    reply-to or an unknown delivery mode (or bytes that look like one of these). Raises
    PropertiesError.
    """
    if raw == NO_PROPERTIES:
        return TRANSIENT
    delivery_mode = TRANSIENT
    priority = 0
    try:
        flags = raw[0] << 8 | raw[1]
        position = 2
        if flags & (CONTENT_TYPE | CONTENT_ENCODING | HEADERS):
            position = _headers_end(raw, flags)
        if flags & DELIVERY_MODE:
            delivery_mode = raw[position]
            position += 1
        if flags & PRIORITY:
            priority = raw[position] + 1
            position += 1
        if flags & AFTER_PRIORITY:
            position = _rest_end(raw, flags, position)
    except (struct.error, IndexError, FieldTableError):
        position = NOWHERE
    if position != len(raw):
        raise PropertiesError(_problem_of(raw))
    kind = priority << 8 | delivery_mode
    if (
        flags & (EXPIRATION | USER_ID)
        or delivery_mode not in (TRANSIENT, PERSISTENT)
        or (flags & HEADERS and (b"\2CC" in raw or b"BCC" in raw or b"x-death" in raw))
        or (flags & REPLY_TO and _DIRECT_REPLY_TO_BYTES in raw)
    ):
        kind |= NEEDS_CARE
    return kind


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
