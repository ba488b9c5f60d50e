"""The headers of the firehose's copies, assembled from bytes.

They describe the publish or delivery, and the client. Only `properties`, the table of a message's
properties, differs between the messages of a run. It is made of the encoded properties, which are
not decoded. The headers, their types and their order are those of RabbitMQ's `rabbit_trace`.
"""

import struct
from collections.abc import Iterable
from typing import Final

from leveret.broker.amqp.content_header import ContentHeader
from leveret.broker.amqp.field_table import (
    Table,
    encode_long_string,
    encode_short_string,
    encode_table,
)
from leveret.broker.amqp.properties import PROPERTY_TYPES, TRANSIENT

_pack_length = struct.Struct(">I").pack
_LENGTH_BYTES: Final = 4
_HEADERS_ONLY: Final = b"\x20\x00"
"""The flags of properties that have nothing but headers."""
_LETTERS = {"shortstr": b"S", "octet": b"I", "timestamp": b"I", "table": b"F"}
_PROPERTIES: list[tuple[int, str, bytes]] = [
    (flag, kind, encode_short_string(name) + _LETTERS[kind]) for name, flag, kind in PROPERTY_TYPES
]
"""The flag, type, and encoded name and letter of each property, in the order of the wire."""


class CopyHeaders:
    """The headers of copies of one kind of event, which only differ in `properties`."""

    __slots__ = ("_after", "_before", "_copied", "_last")

    def __init__(self, before: Table, after: Table, last: bytes = b"") -> None:
        """before, after: the headers before `properties`, and those behind it.

        last: one more, which is encoded (`array_header`).
        """
        self._before = encode_table(before)[_LENGTH_BYTES:] + encode_short_string("properties")
        self._after = encode_table(after)[_LENGTH_BYTES:] + last
        self._copied: ContentHeader | None = None
        self._last: ContentHeader | None = None

    def of(self, header: ContentHeader) -> ContentHeader:
        """The header of a copy of a message. Messages that share their header share that, too."""
        last = self._last
        if last is None or header is not self._copied:
            fields = self._before + properties_field(header.raw) + self._after
            raw = b"".join((_HEADERS_ONLY, _pack_length(len(fields)), fields))
            last = self._last = ContentHeader(raw, TRANSIENT, (), False, raw)
            self._copied = header
        return last


def encoded_texts(texts: Iterable[str]) -> bytes:
    """Items of an array of texts."""
    return b"".join([b"S" + encode_long_string(text) for text in texts])


def array_header(name: str, items: bytes) -> bytes:
    """A header that is an array. items: as they are encoded."""
    return b"".join((encode_short_string(name), b"A", _pack_length(len(items)), items))


def properties_field(raw: bytes) -> bytes:
    """The properties of a message as an encoded table, with its letter: the last property first.

    Integers are signed with 32 bits; a timestamp is truncated to that, as in RabbitMQ.
    """
    flags = raw[0] << 8 | raw[1]
    position = 2
    fields: list[bytes] = []
    for flag, kind, name in _PROPERTIES:
        if not flags & flag:
            continue
        if kind == "shortstr":
            start = position + 1
            position = start + raw[position]
            value = _pack_length(position - start) + raw[start:position]
        elif kind == "octet":
            value = b"\0\0\0" + raw[position : position + 1]
            position += 1
        elif kind == "timestamp":
            value = raw[position + 4 : position + 8]
            position += 8
        else:
            start = position
            length = raw[start : start + _LENGTH_BYTES]
            position = start + _LENGTH_BYTES + int.from_bytes(length, "big")
            value = raw[start:position]
        fields.append(name + value)
    fields.reverse()
    table = b"".join(fields)
    return b"F" + _pack_length(len(table)) + table
