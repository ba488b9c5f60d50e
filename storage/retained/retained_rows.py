"""A retained message as all nodes of a cluster store it, and which of two versions is kept. Pure.

Each change has a version: the time of the hybrid clock of the node that made it, and that node's
name. The newest version of a topic is kept, on every node, whatever the order in which the
versions arrive. So copies that have seen the same versions are equal.

A removal is a version without a message. It is kept for some time (`forget_after_ms`): without it,
a node that was away would bring the removed message back. A message that expires becomes such a
removal with the same version, so an expiry is no change. A removal with an empty topic, which no
message has, removes all older versions of its virtual host.

Copies are compared by sums: the digest of a bucket is the sum of the digests of its versions.

Invariants:

RTV1  Two versions are never equal, unless they are copies of one change.
RTV2  A copy keeps a version of a topic only if it was never told of a newer one, of that topic or
      of the whole virtual host.
RTV3  The time of the hybrid clock is above that of every version that the node has stored.
"""

from typing import Final, NamedTuple

import msgspec

from leveret.storage.messages.checksum import crc32

BUCKETS: Final = 4096
"""With a million messages a bucket has 250: the versions of one are a few kilobytes."""
COUNTER_BITS: Final = 16
"""The low bits of a time: changes of one node within a millisecond."""
DIGEST_MASK: Final = (1 << 62) - 1


class RetainedVersion(NamedTuple):
    """time: milliseconds since 1970, shifted by COUNTER_BITS, plus a counter. node: its name."""

    time: int
    node: str

    @property
    def time_ms(self) -> int:
        """Milliseconds since 1970."""
        return self.time >> COUNTER_BITS


class RetainedRow(msgspec.Struct, frozen=True, array_like=True):
    """One version of a topic. key: see topic_keys.py; empty: the whole virtual host.

    is_message: False for a removal. expires_ms: in milliseconds since 1970; 0 if the message does
    not expire.
    """

    vhost: bytes
    key: bytes
    time: int
    node: str
    is_message: bool = False
    payload: bytes = b""
    qos: int = 0
    properties: bytes = b""
    expires_ms: int = 0

    @property
    def version(self) -> RetainedVersion:
        """The version."""
        return RetainedVersion(self.time, self.node)

    @property
    def size(self) -> int:
        """The bytes that limits count."""
        return len(self.key) + len(self.payload) + len(self.properties)

    def changes_at_ms(self, forget_after_ms: int) -> int:
        """When the message expires, or when a removal is forgotten; 0 for never."""
        if self.is_message:
            return self.expires_ms
        return max(self.version.time_ms, self.expires_ms) + forget_after_ms


def bucket_of(vhost: bytes, key: bytes) -> int:
    """The bucket of a topic."""
    return crc32(key, crc32(vhost)) % BUCKETS


def digest_of(vhost: bytes, key: bytes, version: RetainedVersion) -> int:
    """A number of 62 bits, which very probably differs from that of any other version."""
    text = b"%d %b" % (version.time, version.node.encode())
    high, low = crc32(text, crc32(key, crc32(vhost))), crc32(key, crc32(text))
    # Two checksums are not independent enough for sums; a multiplication mixes their bits.
    return ((high << 32 | low) * 0x9E37_79B9_7F4A_7C15 + 1) & DIGEST_MASK


class HybridClock:
    """Times of versions: the wall clock, but above all times seen (RTV3)."""

    def __init__(self, last: int = 0) -> None:
        self.last = last

    def next(self, wall_ms: int) -> int:
        """The time for a change that is made now."""
        self.last = max(wall_ms << COUNTER_BITS, self.last + 1)
        return self.last

    def see(self, time: int) -> None:
        """A version of another node has this time."""
        self.last = max(self.last, time)
