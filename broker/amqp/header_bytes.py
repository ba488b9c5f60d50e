"""The headers of a message as bytes: some are changed, and the rest is not decoded.

`HeaderBytes` splits the bytes of a message's properties at the headers. `field_places` finds fields
in these, `replace_fields` changes them, and `HeaderBytes.with_fields` joins the properties again.
`NewFields` adds fields to messages that have none of these names, as is true of nearly all.
"""

import struct
from collections.abc import Iterable
from typing import Final

from leveret.broker.amqp.properties import (
    CONTENT_ENCODING,
    CONTENT_TYPE,
    DELIVERY_MODE,
    EXPIRATION,
    HEADERS,
    PRIORITY,
)
from leveret.broker.amqp.table_scan import field_end, name_shapes, scan_headers

_pack_flags = struct.Struct(">H").pack
_pack_length = struct.Struct(">I").pack
_FLAGS_BYTES: Final = 2
_LENGTH_BYTES: Final = 4
_TEXTS_BEFORE_EXPIRATION: Final = 0x0600


class HeaderBytes:
    """The properties of a message, cut at the headers and at the expiration.

    fields: of the headers, without their length. expiration: without its length; None if there is
    none.
    """

    __slots__ = ("_after", "_before", "_flags", "expiration", "fields")

    def __init__(self, raw: bytes) -> None:
        """raw: properties that can be decoded (`properties.scan`)."""
        flags = raw[0] << 8 | raw[1]
        position = _FLAGS_BYTES
        if flags & CONTENT_TYPE:
            position += 1 + raw[position]
        if flags & CONTENT_ENCODING:
            position += 1 + raw[position]
        self._flags = flags
        self._before = raw[_FLAGS_BYTES:position]
        self.fields = b""
        if flags & HEADERS:
            start = position + _LENGTH_BYTES
            position = start + int.from_bytes(raw[position:start], "big")
            self.fields = raw[start:position]
        self.expiration: bytes | None = None
        self._after = raw[position:]
        if flags & EXPIRATION:
            self._cut_expiration(flags)

    def _cut_expiration(self, flags: int) -> None:
        after = self._after
        position = (flags & DELIVERY_MODE != 0) + (flags & PRIORITY != 0)
        for _ in range((flags & _TEXTS_BEFORE_EXPIRATION).bit_count()):
            position += 1 + after[position]
        end = position + 1 + after[position]
        self.expiration = after[position + 1 : end]
        self._after = after[:position] + after[end:]

    def with_fields(self, fields: bytes) -> bytes:
        """The properties with headers of these fields, and without an expiration."""
        flags = _pack_flags(self._flags & ~EXPIRATION | HEADERS)
        return b"".join((flags, self._before, _pack_length(len(fields)), fields, self._after))


class NewFields:
    """Adds fields to the headers of messages. names: a message with one of these gets none."""

    __slots__ = ("_names", "_shapes")

    def __init__(self, names: Iterable[str]) -> None:
        self._names = frozenset(name.encode() for name in names)
        self._shapes = name_shapes(self._names)

    def added(self, raw: bytes, fields: bytes) -> bytes | None:
        """Properties with these fields behind their headers; None if they have one of the names.

        raw: properties. fields: of a table, without its length. Raises FieldTableError or
        IndexError if the headers cannot be decoded.
        """
        flags = raw[0] << 8 | raw[1]
        position = _FLAGS_BYTES
        if flags & CONTENT_TYPE:
            position += 1 + raw[position]
        if flags & CONTENT_ENCODING:
            position += 1 + raw[position]
        if not flags & HEADERS:
            before = _pack_flags(flags | HEADERS) + raw[_FLAGS_BYTES:position]
            return b"".join((before, _pack_length(len(fields)), fields, raw[position:]))
        end = scan_headers(raw, position, self._names, self._shapes)
        if end < 0:
            return None
        start = position + _LENGTH_BYTES
        length = _pack_length(end - start + len(fields))
        return b"".join((raw[:position], length, raw[start:end], fields, raw[end:]))


def field_places(fields: bytes, names: frozenset[bytes]) -> dict[bytes, tuple[int, int, int]]:
    """Where the fields of these names are in the bytes of a table without its length.

    names: as short strings. Three offsets each: where the field begins, where its letter is, and
    where it ends. Of several fields with one name, the first is found.
    """
    places: dict[bytes, tuple[int, int, int]] = {}
    position = 0
    while position < len(fields):
        letter_at = position + 1 + fields[position]
        end = field_end(fields, letter_at)
        name = fields[position:letter_at]
        if name in names and name not in places:
            places[name] = position, letter_at, end
        position = end
    return places


def replace_fields(
    fields: bytes, places: dict[bytes, tuple[int, int, int]], values: dict[bytes, bytes]
) -> bytes:
    """The bytes of a table without its length, in which some fields have other values.

    places: of fields that it has, from `field_places`. values: by names as short strings: encoded
    fields, which are appended if the table has none of the name, or nothing to remove one.
    """
    parts: list[bytes] = []
    position = 0
    for name, (start, letter_at, end) in places.items():
        if name in values:
            value = values[name]
            parts.append(fields[position : letter_at if value else start])
            parts.append(value)
            position = end
    parts.append(fields[position:])
    for name, value in values.items():
        if value and name not in places:
            parts += (name, value)
    return b"".join(parts)
