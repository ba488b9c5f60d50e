"""On which node of a cluster something runs that is to run once: all nodes choose alike. Pure."""

import hashlib
from collections.abc import Iterable


def chosen(place: Iterable[str], nodes: Iterable[str]) -> str:
    """The node on which this runs: each node that goes moves nothing but what has run on it."""
    named = tuple(place)

    def weight(node: str) -> bytes:
        return hashlib.sha256("\0".join((*named, node)).encode("utf-8", "surrogateescape")).digest()

    return max(nodes, key=weight)
