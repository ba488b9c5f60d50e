"""The tiered queue: a backing queue with messages in memory and on disk.

Messages are in memory while the node has enough of it. When memory is short, the pager (pager.py)
writes messages to segments and drops from memory those that will be delivered last. They are read
back as consumers approach them.

Persistent messages of a durable queue are appended to the log, too. Before one of its files is
removed, the messages left in it are written to segments and stay in memory.

The queue consists of parts, each with its own state and invariants: the order of ready entries
(tiered_order.py), in memory (in_memory.py) and on disk only (delta.py); gone positions (ledger.py,
purging.py); the contents of segments (segment_slices.py) and the log (log_batches.py); transient
messages (transient_messages.py); reading without taking (tiered_cursor.py).

**Promises** besides those of the contract (backing_queue.py): a persistent message of a durable
queue is confirmed after the log has synced it. A restart restores it unless it was settled.

**Not promised.** Messages that are not persistent, and queues that are not durable, do not survive
a restart, though they may be on disk.

Invariants:

TQ1  Each position that was used is in one state: ready in memory, in delta, unacked, or gone.
TQ2  `ready_count` is the number of entries in memory and in delta.
TQ3  A segment has a persistent message only after the log has it on disk. A restart assumes that a
    message that is only in a segment was lost from the log (queue_log.py, QL1).
TQ4  A queue that is not durable keeps a ledger and its unacked entries only after it first writes
    to disk (`_tracks`): before, it costs no more than a transient queue.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from leveret.storage.contract.backing_queue import BackingQueue, FirstReady, Purged, Waiter
from leveret.storage.contract.paging import NO_TARGET
from leveret.storage.contract.queue_status import StorageCounts, TieredLimits, tiered_status
from leveret.storage.log.log_batches import LogBatches
from leveret.storage.messages.entry_blocks import BLOCK_ENTRIES, LOOSE_BLOCK_ENTRIES
from leveret.storage.messages.message import (
    ENTRY_BYTES,
    Entry,
    Message,
    bytes_of,
    entries_from,
    expiring_entries_from,
)
from leveret.storage.messages.message_run import MessageRun
from leveret.storage.queue.delta import Delta
from leveret.storage.queue.in_memory import InMemory
from leveret.storage.queue.purging import Purges
from leveret.storage.queue.queue_store import QueueStore
from leveret.storage.queue.segment_slices import SegmentSlices, Slice
from leveret.storage.queue.tiered_cursor import TieredCursor
from leveret.storage.queue.tiered_order import TieredOrder
from leveret.storage.queue.transient_messages import TransientMessages
from leveret.storage.segments.ledger import Ledger

NOTE_BYTES: Final = 128 * 1024
"""A queue reports its memory to the pager each time this many bytes were published to it."""


class TieredQueue(BackingQueue):
    """A backing queue in memory and on disk. For the log it is a `LoggedQueue`.

    key: its number in the log. is_lazy: kept on disk. knows_deliveries: after the node was killed,
    only messages with a record of their delivery are redelivered. noted_bytes,
    noted_unpageable_bytes and target_bytes belong to the pager.
    """

    __slots__ = (
        "_batches", "_disk_writes", "_is_dirty", "_is_led", "_memory", "_next_position", "_order",
        "_published_bytes", "_purges", "_slices", "_store", "_tracks", "_transient",
        "_unacked", "delta", "has_expiring", "is_deleted", "is_durable",
        "is_lazy", "key", "knows_deliveries", "ledger", "noted_bytes", "noted_unpageable_bytes",
        "ready_bytes", "ready_count", "target_bytes", "unacked_bytes", "unacked_count", "writer",
    )  # fmt: skip

    ready_count: int
    ready_bytes: int
    unacked_count: int
    unacked_bytes: int
    has_expiring: bool

    def __init__(
        self, store: QueueStore, key: int, directory: Path, name: str, is_durable: bool,
        is_lazy: bool, knows_deliveries: bool = False,
    ) -> None:  # fmt: skip
        self._store = store
        self.key = key
        self.is_durable = is_durable
        self.is_lazy = is_lazy
        self.knows_deliveries = knows_deliveries
        self.is_deleted = self.has_expiring = False
        self.ready_count = self.ready_bytes = 0
        self.unacked_count = self.unacked_bytes = 0
        self._next_position = self._published_bytes = self._disk_writes = 0
        self._transient = TransientMessages()
        self._is_dirty = self._is_led = False
        self._tracks = is_durable
        self.noted_bytes = self.noted_unpageable_bytes = 0
        self.target_bytes = NO_TARGET
        self._purges: Purges | None = None
        self._unacked: dict[int, Entry] = {}
        self._memory = InMemory()
        self._batches = LogBatches()
        self.ledger = Ledger(key)
        self._slices = SegmentSlices(
            store, self.ledger, self._memory, self._unacked, directory, not is_durable
        )
        self.writer = self._slices.writer
        self.delta = Delta(store, self.ledger, self.writer, name)
        self.delta.lost = self._lost
        self._order = TieredOrder(self._memory, self.delta)

    @property
    def next_position(self) -> int:
        """The position of the next published message."""
        return self._next_position

    def next_position_of(self, message: Message) -> int:
        """The next position: the queue has no priorities."""
        return self._next_position

    def position_of(self, entry: Entry) -> int:
        """The entry's own position: the queue has no priorities."""
        return entry.position

    def given_positions(self) -> list[tuple[int, int]]:
        """All positions from 0 on: the queue has no priorities."""
        return [(0, self._next_position)]

    def go_on_at(self, position: int) -> None:
        """Give the next message this position. Skipped positions are gone (TQ1)."""
        self._is_led = True
        start, self._next_position = self._next_position, position
        assert position >= start, "BQ1"
        if position > start and self._tracks:
            self.ledger.settled(start, position)
            if not self._is_dirty:
                self._note_dirty()

    def set_lazy(self, is_lazy: bool) -> None:
        """Set whether messages are kept on disk rather than in memory from now on."""
        self.is_lazy = is_lazy
        self._store.note_memory(self)

    def set_loose(self, is_loose: bool) -> None:
        """Keep entries in smaller blocks from now on, from which they are removed faster."""
        self._order.block_entries = LOOSE_BLOCK_ENTRIES if is_loose else BLOCK_ENTRIES

    # Publishing

    def publish(self, run: MessageRun, expires_at_ms: int) -> bool:
        """Append messages, in order. Returns whether they are safe only after the log's sync."""
        entries = entries_from(run.messages, self._next_position, expires_at_ms)
        return self._publish(run, entries, expires_at_ms, None)

    def publish_each(self, run: MessageRun, expire_at_ms: list[int]) -> bool:
        """Append messages that expire at different times."""
        entries = expiring_entries_from(run.messages, self._next_position, expire_at_ms)
        return self._publish(run, entries, expire_at_ms[0], expire_at_ms)

    def _publish(
        self,
        run: MessageRun,
        entries: list[Entry],
        expires_at_ms: int,
        expire_at_ms: list[int] | None,
    ) -> bool:
        """Append entries. expires_at_ms: of the first one. expire_at_ms: None if those of all are
        equal.
        """
        messages, body_bytes = run.messages, run.body_bytes
        position = self._next_position
        count = len(messages)
        self._order.tail.extend(entries)
        self._next_position = position + count
        self.ready_count += count
        self.ready_bytes += body_bytes
        if expires_at_ms:
            self.has_expiring = True
        self._published_bytes += body_bytes + ENTRY_BYTES * count
        if self._published_bytes > NOTE_BYTES:
            self._published_bytes = 0
            self._order.bound_tail()
            self._store.note_memory(self)
        if not self.is_durable:
            return False
        if not messages[0].header.is_persistent:
            self._transient.count += count
            self._transient.size += body_bytes
            return False
        store = self._store
        expires_wall_ms = expires_at_ms and expires_at_ms + store.wall_offset_ms
        batch = store.log.batch
        if batch != self._batches.batch:
            self._batches.begin(position, batch)
        store.queue_log.append_run(
            self, position, messages, body_bytes, expires_wall_ms, expire_at_ms
        )
        return True

    def when_safe(self, waiter: Waiter, first: int, holder: object) -> None:
        """Confirm to the waiter when all messages published so far are on disk."""
        self._store.log.when_safe(waiter, first, holder)

    # Taking

    def peek(self) -> Entry | None:
        """The first ready entry, without taking it."""
        return self._order.first()

    def heads(self) -> list[FirstReady]:
        """The first ready entry; reads nothing."""
        return self._order.heads()

    def firsts(self) -> list[int]:
        """The position of the first ready entry; none if there is none."""
        return [head.position for head in self.heads()]

    def fetchable(self, count: int) -> int:
        """How many entries in memory precede the first one on disk only."""
        if self._order.is_split:
            count = self._order.fetchable(count)
        # O1: if the order is not split, all of them are in memory.
        return min(count, self.ready_count)

    def unexpired(self, count: int, now_ms: int) -> int:
        """The number of the next entries, at least, that precede the first expired one."""
        return self._order.unexpired(count, now_ms)

    def fetch(self, count: int, ack_required: bool) -> list[Entry]:
        """Take the first entries; reads those that are on disk only."""
        if self._order.is_split or self._memory.requeued:
            entries = self._order.fetch(count)
        else:
            entries = self._memory.fetch_q4(count)
        if not entries:
            return entries
        size = bytes_of(entries)
        self.ready_count -= len(entries)
        self.ready_bytes -= size
        if entries[-1].position >= self.ledger.fetched_to:
            self.ledger.fetched_to = entries[-1].position + 1
        if ack_required:
            self.unacked_count += len(entries)
            self.unacked_bytes += size
            if self._tracks:
                for entry in entries:
                    self._unacked[entry.position] = entry
        elif self._tracks:
            self._all_gone(entries)
        if self._tracks and not self._is_dirty:
            self._note_dirty()
        return entries

    def drop(self) -> Entry | None:
        """Remove the first ready entry and return it."""
        entries = self.fetch(1, ack_required=False)
        return entries[0] if entries else None

    def take(self, entries: Sequence[Entry]) -> list[Entry]:
        """Take entries out of the middle of the queue. `fetched_to` does not change."""
        return self._took(self._order.take(entries))

    def take_at(self, positions: Sequence[int]) -> list[Entry]:
        """Take the entries at these positions; reads those that are on disk only."""
        return self._took(self._order.take_at(positions))

    def ready_between(self, start: int, end: int) -> list[Entry] | None:
        """The ready entries at these positions; None if some are on disk only."""
        delta = self.delta
        if delta.count and delta.next_range(start)[0] < end:
            return None
        return self._memory.between(start, end)

    def _took(self, entries: list[Entry]) -> list[Entry]:
        size = bytes_of(entries)
        self.ready_count -= len(entries)
        self.ready_bytes -= size
        self.unacked_count += len(entries)
        self.unacked_bytes += size
        if self._tracks:
            self._unacked.update((entry.position, entry) for entry in entries)
        return entries

    # Settling

    def ack(self, entries: Sequence[Entry]) -> None:
        """Settle unacked entries: they are gone."""
        self.unacked_count -= len(entries)
        if not self._tracks:
            for entry in entries:
                self.unacked_bytes -= len(entry.message.body)
            return
        ledger = self.ledger
        ledger.settled_each(entries)
        unacked, flushed_to = self._unacked, ledger.flushed_to
        total_bytes = 0
        for entry in entries:
            position, size = entry.position, len(entry.message.body)
            total_bytes += size
            if position in unacked:
                del unacked[position]
            if position < flushed_to:
                self._left_segment(position, size)
        self.unacked_bytes -= total_bytes
        if self._transient.count:
            self._transient.forget(entries)
        if not self._is_dirty:
            self._note_dirty()

    def requeue(self, entries: Sequence[Entry], redelivered: bool = True) -> None:
        """Make unacked entries ready again, each at its old position."""
        self._memory.requeued.add(entries)
        size = 0
        for entry in entries:
            if redelivered:
                entry.redelivered = True
            self._unacked.pop(entry.position, None)
            size += len(entry.message.body)
        self.unacked_count -= len(entries)
        self.unacked_bytes -= size
        self.ready_count += len(entries)
        self.ready_bytes += size

    def purge(self) -> Purged:
        """Drop every ready entry."""
        count = self.ready_count
        assert count == len(self._order), "TQ2"
        self._slices.forget_plan()
        self.ready_count = self.ready_bytes = 0
        if self._transient.count:
            self._transient.keep_only(self._unacked.values())
        if not self._tracks:
            return Purged(count, map(len, self._order.hand_over()))
        self._store.bodies.garbage_bytes += self.delta.size
        if self._purges is None:
            self._purges = Purges(
                self.ledger, self._memory, self.delta, self._unacked, self._left_segment,
                self._all_gone, self._note_dirty,
            )  # fmt: skip
        return Purged(count, self._purges.begin(self._next_position, self._order.hand_over))

    def end_purges(self) -> None:
        """Record the positions that purges have left to be recorded."""
        if self._purges:
            self._purges.go_on(None)

    def _all_gone(self, entries: Sequence[Entry]) -> None:
        """Note entries, in the order of their positions, as gone."""
        if self._transient.count:
            self._transient.forget(entries)
        store = self._store
        store.bodies.garbage_bytes += self.ledger.all_gone(entries, store.embed_below)

    def _left_segment(self, position: int, size: int) -> None:
        self.ledger.left_segment(position, size)
        if size >= self._store.embed_below:
            self._store.bodies.garbage_bytes += size

    def _lost(self, count: int, size: int) -> None:
        """Count messages that could not be read back as lost."""
        self.ready_count -= count
        self.ready_bytes -= size
        if not self._is_dirty:
            self._note_dirty()

    # For the log

    def _note_dirty(self) -> None:
        self._is_dirty = True
        if self.is_durable and not self.is_deleted:
            self._store.queue_log.note_dirty(self)
        elif not self.is_durable:
            self._store.note_shrunk(self)

    def take_progress(self) -> bytes | None:
        """A PROGRESS record of the changes since the last call; None if there are none."""
        self._is_dirty = False
        if self.is_deleted:
            return None
        record = self.ledger.take_progress()
        if self.ledger.is_behind:
            self._note_dirty()
        if self.writer.numbers:
            self._store.note_shrunk(self)
            self._slices.drop_unneeded(self.is_durable, only_first=True)
        if not self.ready_count and not self.unacked_count:
            self.has_expiring = False
        return record

    def are_gone(self, start: int, end: int) -> bool:
        """Whether all messages at these positions are gone."""
        return self.is_deleted or self.ledger.gone.covers(start, end)

    def encode_state(self) -> bytes | None:
        """A STATE record; None if the queue has no messages in segments."""
        self._slices.drop_unneeded(self.is_durable, only_first=False)
        if not self._slices.has_files:
            return None
        return self.ledger.encode_state(*self.writer.end, self.has_expiring)

    # For the pager

    @property
    def pageable_bytes(self) -> int:
        """About the bytes of memory of its messages that could be on disk only."""
        count = self.ready_count - self.delta.count
        return self.ready_bytes - self.delta.size + ENTRY_BYTES * count

    @property
    def unpageable_bytes(self) -> int:
        """About the bytes of memory of its unacked messages."""
        return self.unacked_bytes + ENTRY_BYTES * self.unacked_count

    @property
    def waits_for_log(self) -> bool:
        """Whether some messages are not in the log yet and cannot go to segments (TQ3)."""
        return self._batches.batch > self._store.log.written

    @property
    def has_segments(self) -> bool:
        """Whether it has files on disk."""
        return self._slices.has_files

    def plan_slice(self, bytes_max: int, end: int) -> Slice | None:
        """The next slice of messages below `end` to write to segments; None if there is none."""
        # TQ3
        end = min(end, self._batches.logged_to(self._store.log.written, self._next_position))
        if end <= self.ledger.flushed_to or self.is_deleted:
            return None
        if not self._tracks:
            self._start_tracking()
        if self._purges:
            # PU1
            self._purges.go_on()
            return Slice([], [], self.ledger.flushed_to, 0)
        return self._slices.plan(bytes_max, end)

    def slice_written(self, written: Slice) -> None:
        """Note a slice that is in segments."""
        self._slices.written(written)
        self._disk_writes += len(written.entries)
        self._store.disk_writes += len(written.entries)

    def page_out(self, bytes_max: int) -> int:
        """Drop entries in segments from memory, up to `bytes_max`. Returns how many."""
        count = self._order.page_out(self.ledger.flushed_to, bytes_max, self.ledger.is_gone)
        assert self.ready_count == len(self._order), "TQ2"
        return count

    def _start_tracking(self) -> None:
        """Start the ledger. Entries unacked now count as gone: they are not written (TQ4)."""
        self._tracks = True
        first = min(self._memory.next_position(0), self._next_position)
        self.ledger.gone.add_range(0, first)
        self.ledger.flushed_to = first

    def leave_segments(self) -> None:
        """Remove the segments in which no position is needed; of an empty queue the last one, too.

        Call it while no slice is being written: under the lock of the pager.
        """
        if self.is_deleted:
            return
        if self._purges:
            self._store.note_shrunk(self)
            return
        is_empty = not (self.ready_count or self.unacked_count)
        if is_empty and self.writer.numbers and not self._is_led:
            self._next_position = self._slices.leave_last(self._next_position)
            if self.ledger.fresh:
                self._note_dirty()
        if not self.is_durable:
            self._is_dirty = False
            self.ledger.settle()
            if self.ledger.is_behind:
                self._note_dirty()
        self._slices.drop_unneeded(self.is_durable, only_first=False)

    # Restart, inspection, deletion

    def restore(self, entries: list[Entry]) -> None:
        """Continue after a restart, whose findings are in the ledger and the writer already.

        entries: those in the log and not in segments, in order.
        """
        ledger, delta = self.ledger, self.delta
        on_disk = list(ledger.gone.gaps(0, ledger.flushed_to))
        if not on_disk:
            ledger.segment_bytes = 0
        self._order.restore(on_disk, ledger.segment_bytes, entries)
        last = entries[-1].position + 1 if entries else 0
        self._next_position = max(ledger.flushed_to, ledger.fetched_to, ledger.gone.end, last)
        self.ready_count = len(self._order)
        self.ready_bytes = delta.size + sum(len(entry.message.body) for entry in entries)
        # Positions of messages that were not persistent, and so did not survive, are gone (TQ1).
        ledger.note_survivors(entries, self._next_position)
        if ledger.fresh:
            self._note_dirty()

    def mark_delivered(self, entries: list[Entry]) -> None:
        """Note that all restored messages may have been delivered. entries: those in memory."""
        self.ledger.fetched_to = self._next_position
        for entry in entries:
            entry.redelivered = True

    def cursor(self, position: int = 0) -> TieredCursor:
        """A cursor over memory and disk."""
        return TieredCursor(self._memory, self.delta, self.ledger, position)

    def counts(self) -> StorageCounts:
        """The numbers of messages that the queue holds, by place."""
        ready_count, unacked_count, delta = self.ready_count, self.unacked_count, self.delta
        persistent_count = persistent_bytes = 0
        if self.is_durable:
            persistent_count = ready_count + unacked_count - self._transient.count
            persistent_bytes = self.ready_bytes + self.unacked_bytes - self._transient.size
        return StorageCounts(
            ready_count, self.ready_bytes, unacked_count, self.unacked_bytes,
            persistent_count, persistent_bytes, delta.count, delta.size,
            delta.reads, self._disk_writes,
        )  # fmt: skip

    def status(self) -> dict[str, Any]:
        """RabbitMQ's `backing_queue_status`."""
        places = self._order.places(self._slices.planned_count)
        limits = TieredLimits(self.is_lazy, self.target_bytes, self._next_position)
        return tiered_status(self.counts(), places, limits)

    def delete(self) -> Iterator[int]:
        """Free the memory of the deleted queue and remove its files."""
        self.is_deleted = True
        self._slices.forget_plan()
        self.ready_count = self.ready_bytes = 0
        self._store.forget(self)
        # Without references back to it, the queue is freed at once.
        self.delta.lost = lambda count, size: None
        self._purges = None
        return map(len, self._order.hand_over())
