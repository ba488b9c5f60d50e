"""`cluster_partition_handling`: whether nodes that have lost contact with others continue.

A node that loses contact with others cannot tell whether they died or run on the other side of a
partition, so the rule decides by the remaining nodes. `ignore` and `autoheal` let every side go on;
autoheal.py chooses between the sides when they meet again. A node that may not continue pauses: it
closes its listeners, and starts again when the rule allows it.

The rule is applied before a view is installed. So a paused node has never run without the others,
and its disk and the order of starts reflect that.
"""

from collections.abc import Callable

MayGoOn = Callable[[frozenset[str]], bool]


def always(names: frozenset[str]) -> bool:
    """`ignore` and `autoheal`."""
    return True


class PauseMinority:
    """`pause_minority`: the nodes of a side with half of the cluster, or less, pause.

    cluster: all nodes of the cluster, disc and RAM, running or not.
    """

    def __init__(self, cluster: frozenset[str]) -> None:
        self._cluster = cluster

    def __call__(self, names: frozenset[str]) -> bool:
        """Whether these are more than half of the cluster."""
        return 2 * len(names & self._cluster) > len(self._cluster)


class PauseIfAllDown:
    """`pause_if_all_down`: the nodes of a side without any of the listed nodes pause.

    Both sides may have one of them: then `recover` says whether to `ignore` that or to `autoheal`.
    """

    def __init__(self, listed: frozenset[str]) -> None:
        self._listed = listed

    def __call__(self, names: frozenset[str]) -> bool:
        """Whether one of the listed nodes is among these."""
        return bool(names & self._listed)
