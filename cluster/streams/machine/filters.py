"""The Bloom filter of a chunk: which filter values its messages have (osiris_bloom.erl).

A reader with a filter skips chunks that have none of its values. The filter stays on the nodes, so
its hashes are our own. Bit 0 says that some messages have no value.
"""

from collections.abc import Iterable
from hashlib import blake2b

BYTES_MIN, BYTES_MAX = 16, 255
"""The sizes that `x-stream-filter-size-bytes` may set."""


def make_filter(values: Iterable[bytes], size: int) -> bytes:
    """The filter of messages with these values, b"" for none. No bytes if no message has one."""
    distinct = set(values)
    if not distinct - {b""}:
        return b""
    bits = 0
    for value in distinct:
        for bit in _bits(value, size):
            bits |= 1 << bit
    return bits.to_bytes(size, "little")


def may_have(filter_bits: bytes, values: Iterable[bytes], *, match_unfiltered: bool) -> bool:
    """Whether a chunk with this filter may have a message that a reader wants.

    values: those that it wants. match_unfiltered: it also wants messages without a value.
    """
    if not filter_bits:
        return match_unfiltered
    bits = int.from_bytes(filter_bits, "little")
    wanted = [*values, b""] if match_unfiltered else values
    return any(all(bits >> bit & 1 for bit in _bits(value, len(filter_bits))) for value in wanted)


def _bits(value: bytes, size: int) -> tuple[int, ...]:
    if not value:
        return (0,)
    digest = blake2b(value, digest_size=8).digest()
    count = 8 * size - 1
    return (
        1 + int.from_bytes(digest[:4], "little") % count,
        1 + int.from_bytes(digest[4:], "little") % count,
    )
