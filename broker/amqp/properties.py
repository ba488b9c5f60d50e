"""The properties of a message as they are on the wire: flags, then the values that are present.

The broker delivers a message with the bytes of its properties unchanged, so that most are never
decoded. `scan` reads only the parts that routing and queueing need; it skips over the rest, to
check that it can be decoded.
"""

import struct
from typing import Any, Final

from mypy_extensions import i64

from leveret.broker.amqp.field_table import (
    FieldTableError,
    decode_table,
    encode_short_string,
    encode_table,
    text_of,
)
from leveret.broker.amqp.table_scan import name_shapes, scan_headers

Properties = dict[str, Any]
"""Property names to values, in the order of the wire; `headers` is a `Table`."""

CONTENT_TYPE: Final = 0x8000
CONTENT_ENCODING: Final = 0x4000
HEADERS: Final = 0x2000
DELIVERY_MODE: Final = 0x1000
PRIORITY: Final = 0x0800
USER_ID: Final = 0x0010
EXPIRATION: Final = 0x0100
CORRELATION_ID: Final = 0x0400
REPLY_TO: Final = 0x0200
MESSAGE_ID: Final = 0x0080
TIMESTAMP: Final = 0x0040
TYPE: Final = 0x0020
APP_ID: Final = 0x0008
FLAGS_CONTINUED: Final = 0x0001
AFTER_PRIORITY: Final = 0x07FC | FLAGS_CONTINUED
_BITS_SET: Final = bytes([number.bit_count() for number in range(16)])
"""How many bits are set in each number of four bits."""

PROPERTY_TYPES: tuple[tuple[str, int, str], ...] = (
    ("content_type", CONTENT_TYPE, "shortstr"),
    ("content_encoding", CONTENT_ENCODING, "shortstr"),
    ("headers", HEADERS, "table"),
    ("delivery_mode", DELIVERY_MODE, "octet"),
    ("priority", PRIORITY, "octet"),
    ("correlation_id", CORRELATION_ID, "shortstr"),
    ("reply_to", REPLY_TO, "shortstr"),
    ("expiration", EXPIRATION, "shortstr"),
    ("message_id", MESSAGE_ID, "shortstr"),
    ("timestamp", TIMESTAMP, "timestamp"),
    ("type", TYPE, "shortstr"),
    ("user_id", USER_ID, "shortstr"),
    ("app_id", APP_ID, "shortstr"),
    ("cluster_id", 0x0004, "shortstr"),
)
"""Name, flag and wire type of each property, in order (specification, section 4.2.6.1)."""

DIRECT_REPLY_TO = "amq.rabbitmq.reply-to"
_DIRECT_REPLY_TO_BYTES: Final = DIRECT_REPLY_TO.encode()
STORED_BCC, STORED_FORM = "x-leveret-BCC", "x-leveret-form"
STORED_RETRY: Final = "x-leveret-retry"
"""The headers in which the keys of BCC, the form of another protocol and the retries of a message
are on disk. A client's headers of these names are removed."""
_CARE_HEADERS: Final = frozenset(
    (
        b"CC", b"BCC", b"x-death", STORED_BCC.encode(), STORED_FORM.encode(),
        STORED_RETRY.encode(),
    )
)  # fmt: skip
_CARE_SHAPES: Final = name_shapes(_CARE_HEADERS)
PERSISTENT: Final = 2
TRANSIENT: Final = 1
NOWHERE: Final = -1
NO_PROPERTIES: Final = b"\0\0"
EXPIRES: Final = 1 << 17
NEEDS_CARE: Final = 1 << 60
"""Set in the kind that `scan` returns. No other bit is above `NEEDS_CARE`."""
TTL_AT: Final = 18
"""The bit of a kind where the time to live begins."""
TTL_MS_MAX: Final = 315_360_000_000
"""RabbitMQ's longest time to live: ten years."""
TTL_MASK: Final = (1 << 39) - 1
RUN_MASK: Final = ~(TTL_MASK << TTL_AT)
"""The bits in which the kinds of messages that are published together are equal."""
NO_TTL: Final = -1
"""The value for properties without a time to live in plain digits."""
_TTL_DIGITS_MAX: Final = len(str(TTL_MS_MAX))
_DIGIT_0: Final = ord("0")

_U16 = struct.Struct(">H")
_U64 = struct.Struct(">Q")


class PropertiesError(ValueError):
    """The bytes are not a property list."""


def scan(raw: bytes) -> int:
    """The kind of a message with these properties, after a check that they can be decoded.

    Only these parts are read: bits 0 to 7 are the delivery mode (1 if there is none), bits 8 to
    16 the priority plus 1 (0 if there is none). `EXPIRES` is set if there is an expiration in plain
    digits, which is in the bits from `TTL_AT` on (`ttl_ms_of`), in milliseconds. `NEEDS_CARE` is
    set if the publish path must decode the properties: there is any other expiration, a user id, a
    CC, BCC or x-death header, one of those that are only on disk, a direct reply-to or an unknown
    delivery mode (or bytes that look like one of these). Raises PropertiesError.
    """
    if raw == NO_PROPERTIES:
        return TRANSIENT
    delivery_mode: i64 = TRANSIENT
    priority: i64 = 0
    flags: i64 = 0
    position: i64 = 2
    rest: i64 = 2
    needs_care = False
    try:
        flags = raw[0] << 8 | raw[1]
        if flags & (CONTENT_TYPE | CONTENT_ENCODING | HEADERS):
            if flags & CONTENT_TYPE:
                position += 1 + raw[position]
            if flags & CONTENT_ENCODING:
                position += 1 + raw[position]
            if flags & HEADERS:
                position = scan_headers(raw, position, _CARE_HEADERS, _CARE_SHAPES)
                if position < 0:
                    position = -position
                    needs_care = True
        if flags & DELIVERY_MODE:
            delivery_mode = raw[position]
            position += 1
        if flags & PRIORITY:
            priority = raw[position] + 1
            position += 1
        rest = position
        if flags & AFTER_PRIORITY:
            position = _rest_end(raw, flags, position)
    except (IndexError, FieldTableError):
        position = NOWHERE
    if position != len(raw):
        raise PropertiesError(_problem_of(raw))
    kind: i64 = priority << 8 | delivery_mode
    if (
        flags & USER_ID
        or needs_care
        or not TRANSIENT <= delivery_mode <= PERSISTENT
        or (flags & REPLY_TO and _DIRECT_REPLY_TO_BYTES in raw)
    ):
        kind |= NEEDS_CARE
    if flags & EXPIRATION:
        ttl_ms = _expiration_at(raw, flags, rest)
        if ttl_ms == NO_TTL:
            kind |= NEEDS_CARE
        else:
            kind |= EXPIRES | ttl_ms << TTL_AT
    return kind


def ttl_ms_of(kind: i64) -> i64:
    """The time to live of a message of a kind that `EXPIRES`, in milliseconds."""
    return kind >> TTL_AT & TTL_MASK


def expiration_ms(raw: bytes) -> int:
    """The time to live in properties that can be decoded and have one, in milliseconds.

    `NO_TTL` if it is not in plain digits, or too large: callers that want it decode the properties.
    """
    flags: i64 = raw[0] << 8 | raw[1]
    position: i64 = 2
    if flags & CONTENT_TYPE:
        position += 1 + raw[position]
    if flags & CONTENT_ENCODING:
        position += 1 + raw[position]
    if flags & HEADERS:
        size: i64 = raw[position] << 24 | raw[position + 1] << 16
        position += 4 + (size | raw[position + 2] << 8 | raw[position + 3])
    if flags & DELIVERY_MODE:
        position += 1
    if flags & PRIORITY:
        position += 1
    return _expiration_at(raw, flags, position)


def _expiration_at(raw: bytes, flags: i64, position: i64) -> i64:
    """`expiration_ms` of properties whose part after the priority begins at `position`."""
    if flags & CORRELATION_ID:
        position += 1 + raw[position]
    if flags & REPLY_TO:
        position += 1 + raw[position]
    end: i64 = position + 1 + raw[position]
    position += 1
    if not 1 <= end - position <= _TTL_DIGITS_MAX:
        return NO_TTL
    ttl_ms: i64 = 0
    while position < end:
        digit: i64 = raw[position] - _DIGIT_0
        if not 0 <= digit <= 9:
            return NO_TTL
        ttl_ms = 10 * ttl_ms + digit
        position += 1
    return ttl_ms if ttl_ms <= TTL_MS_MAX else NO_TTL


def _problem_of(raw: bytes) -> str:
    """The reason why these bytes are not a property list."""
    try:
        decode_properties(raw)
    except (struct.error, IndexError, FieldTableError, PropertiesError) as error:
        return str(error)
    return "the properties end too early or go on too long"


def _rest_end(raw: bytes, flags: i64, position: i64) -> i64:
    """The offset after the properties that follow the priority, which begin at `position`.

    They are four short strings, a timestamp and four short strings.
    """
    if flags & FLAGS_CONTINUED:
        raise PropertiesError("more property flags than the basic class has")
    texts: i64 = _BITS_SET[flags >> 7 & 15]
    while texts:
        position += 1 + raw[position]
        texts -= 1
    if flags & TIMESTAMP:
        position += 8
    texts = _BITS_SET[flags >> 2 & 15]
    while texts:
        position += 1 + raw[position]
        texts -= 1
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
