"""The tiered queue: a backing queue between memory and disk.

    head                                                    tail
     q4   ........   q3   ........   delta   ........   q2, q1
    memory      bodies on disk     on disk only         memory

A message is published to q4 while nothing is behind that, else to q1, and delivered from q4. When
the node's memory gets short the pager (pager.py) has the oldest messages of q1 written to segments
and dropped from memory: they are in delta then. As consumers empty q4, it is filled from delta, and
when delta is empty q1 becomes q4. Messages that were delivered and came back are kept in a heap
of their own, ahead of q4, as they have lower positions than anything that was never delivered.

What is persistent in a durable queue is also appended to the log when it is published. When a log
file is to go, what is left of it is written to segments too, but stays in memory.

This file is what a queue asks for; what the pager and the log do is in `tiers.py`.
"""

from collections.abc import Iterable
from heapq import heappop, heappush
from typing import Any

from storage.backing_queue import Head, Waiter
from storage.message import Entry, Message
from storage.queue_status import queue_status
from storage.tiers import ENTRY_BYTES, EVERYTHING, NOTE_BYTES, Tiers


class TieredQueue(Tiers):
    """See `storage.backing_queue.BackingQueue`."""

    __slots__ = ()

    # Publishing

    def publish(self, messages: list[Message], body_bytes: int, expires_at_ms: int) -> bool:
        """Append messages, in order; whether they are safe only when the log has them."""
        position = self._next_position
        count = len(messages)
        entries = [
            Entry(message, place, False, expires_at_ms)
            for place, message in enumerate(messages, position)
        ]
        if self._is_split:
            self._q1.extend(entries)
        else:
            self._q4.extend(entries)
        self._next_position = position + count
        self.ready_count += count
        self.ready_bytes += body_bytes
        if expires_at_ms:
            self.has_expiring = True
        self._published_bytes += body_bytes + ENTRY_BYTES * count
        if self._published_bytes > NOTE_BYTES:
            self._published_bytes = 0
            self._home.note_memory(self)
        if not self.is_durable:
            return False
        if not messages[0].header.is_persistent:
            self._transient_count += count
            self._transient_bytes += body_bytes
            return False
        expires_wall_ms = expires_at_ms and expires_at_ms + self._home.wall_offset_ms
        log = self._home.log
        if log.batch != self._batch:
            self._begin_batch(position, log.batch)
        log.append_run(self, position, messages, expires_wall_ms)
        return True

    def set_lazy(self, is_lazy: bool) -> None:
        """From now on messages are to be on disk rather than in memory, or not."""
        if is_lazy != self.is_lazy:
            self.is_lazy = is_lazy
            self._home.note_memory(self)

    def when_safe(self, waiter: Waiter, sequence: int) -> None:
        """Confirm to the waiter when what was published is on disk."""
        self._home.log.when_safe(waiter, sequence)

    # Taking

    def peek(self) -> Entry | None:
        """The first ready entry, left where it is."""
        requeued = self._requeued
        if self._is_split:
            self._fill()
        if requeued and (not self._q4 or requeued[0][0] < self._q4[0].position):
            return requeued[0][1]
        return self._q4[0] if self._q4 else None

    def heads(self) -> list[Head]:
        """Where the first ready entry is, read or not."""
        entry = self._requeued[0][1] if self._requeued else None
        rest = self._q4 or (self._q1 if not self.delta.count else None)
        if rest and (entry is None or rest[0].position < entry.position):
            entry = rest[0]
        delta = self.delta
        if delta.count and (entry is None or delta.first < entry.position):
            return [Head(0, delta.first, None)]
        return [] if entry is None else [Head(0, entry.position, entry)]

    def fetch(self, count: int, ack_required: bool) -> list[Entry]:
        """Take up to `count` entries off the head; fewer if the rest has to be read first."""
        if self._is_split:
            self._fill()
        q4 = self._q4
        if self._requeued:
            entries = self._take_requeued(count)
        elif count >= len(q4):
            entries = list(q4)
            q4.clear()
        else:
            entries = [q4.popleft() for _ in range(count)]
        if not entries:
            return entries
        size = sum([len(entry.message.body) for entry in entries])
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

    def _take_requeued(self, count: int) -> list[Entry]:
        """Of requeued messages and those in q4, take the ones with the lowest positions."""
        requeued, q4 = self._requeued, self._q4
        barrier = q4[0].position if q4 else EVERYTHING
        entries: list[Entry] = []
        while requeued and requeued[0][0] < barrier and len(entries) < count:
            entries.append(heappop(requeued)[1])
        return entries or [q4.popleft()]

    def drop(self) -> Entry:
        """Take the first ready entry off the head for good."""
        entries = self.fetch(1, ack_required=False)
        assert entries, "drop needs a ready entry"
        return entries[0]

    def _fill(self) -> None:
        """Have in q4 what comes first of all that is not in memory."""
        q4, delta = self._q4, self.delta
        while delta.count:
            if not q4:
                q4.extend(delta.read(EVERYTHING))
                self._note_read(len(q4))
                if q4:
                    return
            elif delta.first < q4[0].position:
                entries = delta.read(q4[0].position)
                self._note_read(len(entries))
                q4.extendleft(reversed(entries))
            else:
                return
        if not q4:
            self._q4, self._q1 = self._q1, q4
        if not self._q1:
            self._is_split = False

    # Settling

    def ack(self, entry: Entry) -> None:
        """An unacked entry is done with."""
        size = len(entry.message.body)
        self.unacked_count -= 1
        self.unacked_bytes -= size
        if self._tracks:
            position = entry.position
            self._unacked.pop(position, None)
            self.ledger.fresh.add(position)
            if position < self.ledger.flushed_to:
                self._left_segment(position, size)
            if self._transient_count:
                self._forget_transient((entry,))
            if not self._is_dirty:
                self._note_dirty()

    def _forget_transient(self, entries: Iterable[Entry]) -> None:
        """In a durable queue: count less of what does not survive a restart."""
        for entry in entries:
            if not entry.message.header.is_persistent:
                self._transient_count -= 1
                self._transient_bytes -= len(entry.message.body)

    def _all_gone(self, entries: list[Entry]) -> None:
        if self._transient_count:
            self._forget_transient(entries)
        fresh = self.ledger.fresh
        first, last = entries[0].position, entries[-1].position
        if last - first == len(entries) - 1:
            fresh.add_range(first, last + 1)
        else:
            for entry in entries:
                fresh.add_range(entry.position, entry.position + 1)
        if first < self.ledger.flushed_to:
            for entry in entries:
                if entry.position < self.ledger.flushed_to:
                    self._left_segment(entry.position, len(entry.message.body))

    def _left_segment(self, position: int, size: int) -> None:
        self.ledger.left_segment(position, size)
        if size >= self._home.embed_below:
            self._home.bodies.garbage_bytes += size

    def requeue(self, entries: Iterable[Entry]) -> None:
        """Unacked entries become ready again, each at its old place."""
        requeued = self._requeued
        for entry in entries:
            entry.redelivered = True
            heappush(requeued, (entry.position, entry))
            self._unacked.pop(entry.position, None)
            size = len(entry.message.body)
            self.unacked_count -= 1
            self.unacked_bytes -= size
            self.ready_count += 1
            self.ready_bytes += size

    def purge(self) -> int:
        """Drop every ready entry; how many there were."""
        count = self.ready_count
        if self._tracks:
            self._home.bodies.garbage_bytes += self.delta.size
            self.ledger.left_uncounted(self.delta.size)
            self.ledger.fresh.update(self.delta.clear())
            for part in ([entry for _, entry in sorted(self._requeued)], self._q4, self._q1):
                if part:
                    self._all_gone(list(part))
            self._note_dirty()
        self._requeued.clear()
        self._q4.clear()
        self._q1.clear()
        self._plan.clear()
        self._is_split = False
        self.ready_count = self.ready_bytes = 0
        # Of what was on disk nobody knows; what is left is unacked.
        self._transient_count = self._transient_bytes = 0
        if self.is_durable:
            for entry in self._unacked.values():
                if not entry.message.header.is_persistent:
                    self._transient_count += 1
                    self._transient_bytes += len(entry.message.body)
        return count

    def status(self) -> dict[str, Any]:
        """What it holds and where."""
        return queue_status(self)

    def entries(self) -> Iterable[Entry]:
        """The ready entries in order; what is on disk only stays there."""
        for _, entry in sorted(self._requeued):
            yield entry
        yield from self._q4
        yield from self.delta.look()
        yield from self._q1

    def delete(self) -> None:
        """The queue is gone, with all that it has on disk."""
        self.delta.close()
        self.is_deleted = True
        self._requeued.clear()
        for part in (self._q4, self._q1, self._plan):
            part.clear()
        self.ready_count = self.ready_bytes = 0
        self._home.forget(self)
