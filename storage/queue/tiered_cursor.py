"""A cursor over a tiered queue: in memory and on disk, in the order of the positions.

It finds the lowest position from its own on, in memory and in delta, and reads entries from there:
from memory up to the next position in delta, or from a segment up to the next position in memory.
Nothing that it reads stays in memory. A cursor has an open file and an offset of its own.
"""

from leveret.storage.contract.backing_queue import Unreadable
from leveret.storage.messages.intervals import NO_POSITION
from leveret.storage.messages.message import ENTRY_BYTES, Entry
from leveret.storage.queue.delta import Delta
from leveret.storage.queue.in_memory import InMemory
from leveret.storage.queue.segment_entries import SegmentEntries
from leveret.storage.segments.ledger import Ledger


class TieredCursor:
    """A `leveret.storage.contract.backing_queue.Cursor`. position: the start of the next read."""

    __slots__ = ("_delta", "_ledger", "_memory", "_segments", "position")

    def __init__(self, memory: InMemory, delta: Delta, ledger: Ledger, position: int) -> None:
        self._memory = memory
        self._delta = delta
        self._ledger = ledger
        self._segments: SegmentEntries = delta.reader()
        self.position = position

    def read(self, bytes_max: int) -> list[Entry]:
        """The next entries, in order; none at the end of the queue."""
        entries: list[Entry] = []
        left = max(1, bytes_max)
        while left > 0:
            start, end = self._delta.next_range(self.position)
            found = self._memory.read(self.position, start, left)
            if found:
                self.position = found[-1].position + 1
            elif start != NO_POSITION:
                end = min(end, self._memory.next_position(start))
                try:
                    found, self.position = self._look(start, end, left)
                except Unreadable:
                    if not entries:
                        raise
                    break
            else:
                break
            entries += found
            left -= sum([len(entry.message.body) + ENTRY_BYTES for entry in found])
        return entries

    def _look(self, start: int, end: int, bytes_max: int) -> tuple[list[Entry], int]:
        return self._segments.look(start, end, bytes_max, self._ledger.fetched_to)

    def close(self) -> None:
        """Close the file."""
        self._segments.close()
