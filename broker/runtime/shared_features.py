"""Which features all nodes of the cluster have.

During an upgrade some nodes are of an earlier version. What these would not understand, in a
message or in a record that they keep, a node uses only when all of them have the feature.
"""

from collections.abc import Callable


def _none(feature: str) -> list[str]:
    return []


class SharedFeatures:
    """lacking: the names of the nodes that lack a feature. A node on its own has all features."""

    def __init__(self) -> None:
        self.lacking: Callable[[str], list[str]] = _none

    def all_have(self, feature: str) -> bool:
        """Whether all nodes have a feature."""
        return not self.lacking(feature)
