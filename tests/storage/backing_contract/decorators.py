"""Backing queues around backing queues: one that changes nothing, and one with a mirror."""

from collections.abc import Callable, Iterator, Sequence
from functools import wraps
from operator import attrgetter
from typing import Any

from leveret.storage.contract.backing_queue import BackingQueue, Purged
from leveret.storage.messages.message import Entry
from leveret.storage.messages.message_run import MessageRun


class UnchangedQueue(BackingQueue):
    """Passes every call on: it gets all members of the interface below."""

    def __init__(self, inner: BackingQueue) -> None:
        self.inner = inner


def passed_on(name: str, member: Any) -> property | Callable[..., Any]:
    """A member of `UnchangedQueue` that is the inner queue's."""
    if not callable(member):
        return property(attrgetter(f"inner.{name}"))

    @wraps(member)
    def call(queue: UnchangedQueue, *arguments: Any, **options: Any) -> Any:
        return getattr(queue.inner, name)(*arguments, **options)

    return call


for own_name, own_member in vars(BackingQueue).items():
    if not own_name.startswith("_"):
        setattr(UnchangedQueue, own_name, passed_on(own_name, own_member))


class MirroredQueue(UnchangedQueue):
    """Broadcasts every change by counts and positions to a mirror, which has to stay equal."""

    def __init__(self, leader: BackingQueue, mirror: BackingQueue) -> None:
        super().__init__(leader)
        self._mirror = mirror
        self._mirror_unacked: dict[int, Entry] = {}

    def go_on_at(self, position: int) -> None:
        super().go_on_at(position)
        self._mirror.go_on_at(position)

    def publish(self, run: MessageRun, expires_at_ms: int) -> bool:
        self._mirror.publish(run, expires_at_ms)
        return super().publish(run, expires_at_ms)

    def publish_each(self, run: MessageRun, expire_at_ms: list[int]) -> bool:
        self._mirror.publish_each(run, expire_at_ms)
        return super().publish_each(run, expire_at_ms)

    def fetch(self, count: int, ack_required: bool) -> list[Entry]:
        entries = super().fetch(count, ack_required)
        self._fetched_by_mirror(entries, self._mirror.fetch(count, ack_required), ack_required)
        return entries

    def drop(self) -> Entry | None:
        entry = super().drop()
        found = self._mirror.drop()
        assert (entry is None) == (found is None)
        return entry

    def take(self, entries: Sequence[Entry]) -> list[Entry]:
        taken = super().take(entries)
        self._fetched_by_mirror(taken, self._mirror.take(taken), True)
        return taken

    def take_at(self, positions: Sequence[int]) -> list[Entry]:
        taken = super().take_at(positions)
        self._fetched_by_mirror(taken, self._mirror.take(taken), True)
        return taken

    def _fetched_by_mirror(self, ours: list[Entry], theirs: list[Entry], is_unacked: bool) -> None:
        positions = [self._mirror.position_of(entry) for entry in theirs]
        assert positions == [self.position_of(entry) for entry in ours]
        assert [entry.message.body for entry in theirs] == [entry.message.body for entry in ours]
        if is_unacked:
            self._mirror_unacked.update(zip(positions, theirs, strict=True))

    def _mirrors_own(self, entries: Sequence[Entry]) -> list[Entry]:
        return [self._mirror_unacked.pop(self.position_of(entry)) for entry in entries]

    def ack(self, entries: Sequence[Entry]) -> None:
        self._mirror.ack(self._mirrors_own(entries))
        super().ack(entries)

    def requeue(self, entries: Sequence[Entry], redelivered: bool = True) -> None:
        self._mirror.requeue(self._mirrors_own(entries), redelivered)
        super().requeue(entries, redelivered)

    def purge(self) -> Purged:
        purged = super().purge()
        assert self._mirror.purge().dropped == purged.dropped
        return purged

    def delete(self) -> Iterator[int]:
        assert self._mirror.ready_count == self.ready_count
        assert self._mirror.ready_bytes == self.ready_bytes
        assert self._mirror.unacked_bytes == self.unacked_bytes
        self._mirror.delete()
        return super().delete()
