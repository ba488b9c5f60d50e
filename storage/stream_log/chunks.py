"""The form of a chunk: messages that are stored, replicated and sent together.

    head      48 bytes: type, counts, time, term, first offset, CRC of the entries, sizes
    filter    a Bloom filter of the messages' filter values, or nothing
    entries   a message with its size, or a batch of messages as a client has compressed them, each
    trailer   tracking (sequence numbers of publishers), then the CRC of all but the entries

Head and entries are those of RabbitMQ's stream protocol (osiris_log.erl), and are sent to clients
as they are stored. The trailer ends in a CRC that RabbitMQ's does not have: there, damage to a head
or a trailer is not noticed. All integers are big-endian.
"""

from collections.abc import Sequence
from struct import Struct
from typing import Final, NamedTuple

from leveret.storage.messages.checksum import crc32

USER, TRACKING = 0, 1
"""Types of chunks: with messages, or with the offsets that consumers have stored."""
OF_GROUP: Final = 16
"""Chunks of this type and above have no messages. The type less this is the kind of the entry."""

HEAD_BYTES: Final = 48
CHUNK_BYTES_MIN: Final = HEAD_BYTES + 4
FILTER_BYTES_MAX: Final = 255
COPIED_BYTES_MAX: Final = 16 * 1024
"""A copy of a smaller chunk costs less than a view of it."""
CHUNK_BYTES_MAX: Final = 1 << 30
"""No chunk is larger, so a larger size is damage."""
_HEAD = Struct(">BBHIqQQIIIB3x")
_CRC = Struct(">I")
_MAGIC: Final = 0x50
"""Magic number 5 and version 0 of the form, in one byte."""


class ChunkError(ValueError):
    """The bytes are not a whole, undamaged chunk."""


class ChunkHead(NamedTuple):
    """The head of a chunk.

    time_ms: when its leader made it. term: of this leader. offset: of the first message, or of the
    next one if there is none. crc: of the entries. filter_bytes: at most 255.
    """

    kind: int
    entry_count: int
    message_count: int
    time_ms: int
    term: int
    offset: int
    crc: int
    entries_bytes: int
    trailer_bytes: int
    filter_bytes: int

    @property
    def size(self) -> int:
        """The size of the whole chunk in bytes."""
        return HEAD_BYTES + self.filter_bytes + self.entries_bytes + self.trailer_bytes

    @property
    def next_offset(self) -> int:
        """The offset after its messages."""
        return self.offset + self.message_count


def encode_chunk(
    kind: int, offset: int, term: int, time_ms: int, entry_count: int, message_count: int,
    entries: Sequence[bytes | memoryview], filter_bits: bytes = b"", tracking: bytes = b"",
) -> bytes:  # fmt: skip
    """A chunk as bytes, which are copied once.

    entries: pieces with `entry_count` of them, and `message_count` messages in all.
    """
    entries_crc = entries_bytes = 0
    for piece in entries:
        entries_crc = crc32(piece, entries_crc)
        entries_bytes += len(piece)
    head = _HEAD.pack(
        _MAGIC, kind, entry_count, message_count, time_ms, term, offset, entries_crc,
        entries_bytes, len(tracking) + _CRC.size, len(filter_bits),
    )  # fmt: skip
    crc = crc32(tracking, crc32(filter_bits, crc32(head)))
    return b"".join((head, filter_bits, *entries, tracking, _CRC.pack(crc)))


def read_head(data: bytes, at: int = 0) -> ChunkHead:
    """The head at a place in `data`. Raises ChunkError if there is none.

    It may be damaged all the same: only `check_chunk` tells.
    """
    if len(data) - at < HEAD_BYTES:
        raise ChunkError(f"{len(data) - at} bytes where a chunk of {HEAD_BYTES} or more begins")
    magic, *fields = _HEAD.unpack_from(data, at)
    head = ChunkHead(*fields)
    if magic != _MAGIC:
        raise ChunkError(f"the byte {magic:#04x} where a chunk begins with {_MAGIC:#04x}")
    if head.trailer_bytes < _CRC.size or head.size > CHUNK_BYTES_MAX:
        raise ChunkError(f"a chunk of {head.size} bytes with a trailer of {head.trailer_bytes}")
    return head


def check_chunk(data: bytes, at: int = 0) -> ChunkHead:
    """The head of the chunk at a place in `data`. Raises ChunkError if it is cut or damaged."""
    head = read_head(data, at)
    end = at + head.size
    if end > len(data):
        raise ChunkError(f"{len(data) - at} bytes of a chunk of {head.size}")
    view = memoryview(data)
    first_entry = at + HEAD_BYTES + head.filter_bytes
    after_entries = first_entry + head.entries_bytes
    if crc32(view[first_entry:after_entries]) != head.crc:
        raise ChunkError("the CRC of its messages does not match")
    crc = crc32(view[after_entries : end - _CRC.size], crc32(view[at:first_entry]))
    if crc != _CRC.unpack_from(data, end - _CRC.size)[0]:
        raise ChunkError("the CRC of its head and trailer does not match")
    return head


def for_clients(chunk: bytes, head: ChunkHead) -> bytes | memoryview:
    """A chunk as clients of the stream protocol get it: without its filter and its trailer.

    The size of the trailer stays in its head, as in RabbitMQ. A large chunk is not copied.
    """
    end = head.size - head.trailer_bytes
    if head.filter_bytes:
        return head_for_clients(head) + chunk[HEAD_BYTES + head.filter_bytes : end]
    return chunk[:end] if end < COPIED_BYTES_MAX else memoryview(chunk)[:end]


def head_for_clients(head: ChunkHead) -> bytes:
    """The head of a chunk that has no filter."""
    return _HEAD.pack(_MAGIC, *head[:-1], 0)


def filter_of(chunk: bytes, head: ChunkHead) -> bytes:
    """The Bloom filter of a chunk; empty if no message has a filter value. head: its head."""
    return chunk[HEAD_BYTES : HEAD_BYTES + head.filter_bytes]


def entries_of(chunk: bytes, head: ChunkHead) -> bytes:
    """The entries of a chunk. head: its head."""
    begin = HEAD_BYTES + head.filter_bytes
    return chunk[begin : begin + head.entries_bytes]


def tracking_of(chunk: bytes, head: ChunkHead) -> bytes:
    """The tracking in the trailer of a chunk. head: its head."""
    end = head.size - _CRC.size
    return chunk[end + _CRC.size - head.trailer_bytes : end]


def kind_of_entry(kind: int) -> int:
    """The kind of a group's entry whose chunk has this type."""
    return max(0, kind - OF_GROUP)
