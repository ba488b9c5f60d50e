"""A queue of several levels: a backing queue per level (priority_levels.py), the highest first.

An entry is requeued to the level of its message. A classic queue with priorities has a level for
each of them (RabbitMQ's `rabbit_priority_queue`).

Each level counts its positions from 0. The position of an entry in the whole queue combines the
level, highest first, and the position in the level, so it is unique and increases in the order of
fetching:

    (highest - level) * 2**48 + position in the level

Invariants:

PR1  Every entry of a level has a message of that level (`PriorityLevels.of`).
PR2  `_levels` is in the order of fetching.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, groupby
from typing import Any

from mypy_extensions import mypyc_attr

from leveret.broker.queues.contract.priority_levels import PriorityLevels
from leveret.storage.contract.backing_queue import (
    BackingQueue,
    Cursor,
    FirstReady,
    Purged,
    Unreadable,
    Waiter,
)
from leveret.storage.contract.queue_status import StorageCounts, summed_counts, summed_status
from leveret.storage.messages.message import Entry, Message
from leveret.storage.messages.message_run import MessageRun
from leveret.storage.queue.transient_queue import TransientQueue

LEVEL_BITS = 48
"""Maximum bits of a position in a level: enough for a million messages a second for nine years."""
LEVEL_MASK = (1 << LEVEL_BITS) - 1


@mypyc_attr(allow_interpreted_subclasses=True)
class PriorityQueue(BackingQueue):
    """A backing queue of several levels. Levels are created when first needed.

    found: the levels in which a restart found messages.
    """

    __slots__ = ("_highest", "_is_loose", "_level_of", "_levels", "_make_level")

    def __init__(
        self,
        levels: PriorityLevels,
        make_level: Callable[[int], BackingQueue],
        found: Iterable[int] = (),
    ) -> None:
        self._highest, self._level_of = levels
        self._make_level = make_level
        self._is_loose = False
        self._levels: dict[int, BackingQueue] = {}
        for level in found:
            self._level(level)

    @property
    def ready_count(self) -> int:
        """The number of ready entries in all levels."""
        return sum(level.ready_count for level in self._levels.values())

    @property
    def ready_bytes(self) -> int:
        """The total size of their bodies."""
        return sum(level.ready_bytes for level in self._levels.values())

    @property
    def unacked_count(self) -> int:
        """The number of unacked entries (fetched or taken, not settled) in all levels."""
        return sum(level.unacked_count for level in self._levels.values())

    @property
    def unacked_bytes(self) -> int:
        """The total size of their bodies."""
        return sum(level.unacked_bytes for level in self._levels.values())

    @property
    def has_expiring(self) -> bool:
        """Whether any level may contain entries that expire."""
        return any(level.has_expiring for level in self._levels.values())

    def next_position_of(self, message: Message) -> int:
        """Each priority counts from 0."""
        level = self._levels.get(self._level_of(message))
        return 0 if level is None else level.next_position_of(message)

    def position_of(self, entry: Entry) -> int:
        """The level, then the position in the level."""
        assert entry.position <= LEVEL_MASK, "a position has more than 48 bits"
        return self.first_position(self._level_of(entry.message)) + entry.position

    def given_positions(self) -> list[tuple[int, int]]:
        """The given positions of each level."""
        ranges = []
        for level, queue in self._levels.items():
            first = self.first_position(level)
            ranges += [(first + start, first + end) for start, end in queue.given_positions()]
        return ranges

    def go_on_at(self, position: int) -> None:
        """Continue the level of this position there."""
        self._level(self.level_at(position)).go_on_at(position & LEVEL_MASK)

    def first_position(self, level: int) -> int:
        """The first position of a level."""
        return (self._highest - level) << LEVEL_BITS

    def level_at(self, position: int) -> int:
        """The level of a position; negative beyond the end of the queue."""
        return self._highest - (position >> LEVEL_BITS)

    def set_lazy(self, is_lazy: bool) -> None:
        """Set all existing levels; later ones use the queue's options."""
        for level in self._levels.values():
            level.set_lazy(is_lazy)

    def set_loose(self, is_loose: bool) -> None:
        """Set all existing levels, and later ones."""
        self._is_loose = is_loose
        for level in self._levels.values():
            level.set_loose(is_loose)

    # Publishing

    def publish(self, run: MessageRun, expires_at_ms: int) -> bool:
        """Append messages of equal priority to the level of that priority."""
        level = self._level(self._level_of(run.messages[0]))
        return level.publish(run, expires_at_ms)

    def publish_each(self, run: MessageRun, expire_at_ms: list[int]) -> bool:
        """The same, for messages that expire at different times."""
        level = self._level(self._level_of(run.messages[0]))
        return level.publish_each(run, expire_at_ms)

    def when_safe(self, waiter: Waiter, first: int, holder: object) -> None:
        """Ask any level, since all levels use the same store."""
        next(iter(self._levels.values())).when_safe(waiter, first, holder)

    # Taking

    def peek(self) -> Entry | None:
        """The first entry of the highest level that has one."""
        for level in self._levels.values():
            if level.ready_count and (entry := level.peek()) is not None:
                return entry
        return None

    def heads(self) -> list[FirstReady]:
        """The first entry of each level that has one."""
        return [
            head._replace(priority=priority)
            for priority, level in self._levels.items()
            for head in level.heads()
        ]

    def firsts(self) -> list[int]:
        """The position of the first entry of each level that has one."""
        return [self.first_position(head.priority) + head.position for head in self.heads()]

    def fetchable(self, count: int) -> int:
        """Fetchable entries in fetching order, up to the first level that needs a read."""
        found = 0
        for level in self._levels.values():
            wanted = min(count - found, level.ready_count)
            try:
                in_memory = level.fetchable(wanted)
            except Unreadable:
                if not found:
                    raise
                break
            found += in_memory
            if in_memory < wanted or found == count:
                break
        return found

    def unexpired(self, count: int, now_ms: int) -> int:
        """Unexpired entries of the first level that has entries."""
        for level in self._levels.values():
            if level.ready_count:
                return level.unexpired(min(count, level.ready_count), now_ms)
        return 0

    def fetch(self, count: int, ack_required: bool) -> list[Entry]:
        """Fetch entries from the highest levels, up to a message that cannot be read."""
        entries: list[Entry] = []
        for level in self._levels.values():
            if not level.ready_count:
                continue
            try:
                entries += level.fetch(count - len(entries), ack_required)
            except Unreadable:
                if not entries:
                    raise
                break
            if len(entries) == count or level.ready_count:
                break
        return entries

    def drop(self) -> Entry | None:
        """Remove the first entry of the highest level."""
        entries = self.fetch(1, ack_required=False)
        return entries[0] if entries else None

    def take(self, entries: Sequence[Entry]) -> list[Entry]:
        """Take entries from any position in their levels."""
        taken: list[Entry] = []
        for level, found in self._by_level(entries):
            taken += level.take(found)
        return taken

    def take_at(self, positions: Sequence[int]) -> list[Entry]:
        """Take the entries at these positions in their levels: from all of them, or from none."""
        taken: list[tuple[BackingQueue, list[Entry]]] = []
        try:
            for priority, found in groupby(positions, self.level_at):
                level = self._levels.get(priority)
                if level is not None:
                    taken.append((level, level.take_at([one & LEVEL_MASK for one in found])))
        except Unreadable:
            for of_level, entries in taken:
                of_level.requeue(entries, False)
            raise
        return [entry for _, entries in taken for entry in entries]

    def ready_between(self, start: int, end: int) -> list[Entry] | None:
        """The ready entries at these positions of a level."""
        level = self._levels.get(self.level_at(start))
        if level is None:
            return []
        first = start & LEVEL_MASK
        return level.ready_between(first, first + end - start)

    # Settling

    def ack(self, entries: Sequence[Entry]) -> None:
        """Remove unacked entries."""
        for level, found in self._by_level(entries):
            level.ack(found)

    def requeue(self, entries: Sequence[Entry], redelivered: bool = True) -> None:
        """Put each entry back at its position in its level."""
        for level, found in self._by_level(entries):
            level.requeue(found, redelivered)

    def purge(self) -> Purged:
        """Drop every ready entry of every level."""
        purged = [level.purge() for level in self._levels.values()]
        freeing = chain.from_iterable(of_level.freeing for of_level in purged)
        return Purged(sum(of_level.dropped for of_level in purged), freeing)

    # Browsing

    def cursor(self, position: int = 0) -> "PriorityCursor":
        """A cursor over the levels, one after the other."""
        return PriorityCursor(self, position)

    def levels_from(self, priority: int) -> list[tuple[int, BackingQueue]]:
        """The levels of this priority and below, the highest first."""
        return [item for item in self._levels.items() if item[0] <= priority]

    def counts(self) -> StorageCounts:
        """The sums over all levels."""
        return summed_counts(level.counts() for level in self._levels.values())

    def status(self) -> dict[str, Any]:
        """The combined status of all levels."""
        return summed_status((priority, level.status()) for priority, level in self._levels.items())

    def delete(self) -> Iterator[int]:
        """Delete all levels."""
        # The function refers to the queue: breaking the cycle frees both immediately.
        self._make_level = _level_of_deleted
        return chain.from_iterable([level.delete() for level in self._levels.values()])

    def _by_level(self, entries: Sequence[Entry]) -> Iterator[tuple[BackingQueue, list[Entry]]]:
        """Group consecutive entries of the same level."""
        for priority, found in groupby(entries, lambda entry: self._level_of(entry.message)):
            yield self._levels[priority], list(found)

    def _level(self, priority: int) -> BackingQueue:
        level = self._levels.get(priority)
        if level is None:
            level = self._levels[priority] = self._make_level(priority)
            level.set_loose(self._is_loose)
            self._levels = dict(sorted(self._levels.items(), reverse=True))
        return level


def _level_of_deleted(level: int) -> BackingQueue:
    """The level of a deleted queue, for publishers that have not noticed the deletion yet."""
    return TransientQueue()


class PriorityCursor:
    """Reads a priority queue level by level, starting at a position."""

    __slots__ = ("_cursor", "_level", "_queue")

    def __init__(self, queue: PriorityQueue, position: int) -> None:
        self._queue = queue
        self._level = queue.level_at(position)
        self._cursor: Cursor | None = None
        for priority, level in queue.levels_from(self._level):
            self._cursor = level.cursor(position & LEVEL_MASK if priority == self._level else 0)
            self._level = priority
            break

    @property
    def position(self) -> int:
        """The position at which the next read begins."""
        first = self._queue.first_position(self._level)
        return first if self._cursor is None else first + self._cursor.position

    def read(self, bytes_max: int) -> list[Entry]:
        """The next entries in order, all of one level; empty at the end of the queue."""
        for priority, level in self._queue.levels_from(self._level):
            cursor = self._cursor
            if cursor is None or priority != self._level:
                cursor = level.cursor()
            entries = cursor.read(bytes_max)
            if entries:
                self._move_to(priority, cursor)
                return entries
            if cursor is not self._cursor:
                cursor.close()
        return []

    def _move_to(self, priority: int, cursor: Cursor) -> None:
        if cursor is not self._cursor:
            self.close()
            self._level, self._cursor = priority, cursor

    def close(self) -> None:
        """Close the cursor of the level."""
        if self._cursor is not None:
            self._cursor.close()
