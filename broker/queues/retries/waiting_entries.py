"""The entries of one queue that wait for their next delivery, in the order of their times. Pure.

An entry leaves when its delay is over, or earlier when it expires. Most entries are added with a
time later than all others, so a sorted list is enough: adding one elsewhere moves 8 bytes for each
entry behind it.
"""

from bisect import bisect_left, insort
from collections.abc import Iterator
from typing import NamedTuple

from leveret.storage.messages.message import Entry


class WaitingEntry(NamedTuple):
    """An entry that waits until `due_ms`, on the broker's clock."""

    entry: Entry
    due_ms: int

    @property
    def leaves_ms(self) -> int:
        """When it is delivered or expires."""
        expires_ms = self.entry.expires_at_ms
        return min(expires_ms, self.due_ms) if expires_ms else self.due_ms


class WaitingEntries:
    """The entries. bytes: of their bodies."""

    __slots__ = ("_by_position", "_order", "bytes")

    def __init__(self) -> None:
        self._by_position: dict[int, WaitingEntry] = {}
        self._order: list[tuple[int, int]] = []
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._by_position)

    def __contains__(self, position: int) -> bool:
        return position in self._by_position

    def __iter__(self) -> Iterator[tuple[int, WaitingEntry]]:
        """The positions and entries, in the order in which they leave."""
        for _, position in self._order:
            yield position, self._by_position[position]

    def add(self, position: int, waiting: WaitingEntry) -> None:
        """Add an entry. position: `BackingQueue.position_of`."""
        assert position not in self._by_position, "an entry waits once"
        self._by_position[position] = waiting
        insort(self._order, (waiting.leaves_ms, position))
        self.bytes += len(waiting.entry.message.body)

    def remove(self, position: int) -> WaitingEntry | None:
        """Remove the entry at a position; None if none waits there."""
        waiting = self._by_position.pop(position, None)
        if waiting is not None:
            del self._order[bisect_left(self._order, (waiting.leaves_ms, position))]
            self.bytes -= len(waiting.entry.message.body)
        return waiting

    def take_first(self, count_max: int, now_ms: int | None = None) -> list[WaitingEntry]:
        """Remove up to this many entries that leave first. now_ms: only those that leave by now."""
        order = self._order
        end = len(order) if now_ms is None else bisect_left(order, (now_ms + 1, -1))
        end = min(end, count_max)
        taken = [self._by_position.pop(position) for _, position in order[:end]]
        del order[:end]
        for waiting in taken:
            self.bytes -= len(waiting.entry.message.body)
        return taken

    @property
    def leaves_next_ms(self) -> int:
        """When the first entry leaves. There must be one."""
        return self._order[0][0]

    @property
    def next_due_ms(self) -> int:
        """When the first entry leaves; 0 if there is none."""
        return self._order[0][0] if self._order else 0

    @property
    def last_due_ms(self) -> int:
        """When the last entry leaves; 0 if there is none."""
        return self._order[-1][0] if self._order else 0
