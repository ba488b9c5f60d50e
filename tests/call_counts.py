"""Counts the calls that Python makes, built-in functions included: work without a clock."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class CallCount:
    """calls: how many were made since the count began, or was set."""

    def __init__(self) -> None:
        self.calls = 0

    def note(self, _frame: object, event: str, _function: object) -> None:
        """The hook of `sys.setprofile`."""
        self.calls += event in ("call", "c_call")


@contextmanager
def counted_calls() -> Iterator[CallCount]:
    """Count the calls of a block."""
    count = CallCount()
    sys.setprofile(count.note)
    try:
        yield count
    finally:
        sys.setprofile(None)


def calls_of(work: Callable[[], object]) -> int:
    """How many calls a call makes."""
    with counted_calls() as count:
        work()
    return count.calls
