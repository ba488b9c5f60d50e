"""Reads ahead: a thread produces the next item of an iterator while the last one is used.

Decompression releases the GIL, so it takes no time from the publishing side.
"""

from collections.abc import Iterator
from concurrent.futures import Executor
from typing import TypeVar

Item = TypeVar("Item")


def read_ahead(items: Iterator[Item], thread: Executor) -> Iterator[Item]:
    """Return the same items, always reading one ahead. None ends the iteration."""
    coming = thread.submit(next, items, None)
    while (item := coming.result()) is not None:
        coming = thread.submit(next, items, None)
        yield item
