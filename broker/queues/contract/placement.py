"""Where a queue lives: a value that only the queue's kind can read in full, and what it shows."""

from typing import NamedTuple

import msgspec


class Placement(NamedTuple):
    """The nodes that keep a queue's messages, and the identity of its declaration.

    node: the node that takes the calls for the queue; empty for a queue of a node that is not in a
    cluster. identity: a queue that is deleted and declared again has another one, so that nothing
    that was sent to the first queue reaches the second. record: the rest, which the queue's kind
    writes and reads, such as the members of a replicated queue; empty if there is no more.
    """

    node: str
    identity: int
    record: bytes = b""


HERE = Placement("", 0)
"""The placement of every queue of a node that is not in a cluster."""


class QueueMembers(msgspec.Struct, frozen=True, kw_only=True):
    """The nodes of a replicated queue as plain data, which any node can read of the placement.

    leader: empty while no node leads. nodes: those that take part, the leader too, the oldest
    first. online: those of them that run. synchronised: those that have all messages. stopped:
    other nodes, whose disks have messages of the queue. syncing: how many messages all nodes have
    that are being synchronised; None if this node synchronises none.
    """

    leader: str
    nodes: tuple[str, ...]
    online: tuple[str, ...]
    synchronised: tuple[str, ...]
    stopped: tuple[str, ...] = ()
    syncing: int | None = None
