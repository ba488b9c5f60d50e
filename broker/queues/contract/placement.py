"""Where a queue lives: a value that only the queue's kind reads in full, and the nodes it names."""

from typing import NamedTuple

import msgspec


class Placement(NamedTuple):
    """The nodes that keep a queue's messages, and the identity of its declaration.

    node: the node that takes the calls for the queue; empty for a queue of a node that is not in a
    cluster. identity: a queue that is deleted and declared again has another one, so that nothing
    that was sent to the first queue reaches the second. record: the rest, which the queue's kind
    writes and reads, such as the members of a replicated queue; empty if there is nothing else.
    """

    node: str
    identity: int
    record: bytes = b""


HERE = Placement("", 0)
"""The placement of every queue of a node that is not in a cluster."""


class QueueMembers(msgspec.Struct, frozen=True, kw_only=True):
    """The nodes of a replicated queue as plain data, which any node can read of the placement.

    leader: empty while no node leads. nodes: those that take part, the leader too, the oldest
    first. online: the running ones of them. synchronised: those that have all messages. stopped:
    other nodes whose disks have messages of the queue. syncing: the number of messages that all
    synchronising nodes have so far; None if this node is not synchronising any.
    """

    leader: str
    nodes: tuple[str, ...]
    online: tuple[str, ...]
    synchronised: tuple[str, ...]
    stopped: tuple[str, ...] = ()
    syncing: int | None = None
