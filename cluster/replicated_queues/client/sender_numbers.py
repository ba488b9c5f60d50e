"""Numbers the senders of commands to groups, so that no two of a cluster have the same number."""

from hashlib import blake2b
from typing import Final

NODE_BITS: Final = 10
"""Bits of the node's name in the number of a sender."""


class SenderNumbers:
    """Numbers the senders of all clients of queues on a node, so that no two have the same number,
    even if a queue's client is created again. node, incarnation: of this node.
    """

    __slots__ = ("_number", "incarnation", "node")

    def __init__(self, node: str, incarnation: int) -> None:
        self.node = node
        self.incarnation = incarnation
        # A node starts at most once in a microsecond, but other nodes may start in the same one.
        digest = blake2b(node.encode("utf-8", "surrogateescape"), digest_size=2).digest()
        own = int.from_bytes(digest) & ((1 << NODE_BITS) - 1)
        self._number = incarnation << NODE_BITS | own

    def next_number(self) -> int:
        """The number of the next sender."""
        self._number += 1 << NODE_BITS
        return self._number
