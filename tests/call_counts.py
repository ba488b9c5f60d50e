"""Counts the calls that Python makes, built-in functions included: work without a clock.

Python's own profiler counts them, since a hook of `sys.setprofile` that is written in Python takes
five times as long as what it counts.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from cProfile import Profile


class CallCount:
    """Counts the calls of this thread from `begin` to `end`."""

    def __init__(self) -> None:
        self._profile = Profile(subcalls=False)

    def begin(self) -> None:
        """Count from now on."""
        self._profile.enable()

    def end(self) -> None:
        """Count no longer."""
        self._profile.disable()

    def taken(self) -> int:
        """How many calls have returned since the count began, or since this was asked before.

        One that has not returned yet is ended by the question, and counted.
        """
        self._profile.disable()
        calls = sum(one.callcount for one in self._profile.getstats())
        self._profile.clear()
        self._profile.enable()
        return calls


@contextmanager
def counted_calls() -> Iterator[CallCount]:
    """Count the calls of a block."""
    count = CallCount()
    count.begin()
    try:
        yield count
    finally:
        count.end()


def calls_of(work: Callable[[], object]) -> int:
    """How many calls a call makes."""
    with counted_calls() as count:
        work()
        return count.taken()
