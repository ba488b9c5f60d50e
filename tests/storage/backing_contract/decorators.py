"""Backing queues around backing queues: one that changes nothing, and one with a mirror."""

from collections.abc import Iterator, Sequence
from typing import Any

from leveret.storage.contract.backing_queue import BackingQueue, Cursor, FirstReady, Purged, Waiter
from leveret.storage.contract.queue_status import StorageCounts
from leveret.storage.messages.message import Entry, Message
from leveret.storage.messages.message_run import MessageRun


class UnchangedQueue(BackingQueue):
    """Passes every call on."""

    def __init__(self, inner: BackingQueue) -> None:
        self.inner = inner

    @property
    def ready_count(self) -> int:
        return self.inner.ready_count

    @property
    def ready_bytes(self) -> int:
        return self.inner.ready_bytes

    @property
    def unacked_count(self) -> int:
        return self.inner.unacked_count

    @property
    def unacked_bytes(self) -> int:
        return self.inner.unacked_bytes

    @property
    def has_expiring(self) -> bool:
        return self.inner.has_expiring

    def next_position_of(self, message: Message) -> int:
        return self.inner.next_position_of(message)

    def position_of(self, entry: Entry) -> int:
        return self.inner.position_of(entry)

    def given_positions(self) -> list[tuple[int, int]]:
        return self.inner.given_positions()

    def go_on_at(self, position: int) -> None:
        self.inner.go_on_at(position)

    def set_lazy(self, is_lazy: bool) -> None:
        self.inner.set_lazy(is_lazy)

    def publish(self, run: MessageRun, expires_at_ms: int) -> bool:
        return self.inner.publish(run, expires_at_ms)

    def when_safe(self, waiter: Waiter, first: int, holder: object) -> None:
        self.inner.when_safe(waiter, first, holder)

    def peek(self) -> Entry | None:
        return self.inner.peek()

    def heads(self) -> list[FirstReady]:
        return self.inner.heads()

    def fetchable(self, count: int) -> int:
        return self.inner.fetchable(count)

    def unexpired(self, count: int, now_ms: int) -> int:
        return self.inner.unexpired(count, now_ms)

    def fetch(self, count: int, ack_required: bool) -> list[Entry]:
        return self.inner.fetch(count, ack_required)

    def drop(self) -> Entry | None:
        return self.inner.drop()

    def take(self, entries: Sequence[Entry]) -> list[Entry]:
        return self.inner.take(entries)

    def ack(self, entries: Sequence[Entry]) -> None:
        self.inner.ack(entries)

    def requeue(self, entries: Sequence[Entry], redelivered: bool = True) -> None:
        self.inner.requeue(entries, redelivered)

    def purge(self) -> Purged:
        return self.inner.purge()

    def cursor(self, position: int = 0) -> Cursor:
        return self.inner.cursor(position)

    def counts(self) -> StorageCounts:
        return self.inner.counts()

    def status(self) -> dict[str, Any]:
        return self.inner.status()

    def delete(self) -> Iterator[int]:
        return self.inner.delete()


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
