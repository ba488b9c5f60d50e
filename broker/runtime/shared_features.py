"""Which features all nodes of the cluster have.

During an upgrade some nodes are of an earlier version. What these would not understand, in a
message or in a record that they keep, a node uses only when all of them have the feature.
"""

from collections.abc import Callable


def _has(feature: str) -> bool:
    return True


class SharedFeatures:
    """all_have: whether all nodes have a feature. A node on its own has all of its features."""

    def __init__(self) -> None:
        self.all_have: Callable[[str], bool] = _has
