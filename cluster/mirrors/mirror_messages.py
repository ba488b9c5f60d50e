"""The messages of a mirror: its backing queue, unacked entries, and positions without a message.

The leader's decisions on positions are applied to the backing queue in ranges. Fetched entries
are kept by their positions until they are settled.

Two kinds of positions have no message here, and decisions about them are not applied to the backing
queue: *missing* ones get their message with a batch (missing_ranges.py); *unrecoverable* ones never
do, because no node could send the message, or because it was lost from this node's disk. If the
leader dies after it was asked for messages, and its last decisions are lost, messages that it no
longer had may exist again: then the mirror differs.

Invariants:

MQ4  The messages here, with the missing and the unrecoverable ones, are the leader's, at the same
     positions. A decision that does not fit raises `MirrorDiffers`: the member must leave and join
     again.
MM1  `_unacked` has exactly the entries that await settlement, by `position_of`.
"""

from collections import deque
from typing import Final

from mypy_extensions import i64

from leveret.cluster.mirrors.batches import Batch
from leveret.cluster.mirrors.decisions import DROPPED, FETCHED, SETTLED, TAKEN, Range
from leveret.cluster.mirrors.missing_ranges import MissingRanges
from leveret.storage.contract.backing_queue import BackingQueue, Purged
from leveret.storage.messages.intervals import Intervals
from leveret.storage.messages.message import Entry
from leveret.storage.messages.message_run import MessageRun, run_of

READ_BYTES: Final = 256 * 1024
TAKEN_MAX: Final = 1000
"""This many entries, which may be on disk, are taken together."""


class MirrorDiffers(Exception):
    """A decision does not fit the messages of this mirror (MQ4)."""


class MirrorMessages:
    """The messages of one mirror.

    queue: the backing queue. missing, unrecoverable: see above. A method that raises Unreadable is
    called again with the same decision.
    """

    __slots__ = (
        "_answers", "_left", "_left_to_take", "_unacked", "missing", "queue", "unrecoverable",
    )  # fmt: skip

    def __init__(self, queue: BackingQueue, lacked: list[Range], term: int) -> None:
        self.queue = queue
        self.missing = MissingRanges(lacked, term)
        self.unrecoverable = Intervals()
        self._unacked: dict[int, Entry] = {}
        self._left: deque[Range] | None = None
        self._left_to_take: list[int] | None = None
        self._answers: dict[int, int] = {}

    # Publishing

    def publish(self, position: int, run: MessageRun, expires_at_ms: int) -> bool:
        """Publish a run from a position on. See `BackingQueue.publish`."""
        queue = self.queue
        queue.go_on_at(position)
        return queue.publish(run, expires_at_ms)

    def publish_each(self, position: int, run: MessageRun, expire_at_ms: list[int]) -> bool:
        """The same, for messages that expire at different times."""
        queue = self.queue
        queue.go_on_at(position)
        return queue.publish_each(run, expire_at_ms)

    def publish_answer(self, batch: Batch) -> bool:
        """Publish the leader's answer for the next positions; those not in it are unrecoverable."""
        for start, end in batch.held.gaps(batch.start, batch.end):
            self.unrecoverable.add_range(start, end)
            self._answers[batch.term] = batch.turn
        found = list(zip(batch.positions, batch.entries, strict=True))
        is_later = append_entries(self.queue, found)
        self.queue.go_on_at(batch.end)
        return is_later

    def leave_out(self, start: int, end: int) -> None:
        """Skip the next positions, whose messages never arrive."""
        if start < end:
            self.unrecoverable.add_range(start, end)
            self.queue.go_on_at(end)

    # Taking

    def _present(self, kind: int, ranges: list[Range]) -> list[Range]:
        """The parts of a decision's ranges that are neither missing nor unrecoverable."""
        ranges = self.missing.split(kind, ranges)
        if not self.unrecoverable:
            return ranges
        found: list[Range] = []
        for start, end in ranges:
            found += self.unrecoverable.gaps(start, end)
            if kind in (SETTLED, DROPPED):
                self.unrecoverable.remove_range(start, end)
        return found

    def take_first(self, kind: int, ranges: list[Range]) -> None:
        """Take the first entries, which are at these positions.

        Raises Unreadable, MirrorDiffers.
        """
        left = self._left
        if left is None:
            left = self._left = deque(self._present(kind, ranges))
        queue = self.queue
        while left:
            start, end = left[0]
            entries = queue.fetch(end - start, kind == FETCHED)
            start = self._taken(kind, entries, start, end)
            if start == end:
                left.popleft()
            else:
                left[0] = start, end
        self._left = None

    def _taken(self, kind: int, entries: list[Entry], start: int, end: int) -> int:
        """Entries were taken for a range of positions; returns the position to continue at."""
        position_of = self.queue.position_of
        unacked = self._unacked
        next_position: i64 = start
        for entry in entries:
            position: i64 = position_of(entry)
            if position != next_position:
                return self._taken_otherwise(kind, entries, start, end)
            next_position += 1
        if not entries:
            # The last entries were lost from this node's disk.
            self._note_unrecoverable(kind, start, end)
            return end
        if kind == FETCHED:
            for entry, place in zip(entries, range(start, next_position)):  # noqa: B905 - as many
                unacked[place] = entry
        return next_position

    def _taken_otherwise(self, kind: int, entries: list[Entry], start: int, end: int) -> int:
        """As `_taken`, but some entries are not the expected next ones.

        An entry before the expected one was lost from the leader's disk, and is gone. If an entry
        is after the expected one, those in between were lost from this node's disk.
        """
        queue = self.queue
        for entry in entries:
            position = queue.position_of(entry)
            if position < start:
                if kind == FETCHED:
                    queue.ack([entry])
            elif position < end:
                self._note_unrecoverable(kind, start, position)
                start = position + 1
                if kind == FETCHED:
                    self._unacked[position] = entry
            elif kind == FETCHED:
                self._note_unrecoverable(kind, start, end)
                start = end
                queue.requeue([entry], False)
            else:
                raise MirrorDiffers(f"the message at {position} was dropped for one below {end}")
        return start

    def _note_unrecoverable(self, kind: int, start: int, end: int) -> None:
        if kind == FETCHED:
            self.unrecoverable.add_range(start, end)

    def take_anywhere(self, ranges: list[Range]) -> None:
        """Take entries that need not be the first. Raises Unreadable."""
        queue, left = self.queue, self._left_to_take
        if left is None:
            left = self._left_to_take = _positions(self._present(TAKEN, ranges))
            # Entries are taken from the middle again, if they once were.
            queue.set_loose(True)
        while left:
            for entry in queue.take_at(left[:TAKEN_MAX]):
                self._unacked[queue.position_of(entry)] = entry
            del left[:TAKEN_MAX]
        self._left_to_take = None

    def _read(self, start: int, end: int) -> list[Entry]:
        """The ready entries at positions from `start` up to `end`, without taking them."""
        queue = self.queue
        cursor = queue.cursor(start)
        found: list[Entry] = []
        try:
            while entries := cursor.read(READ_BYTES):
                found += [entry for entry in entries if queue.position_of(entry) < end]
                if queue.position_of(entries[-1]) >= end - 1:
                    break
        finally:
            cursor.close()
        return found

    # Settling

    def settled(self, kind: int, ranges: list[Range]) -> list[Entry]:
        """The entries at positions that a decision settles, or makes ready again.

        Raises MirrorDiffers.
        """
        unacked = self._unacked
        found: list[Entry] = []
        try:
            for start, end in self._present(kind, ranges):
                for position in range(start, end):
                    found.append(unacked.pop(position))
        except KeyError as error:
            raise MirrorDiffers(f"no message at {error} awaits settlement") from None
        return found

    def requeue_all(self) -> None:
        """All entries that awaited settlement are ready again, and marked as redelivered."""
        entries = list(self._unacked.values())
        self._unacked.clear()
        self.queue.requeue(entries)

    def purge(self, turn: int) -> Purged:
        """Drop all ready entries. turn: that of the decision."""
        self.missing.purged(turn)
        return self.queue.purge()

    def led(self, void: list[Range], turn: int, term: int) -> None:
        """A new leader starts, and lacks some positions. Raises Unreadable, MirrorDiffers."""
        for earlier, answered in self._answers.items():
            if earlier < term and answered >= turn:
                raise MirrorDiffers(f"messages were gone after turn {answered}, which is void")
        self.requeue_all()
        queue = self.queue
        for start, end in self.missing.led(void, term):
            queue.ack(queue.take(self._read(start, end)))
            self.unrecoverable.remove_range(start, end)

    # Messages that it lacked

    def merge(self, batch: Batch) -> bool:
        """Publish a batch, and take those of its messages that await settlement. See `publish`.

        Nothing is read from disk: messages that have just been published are in memory.
        """
        queue = self.queue
        arrived = self.missing.arrived(batch)
        is_later = append_entries(queue, [(one.position, one.entry) for one in arrived])
        marked = {one.position for one in arrived if one.is_unacked or one.entry.redelivered}
        if not marked:
            return is_later
        ready = self._read(batch.start, batch.end)
        chosen = [entry for entry in ready if queue.position_of(entry) in marked]
        taken = {queue.position_of(entry): entry for entry in queue.take(chosen)}
        for one in arrived:
            if one.is_unacked:
                entry = self._unacked[one.position] = taken.pop(one.position)
                entry.redelivered = one.entry.redelivered
        queue.requeue(list(taken.values()))
        return is_later

    def void(self) -> list[Range]:
        """The positions of messages that the leader may have and that are not here."""
        positions = self.missing.positions.copy()
        positions.update(self.unrecoverable)
        return list(positions)


def append_entries(queue: BackingQueue, found: list[tuple[int, Entry]]) -> bool:
    """Publish the messages of entries at increasing positions, in runs as long as possible.

    Returns whether some of them are safe only later. A run has consecutive positions, and messages
    with the same address, delivery mode and priority, all or none of which expire; if they have
    numbers, these are consecutive.
    """
    is_later = False
    start = 0
    for end in range(1, len(found) + 1):
        if end < len(found) and _follows(found[end - 1], found[end]):
            continue
        queue.go_on_at(found[start][0])
        is_later |= _publish(queue, [entry for _, entry in found[start:end]])
        start = end
    return is_later


def _publish(queue: BackingQueue, entries: list[Entry]) -> bool:
    """Publish the messages of entries as one run."""
    run = run_of([entry.message for entry in entries])
    expires_at_ms = entries[0].expires_at_ms
    times = [entry.expires_at_ms for entry in entries]
    if times.count(expires_at_ms) == len(times):
        return queue.publish(run, expires_at_ms)
    return queue.publish_each(run, times)


def _positions(ranges: list[Range]) -> list[int]:
    positions: list[int] = []
    for start, end in ranges:
        positions += range(start, end)
    return positions


def _follows(before: tuple[int, Entry], after: tuple[int, Entry]) -> bool:
    """Whether two messages may be in one run."""
    one, two = before[1].message, after[1].message
    number = one.number and one.number + 1
    return (
        after[0] == before[0] + 1
        and one.address is two.address
        and number == two.number
        and (before[1].expires_at_ms == 0) == (after[1].expires_at_ms == 0)
        and (one.header is two.header or _are_alike(before[1], after[1]))
    )


def _are_alike(before: Entry, after: Entry) -> bool:
    one, two = before.message.header, after.message.header
    return one.is_persistent == two.is_persistent and one.priority == two.priority
