"""Where a queue lives: the node that keeps its messages, and the identity of its declaration."""

from typing import NamedTuple


class QueueHome(NamedTuple):
    """node: its name; empty for a queue of a node that is not in a cluster.

    identity: the declaration's. A queue that is deleted and declared again has another one, so
    that nothing that was sent to the first queue reaches the second.
    """

    node: str
    identity: int


HERE = QueueHome("", 0)
"""The home of every queue of a node that is not in a cluster."""
