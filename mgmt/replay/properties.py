"""Converts a record's properties from the JSON of a trace to their AMQP encoding. Pure.

Headers are mostly the same from message to message, so their encoding is cached by their JSON.
"""

import struct
from collections.abc import Callable
from typing import Any

import msgspec

from leveret.broker.amqp.field_table import Table, encode_short_string, encode_table
from leveret.broker.amqp.json_tables import json_to_table
from leveret.broker.amqp.properties import HEADERS, PROPERTY_TYPES

MARK = "leveret-replay"
"""The header that identifies the copies of a message when waits are measured."""
NOTHING = msgspec.Raw(b"null")
REMEMBERED_MAX = 1_000
"""Size of the cache of headers; a full cache is cleared."""

_flags = struct.Struct(">H").pack
_length = struct.Struct(">I").pack
_LENGTH_BYTES = 4


class UnsayableError(ValueError):
    """AMQP cannot encode these properties."""


class _Properties(msgspec.Struct, gc=False):
    """In the order of the encoding; headers are kept as JSON."""

    content_type: str | None = None
    content_encoding: str | None = None
    headers: msgspec.Raw = NOTHING
    delivery_mode: int | None = None
    priority: int | None = None
    correlation_id: str | None = None
    reply_to: str | None = None
    expiration: str | None = None
    message_id: str | None = None
    timestamp: int | None = None
    type: str | None = None
    user_id: str | None = None
    app_id: str | None = None
    cluster_id: str | None = None


_ENCODERS: dict[str, Callable[[Any], bytes]] = {
    "shortstr": encode_short_string,
    "octet": struct.Struct(">B").pack,
    "timestamp": struct.Struct(">Q").pack,
    "table": lambda fields: _length(len(fields)) + fields,
}
_WIRE = tuple((flag, _ENCODERS[kind]) for _, flag, kind in PROPERTY_TYPES)
_read_properties = msgspec.json.Decoder(_Properties).decode
_read_headers = msgspec.json.Decoder(dict[str, Any]).decode


class PropertyEncoder:
    """Encodes properties. adjusted: how many had the user-id of another user, which is removed.

    Brokers refuse messages whose user-id is not the publishing user.
    """

    def __init__(self, user: str) -> None:
        self.adjusted = 0
        self._user = user
        self._remembered: dict[bytes, tuple[bytes, list[str]]] = {}

    def encode(self, properties: msgspec.Raw, copy_keys: list[str], mark: str = "") -> bytes:
        """Return the encoding. copy_keys: the routing keys of CC and BCC. Raises UnsayableError."""
        try:
            read = _read_properties(properties)
            if read.user_id is not None and read.user_id != self._user:
                read.user_id = None
                self.adjusted += 1
            return _encode(read, self._headers(read.headers, copy_keys, mark))
        except (ValueError, struct.error) as error:
            raise UnsayableError(str(error)) from None

    def _headers(self, json: msgspec.Raw, copy_keys: list[str], mark: str) -> bytes | None:
        """Return the fields of the header table."""
        raw = bytes(json)
        known = self._remembered.get(raw)
        if known is None:
            if len(self._remembered) >= REMEMBERED_MAX:
                self._remembered.clear()
            known = self._remembered[raw] = _read_table(raw)
        fields, visible_keys = known
        if blind := [key for key in copy_keys if key not in visible_keys]:
            # The broker removes the BCC header when a message is published.
            fields += _fields({"BCC": ("A", [("S", key) for key in blind])})
        if mark:
            fields += _fields({MARK: ("S", mark)})
        return fields or None


def _read_table(raw: bytes) -> tuple[bytes, list[str]]:
    """Return the encoded fields, and the CC keys among them."""
    headers = {} if raw == bytes(NOTHING) else _read_headers(raw)
    headers.pop(MARK, None)
    copies = headers.get("CC")
    return _fields(json_to_table(headers)), copies if isinstance(copies, list) else []


def _fields(table: Table) -> bytes:
    return encode_table(table)[_LENGTH_BYTES:]


def _encode(read: _Properties, headers: bytes | None) -> bytes:
    flags, parts = 0, []
    for read_value, (flag, encoder) in zip(msgspec.structs.astuple(read), _WIRE, strict=True):
        value = headers if flag == HEADERS else read_value
        if value is not None:
            flags |= flag
            parts.append(encoder(value))
    return _flags(flags) + b"".join(parts)
