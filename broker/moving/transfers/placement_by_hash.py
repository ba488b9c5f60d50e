"""Chooses the one node of a cluster that runs a shovel or link, identically on all nodes. Pure."""

import hashlib
from collections.abc import Iterable


def chosen(place: Iterable[str], nodes: Iterable[str]) -> str:
    """The node that runs this; when a node leaves, only the items that ran on it move."""
    named = tuple(place)

    def weight(node: str) -> bytes:
        return hashlib.sha256("\0".join((*named, node)).encode("utf-8", "surrogateescape")).digest()

    return max(nodes, key=weight)
