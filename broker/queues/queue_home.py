"""Where a queue lives: the node that keeps its messages, and which declaration it is of."""

from typing import NamedTuple


class QueueHome(NamedTuple):
    """node: its name; empty for a queue of a node that is not in a cluster.

    identity: of the declaration. A queue that is deleted and declared again has another one, so
    that nothing which was sent to the first reaches the second.
    """

    node: str
    identity: int


HERE = QueueHome("", 0)
"""The home of every queue of a node that is not in a cluster."""
