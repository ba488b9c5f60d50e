"""A backing queue with priorities: one backing queue a level, the highest level first.

A message's priority is at most the queue's maximum; one without a priority has 0. An entry goes
back to the level its message belongs to. Facts: RabbitMQ's `rabbit_priority_queue`.
"""

from collections.abc import Callable, Iterable
from typing import Any

from storage.backing_queue import BackingQueue, Head, Waiter
from storage.message import Entry, Message
from storage.queue_status import summed_status


class PriorityQueue:
    """See `storage.backing_queue.BackingQueue`. Levels are made when they are first needed.

    levels: those that a restart found something in.
    """

    __slots__ = ("_levels", "_make_level", "_priority_max")

    def __init__(
        self,
        priority_max: int,
        make_level: Callable[[int], BackingQueue],
        levels: Iterable[int] = (),
    ) -> None:
        self._priority_max = priority_max
        self._make_level = make_level
        self._levels: dict[int, BackingQueue] = {}
        for level in levels:
            self._level(level)

    @property
    def ready_count(self) -> int:
        """Entries that are ready, of all levels."""
        return sum(level.ready_count for level in self._levels.values())

    @property
    def ready_bytes(self) -> int:
        """The bytes of their bodies."""
        return sum(level.ready_bytes for level in self._levels.values())

    @property
    def unacked_count(self) -> int:
        """Entries that are fetched and not settled, of all levels."""
        return sum(level.unacked_count for level in self._levels.values())

    @property
    def unacked_bytes(self) -> int:
        """The bytes of their bodies."""
        return sum(level.unacked_bytes for level in self._levels.values())

    @property
    def has_expiring(self) -> bool:
        """There may be entries that expire, in some level."""
        return any(level.has_expiring for level in self._levels.values())

    @property
    def next_position(self) -> int:
        """Each priority counts from 0."""
        return 0

    def set_lazy(self, is_lazy: bool) -> None:
        """Every level, and those to come."""
        for level in self._levels.values():
            level.set_lazy(is_lazy)

    def publish(self, messages: list[Message], body_bytes: int, expires_at_ms: int) -> bool:
        """Append messages, which all have the same priority, to its level."""
        level = self._level(self._priority_of(messages[0]))
        return level.publish(messages, body_bytes, expires_at_ms)

    def when_safe(self, waiter: Waiter, sequence: int) -> None:
        """All levels are in the same store: any of them knows."""
        next(iter(self._levels.values())).when_safe(waiter, sequence)

    def peek(self) -> Entry | None:
        """The first entry of the highest level that has one."""
        level = self._first_level()
        return level.peek() if level is not None else None

    def heads(self) -> list[Head]:
        """The first entry of each level that has one."""
        levels = sorted(self._levels.items(), reverse=True)
        return [
            head._replace(priority=priority) for priority, level in levels for head in level.heads()
        ]

    def fetch(self, count: int, ack_required: bool) -> list[Entry]:
        """Take entries off the highest levels."""
        entries: list[Entry] = []
        while len(entries) < count:
            level = self._first_level()
            if level is None:
                break
            entries += level.fetch(count - len(entries), ack_required)
        return entries

    def drop(self) -> Entry:
        """Take the first entry of the highest level off for good."""
        level = self._first_level()
        assert level is not None, "drop needs a ready entry"
        return level.drop()

    def ack(self, entry: Entry) -> None:
        """An unacked entry is done with."""
        self._level(self._priority_of(entry.message)).ack(entry)

    def requeue(self, entries: Iterable[Entry]) -> None:
        """Each entry goes back to its place in its level."""
        for entry in entries:
            self._level(self._priority_of(entry.message)).requeue((entry,))

    def purge(self) -> int:
        """Drop every ready entry of every level."""
        return sum(level.purge() for level in self._levels.values())

    def entries(self) -> Iterable[Entry]:
        """The ready entries, highest level first."""
        for level in self._levels.values():
            yield from level.entries()

    def status(self) -> dict[str, Any]:
        """What all levels hold together."""
        return summed_status((priority, level.status()) for priority, level in self._levels.items())

    def delete(self) -> None:
        """The queue is gone, with every level."""
        for level in self._levels.values():
            level.delete()

    def _priority_of(self, message: Message) -> int:
        return min(message.header.priority or 0, self._priority_max)

    def _level(self, priority: int) -> BackingQueue:
        level = self._levels.get(priority)
        if level is None:
            level = self._levels[priority] = self._make_level(priority)
            self._levels = dict(sorted(self._levels.items(), reverse=True))
        return level

    def _first_level(self) -> BackingQueue | None:
        for level in self._levels.values():
            if level.ready_count:
                return level
        return None
