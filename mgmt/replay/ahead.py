"""Reading ahead: the next item of an iterator is made in a thread while the last one is used.

Files are unpacked by code that lets other threads run, so that it costs those who publish no time.
"""

from collections.abc import Iterator
from concurrent.futures import Executor
from typing import TypeVar

Item = TypeVar("Item")


def read_ahead(items: Iterator[Item], thread: Executor) -> Iterator[Item]:
    """The same items, of which one is always made ahead. None ends them."""
    coming = thread.submit(next, items, None)
    while (item := coming.result()) is not None:
        coming = thread.submit(next, items, None)
        yield item
