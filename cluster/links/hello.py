"""The hello: the data that a node sends about itself before either side trusts the other."""

from dataclasses import dataclass

import msgspec

from leveret.broker.runtime.node_address import PORT_MAX, is_node_name

VERSION_OLDEST, VERSION_NEWEST = 2, 2
"""The versions of the protocol between nodes that this release speaks. A release that adds a
version also speaks the previous one, so that a cluster can be upgraded node by node. Version 2 is
the exception: nodes of version 1 have quorum queues of one member only."""
NAMES_MAX = 256
INCARNATION_MAX = 2**63 - 1
WORD_CHARACTERS_MAX = 64


@dataclass(frozen=True)
class NodeIdentity:
    """A node's data for other nodes.

    node: its name. incarnation: the number of this start. release: Leveret's version, for
    messages. cluster: the cluster's id; empty while the node is in none. port: the port on which it
    listens for other nodes; 0 if it does not. features: its features beyond the protocol's version.
    compression: the method that it prefers to send. compressions: the methods that it can read.
    """

    node: str
    incarnation: int
    release: str = ""
    cluster: str = ""
    port: int = 0
    features: frozenset[str] = frozenset()
    compression: str = "none"
    compressions: tuple[str, ...] = ()
    oldest: int = VERSION_OLDEST
    newest: int = VERSION_NEWEST


class Hello(msgspec.Struct, frozen=True):
    """An identity on the wire, with the data of one connection.

    nonce: randomness of this connection. wanted: the dialled node; empty from the acceptor.
    """

    node: str
    incarnation: int
    oldest: int
    newest: int
    nonce: bytes
    wanted: str = ""
    release: str = ""
    cluster: str = ""
    port: int = 0
    features: tuple[str, ...] = ()
    compression: str = "none"
    compressions: tuple[str, ...] = ()

    @classmethod
    def of(cls, own: NodeIdentity, nonce: bytes, wanted: str) -> "Hello":
        """The hello of a node for one connection."""
        return cls(
            own.node, own.incarnation, own.oldest, own.newest, nonce, wanted, own.release,
            own.cluster, own.port, tuple(sorted(own.features)), own.compression,
            own.compressions,
        )  # fmt: skip

    @property
    def is_sound(self) -> bool:
        """Whether the fields are valid, and so can be shown in a log."""
        numbers = 0 < self.oldest <= self.newest and 0 <= self.incarnation <= INCARNATION_MAX
        words = (self.release, self.compression, *self.features, *self.compressions)
        return (
            numbers
            and 0 <= self.port <= PORT_MAX
            and is_node_name(self.node)
            and (not self.wanted or is_node_name(self.wanted))
            and len(self.cluster) <= NAMES_MAX
            and self.cluster.isprintable()
            and len(words) <= NAMES_MAX
            and all(len(word) <= WORD_CHARACTERS_MAX and word.isprintable() for word in words)
        )
