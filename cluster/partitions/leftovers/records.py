"""The records of a file of discarded messages (docs/reference/storage-format.md).

A file begins with `MAGIC`. Records follow, each with its size, a CRC-32 and a MessagePack struct
with its kind as tag. A `MessageRecord` belongs to the `QueueRecord` before it, a `DelayedRecord` to
the `ExchangeRecord`. The last record is an `EndRecord`, so a file without one was cut off by a
crash; its whole records can be read.
"""

from struct import Struct
from typing import TypeAlias
from zlib import crc32

import msgspec

MAGIC = b"LvrtDsc\x01"
"""The last octet is the version of the format."""
HEAD = Struct("<II")
"""The head of a record: the size of its payload, and the payload's CRC."""


class HeaderRecord(msgspec.Struct, frozen=True, tag="header"):
    """The first record. at_s: seconds since 1970. takes_from: nodes whose metadata is taken."""

    node: str
    at_s: float
    takes_from: tuple[str, ...]


class ChangeRecord(msgspec.Struct, frozen=True, tag="change"):
    """Declarations that clients of the losing side made, in their order."""

    declarations: tuple[bytes, ...]


class DeclaredRecord(msgspec.Struct, frozen=True, tag="declared"):
    """An object of this node that is not declared, or declared differently, on the others."""

    declaration: bytes


class QueueRecord(msgspec.Struct, frozen=True, tag="queue"):
    """A queue whose messages follow. declaration: a `PutQueue`."""

    declaration: bytes


class MessageRecord(msgspec.Struct, frozen=True, tag="message"):
    """A message. address: exchange and routing key as short strings. header: as on disk."""

    address: bytes
    header: bytes
    body: bytes
    redelivered: bool


class ExchangeRecord(msgspec.Struct, frozen=True, tag="exchange"):
    """An exchange of the type x-delayed-message. declaration: a `PutExchange`."""

    declaration: bytes


class DelayedRecord(msgspec.Struct, frozen=True, tag="delayed"):
    """A message that waits at an exchange: a `MessageRecord` with the time when its delay ends.

    due_ms: when its delay is over, in milliseconds since 1970.
    """

    address: bytes
    header: bytes
    body: bytes
    due_ms: int


class EndRecord(msgspec.Struct, frozen=True, tag="end"):
    """The last record: the number of records of each kind."""

    changes: int
    declared: int
    queues: int
    messages: int
    exchanges: int = 0
    delayed: int = 0


Record: TypeAlias = (
    HeaderRecord
    | ChangeRecord
    | DeclaredRecord
    | QueueRecord
    | MessageRecord
    | ExchangeRecord
    | DelayedRecord
    | EndRecord
)

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Record)


def encode(record: Record) -> tuple[bytes, bytes]:
    """The head and the payload of a record."""
    payload = _encoder.encode(record)
    return HEAD.pack(len(payload), crc32(payload)), payload


def decode(payload: bytes) -> Record:
    """The record of a payload. Raises msgspec.ValidationError or msgspec.DecodeError."""
    record: Record = _decoder.decode(payload)
    return record
