"""Runs of messages that are held: published, and not yet safe at every holder.

A run is known by the number of its first message. Each queue that takes it may leave it to a named
holder (the log, a queue on another node, a mirror) to confirm later. A run is settled when its last
holder has confirmed it.

Invariants:
HR1. A holder holds a run at most once. A confirm by a holder that does not hold it does nothing.
HR2. When a holder dies, none of its runs remains, and runs that it did not hold are unaffected.
HR3. Runs are kept in the order of their numbers, so that the lowest, and those that were held last,
     are found without looking at the rest.
"""

from collections.abc import Iterator


class HeldRuns:
    """The held runs: first number -> (one more than the last number, the run's holders)."""

    __slots__ = ("_last", "_runs")

    def __init__(self) -> None:
        self._runs: dict[int, tuple[int, list[object]]] = {}
        self._last = 0

    def __bool__(self) -> bool:
        return bool(self._runs)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        """The runs as (first, one more than the last), in order."""
        for first, (end, _) in self._runs.items():
            yield first, end

    @property
    def message_count(self) -> int:
        """The number of messages that are held."""
        return sum(end - first for first, end in self)

    @property
    def first(self) -> int | None:
        """The lowest number that is held."""
        for first in self._runs:
            return first
        return None

    def since(self, number: int) -> list[tuple[int, int]]:
        """The runs that begin at this number or above it, as (first, one more than the last)."""
        found = []
        for first in reversed(self._runs):
            if first < number:
                break
            found.append((first, self._runs[first][0]))
        found.reverse()
        return found

    def hold(self, first: int, count: int, holder: object) -> None:
        """One more holder will confirm a run later."""
        run = self._runs.get(first)
        if run is None:
            self._runs[first] = (first + count, [holder])
            if first < self._last:
                self._runs = dict(sorted(self._runs.items()))
            else:
                self._last = first
        else:
            assert holder not in run[1], "HR1: a holder holds a run at most once"
            run[1].append(holder)

    def confirm(self, first: int, holder: object) -> int | None:
        """A holder confirms a run. Returns the end of the run if that settles it."""
        run = self._runs.get(first)
        if run is None or holder not in run[1]:
            return None
        end, holders = run
        holders.remove(holder)
        if holders:
            return None
        del self._runs[first]
        return end

    def end_of(self, first: int) -> int | None:
        """One more than the last number of a run that is held."""
        run = self._runs.get(first)
        return None if run is None else run[0]

    def drop(self, first: int) -> None:
        """A held run is settled, even if its holders have not confirmed it."""
        del self._runs[first]

    def of_holder(self, holder: object) -> list[tuple[int, int]]:
        """The runs that a holder holds, as (first, one more than the last)."""
        return [(first, end) for first, (end, holders) in self._runs.items() if holder in holders]
