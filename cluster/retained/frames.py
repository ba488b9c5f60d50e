"""The frames that nodes send each other about their retained messages. Pure.

    RetainedRows  rows that the sender has, by their versions; answered with RowsStored
    RowsStored    the rows of the frame with this number are on disk, or could not be stored
    Digests       the digests of all buckets of the sender that are not empty
    Versions      the versions that the sender has in one bucket, since the digests differ; the
                  other node answers with RetainedRows for those that the sender lacks, and then
                  with Compared
    Compared      the sender's answer about this bucket is complete

Frames are MessagePack; later releases may add fields at their ends.
"""

from collections.abc import Iterable
from typing import Final

import msgspec

from leveret.storage.retained.retained_rows import BUCKETS, RetainedRow

ROWS_BYTES: Final = 256 * 1024
"""The size of the rows of a frame, about; a frame has at least one row."""
Version = tuple[int, str]


class RetainedRows(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """number: repeated in the answer."""

    number: int
    rows: list[RetainedRow]


class RowsStored(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """number: that of the RetainedRows."""

    number: int


class Digests(msgspec.Struct, frozen=True, array_like=True, tag=3):
    """digests: the digests by bucket."""

    digests: dict[int, int]


class Versions(msgspec.Struct, frozen=True, array_like=True, tag=4):
    """versions: the time and the node of each."""

    bucket: int
    versions: list[Version]


class Compared(msgspec.Struct, frozen=True, array_like=True, tag=5):
    """The bucket's rows were sent and stored."""

    bucket: int


Frame = RetainedRows | RowsStored | Digests | Versions | Compared

_ENCODER = msgspec.msgpack.Encoder()
_DECODER: msgspec.msgpack.Decoder[Frame] = msgspec.msgpack.Decoder(Frame)


def encode(frame: Frame) -> bytes:
    """The bytes of a frame."""
    return _ENCODER.encode(frame)


def decode(payload: bytes) -> Frame:
    """The frame of these bytes. Raises ValueError."""
    frame = _DECODER.decode(payload)
    buckets: Iterable[int] = ()
    if isinstance(frame, Digests):
        buckets = frame.digests
    elif isinstance(frame, Versions | Compared):
        buckets = (frame.bucket,)
    if not all(0 <= bucket < BUCKETS for bucket in buckets):
        raise ValueError(f"a bucket is not below {BUCKETS}")
    return frame


def in_parts(rows: list[RetainedRow]) -> list[list[RetainedRow]]:
    """The rows of frames of about ROWS_BYTES."""
    parts: list[list[RetainedRow]] = []
    size = ROWS_BYTES
    for row in rows:
        if size >= ROWS_BYTES:
            parts.append([])
            size = 0
        parts[-1].append(row)
        size += row.size
    return parts
