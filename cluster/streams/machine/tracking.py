"""Tracking: the records in the trailer of a chunk.

A record has a type, an id with its size, and a number of 8 bytes; the first two types are those of
RabbitMQ's streams:

    sequence    the last sequence number of a named publisher
    offset      the offset that a consumer has stored under a name
    sender      the last command of a node's client that is in this chunk
    join        a client's first chunk: its id is the node's name. The number is the client's
"""

from collections.abc import Iterable, Iterator
from struct import Struct
from typing import Final, NamedTuple

SEQUENCE: Final = 0
OFFSET: Final = 1
SENDER: Final = 2
JOIN: Final = 3

ID_BYTES_MAX: Final = 255
_HEAD = Struct(">BB")
_NUMBER = Struct(">Q")


class TrackingError(ValueError):
    """The bytes are not tracking of this version."""


class TrackingRecord(NamedTuple):
    """One record. name: its id, at most 255 bytes; that of a sender is its number."""

    kind: int
    name: bytes
    number: int


def encode_records(records: Iterable[TrackingRecord]) -> bytes:
    """Records as bytes."""
    return b"".join(
        _HEAD.pack(kind, len(name)) + name + _NUMBER.pack(number) for kind, name, number in records
    )


def decode_records(data: bytes) -> Iterator[TrackingRecord]:
    """The records that these bytes are. Raises TrackingError."""
    at, end = 0, len(data)
    while at < end:
        if at + _HEAD.size > end:
            raise TrackingError("tracking ends in the middle of a record")
        kind, size = _HEAD.unpack_from(data, at)
        at += _HEAD.size
        if at + size + _NUMBER.size > end:
            raise TrackingError("tracking ends in the middle of a record")
        name = data[at : at + size]
        at += size
        yield TrackingRecord(kind, name, _NUMBER.unpack_from(data, at)[0])
        at += _NUMBER.size


def sender_id(sender: int) -> bytes:
    """The id of a record about a sender."""
    return _NUMBER.pack(sender)


def sender_of(name: bytes) -> int:
    """The inverse of `sender_id`. Raises TrackingError."""
    if len(name) != _NUMBER.size:
        raise TrackingError(f"a sender has an id of {len(name)} bytes")
    number: int = _NUMBER.unpack(name)[0]
    return number
