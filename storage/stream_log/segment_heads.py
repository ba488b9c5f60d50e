"""The head of a segment file: the facts about earlier entries that a start needs.

    8 bytes   magic, version of the form
    8 bytes   size of the rest, its CRC
    the rest  msgpack

Chunks follow. A start reads the head of each segment, and chunks only at the end of the last one.
"""

from struct import Struct
from typing import Final

import msgspec

from leveret.storage.messages.checksum import crc32
from leveret.storage.stream_log.entry_runs import EntryRun

FIXED_BYTES: Final = 16
HEAD_BYTES_MAX: Final = 1 << 26
_FIXED = Struct(">4sIII")
_MAGIC: Final = b"LVSG"
_VERSION: Final = 1


class SegmentHeadError(ValueError):
    """The bytes are not the head of a segment that this version can read."""


class SegmentHead(msgspec.Struct, frozen=True, array_like=True):
    """The head of a segment.

    first_entry, first_offset: of its first chunk. began_ms: the time of this chunk.
    runs: of the entries before it that the log had when the segment began.
    """

    first_entry: int
    first_offset: int
    began_ms: int
    runs: list[EntryRun]


def encode_head(head: SegmentHead) -> bytes:
    """A head as bytes."""
    data = msgspec.msgpack.encode(head)
    return _FIXED.pack(_MAGIC, _VERSION, len(data), crc32(data)) + data


def size_of_head(data: bytes) -> int:
    """The size of a head in bytes, from its first `FIXED_BYTES`. Raises SegmentHeadError."""
    if len(data) < FIXED_BYTES:
        raise SegmentHeadError(f"the file ends after {len(data)} bytes")
    magic, version, size, _ = _FIXED.unpack_from(data)
    if magic != _MAGIC or size > HEAD_BYTES_MAX:
        raise SegmentHeadError("the file does not begin as a segment does")
    if version != _VERSION:
        raise SegmentHeadError(
            f"the segment has version {version} of its form; this version of Leveret reads "
            f"version {_VERSION}"
        )
    return FIXED_BYTES + int(size)


def decode_head(data: bytes) -> SegmentHead:
    """The head that these bytes are. Raises SegmentHeadError."""
    size_of_head(data)
    body = data[FIXED_BYTES:]
    if crc32(body) != _FIXED.unpack_from(data)[3]:
        raise SegmentHeadError("the CRC of the segment's head does not match")
    try:
        return _DECODER.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise SegmentHeadError(f"the head of the segment cannot be read: {error}") from error


_DECODER = msgspec.msgpack.Decoder(SegmentHead)
