"""Where a queue lives: a value that only the queue's kind can read in full."""

from typing import NamedTuple


class Placement(NamedTuple):
    """The nodes that keep a queue's messages, and the identity of its declaration.

    node: the node that takes the calls for the queue; empty for a queue of a node that is not in a
    cluster. identity: a queue that is deleted and declared again has another one, so that nothing
    that was sent to the first queue reaches the second. record: the rest, which the queue's kind
    writes and reads, such as the members of a mirrored queue; empty if there is no more.
    """

    node: str
    identity: int
    record: bytes = b""


HERE = Placement("", 0)
"""The placement of every queue of a node that is not in a cluster."""
