"""The node of a cluster that runs something that must run once: all nodes choose alike. Pure."""

import hashlib
from collections.abc import Iterable


def chosen(place: Iterable[str], nodes: Iterable[str]) -> str:
    """The node that runs this; when a node leaves, only the things that ran on it move."""
    named = tuple(place)

    def weight(node: str) -> bytes:
        return hashlib.sha256("\0".join((*named, node)).encode("utf-8", "surrogateescape")).digest()

    return max(nodes, key=weight)
