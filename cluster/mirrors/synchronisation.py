"""Sends one mirror what it lacks, batch by batch, while the queue goes on.

The leader reads the positions that the mirror lacks with a cursor, and adds the entries that await
settlement. A batch is bounded in messages and in bytes, and at most two are on their way: the next
one is read when the mirror has reported the last but one as kept. A batch is read between two
turns, so it is what the decisions before it have left (`Batch.turn`).

Invariants:

SY1  Batches are about all lacked positions, in order, each once.
SY2  No more than `IN_FLIGHT_MAX` batches are not kept.
"""

from operator import itemgetter
from typing import Final

from leveret.cluster.mirrors.batches import Batch
from leveret.cluster.mirrors.decisions import Range
from leveret.cluster.mirrors.leading_queue import LeadingQueue
from leveret.storage.backing_queue import Cursor, Unreadable
from leveret.storage.message import ENTRY_BYTES, Entry

BATCH_MESSAGES_MAX: Final = 4096
BATCH_BYTES_MAX: Final = 1024 * 1024
READ_BYTES: Final = 256 * 1024
IN_FLIGHT_MAX: Final = 2
WINDOW_POSITIONS: Final = 65_536
"""Positions that a batch is about, at most, in a queue in which more messages await settlement."""


class Synchronisation:
    """The synchronising of one mirror.

    lacked: what the mirror lacks, as it says when it has applied the decision with which this
    leader began. number: of the last batch that this leader sent it before. messages: how many were
    sent. expected: about how many there were to be sent at the start. messages_max: of a batch.
    is_cancelled: no more batches are sent.
    """

    def __init__(
        self,
        leading: LeadingQueue,
        lacked: list[Range],
        messages_max: int = BATCH_MESSAGES_MAX,
        number: int = 0,
    ) -> None:
        self._leading = leading
        self._left = sorted(lacked)
        self.messages_max = messages_max
        self._cursor: Cursor | None = None
        self._sent = self._kept = number
        self.messages = 0
        self.expected = leading.ready_count + leading.unacked_count
        self.is_cancelled = False

    @property
    def is_complete(self) -> bool:
        """The mirror has kept all that it lacked."""
        return not self._left and self._kept == self._sent

    @property
    def sent(self) -> int:
        """The number of the last batch that was read."""
        return self._sent

    @property
    def may_send(self) -> bool:
        """There is another batch to be read, and room for it on the way."""
        is_over = self.is_cancelled or not self._left
        return not is_over and self._sent - self._kept < IN_FLIGHT_MAX

    def next_batch(self) -> Batch | None:
        """The next batch to be sent; None if none may be. Raises Unreadable: nothing has changed.

        To be called between two turns: after `take_decisions`, before anything else is decided.
        """
        if not self.may_send:
            return None
        start, limit = self._left[0]
        batch = read_batch(self._leading, start, limit, self.messages_max, self._cursor_at(start))
        batch.number = self._sent = self._sent + 1
        self.messages += len(batch.entries)
        if batch.end == limit:
            self._left.pop(0)
        else:
            self._left[0] = batch.end, limit
        return batch

    def kept(self, number: int) -> None:
        """The mirror has kept all batches through this one. It may repeat what it has said."""
        assert number <= self._sent, "SY2"
        self._kept = max(self._kept, number)
        if self.is_complete:
            self._close()

    def cancel(self) -> None:
        """Send no more batches. What the mirror has it keeps."""
        self.is_cancelled = True
        self._close()

    def is_used_up(self) -> bool:
        """The leader has no message any more of those that the mirror lacks.

        What is on its way the mirror lacks until it has kept it.
        """
        if self._kept != self._sent:
            return False
        return all(not holds(self._leading, start, end) for start, end in self._left)

    def _cursor_at(self, start: int) -> Cursor:
        """A cursor at a position: the one of the batch before, if it is there."""
        if self._cursor is None or self._cursor.position != start:
            self._close()
            self._cursor = self._leading.cursor(start)
        return self._cursor

    def _close(self) -> None:
        if self._cursor is not None:
            self._cursor.close()
            self._cursor = None


def read_batch(
    leading: LeadingQueue, start: int, limit: int, messages_max: int, cursor: Cursor
) -> Batch:
    """The leader's messages from one position up to another, or as far as a batch may go.

    cursor: on the leader's queue, at the start; it is moved on. Raises Unreadable.
    """
    assert not leading.has_decisions, "a batch is read between two turns"
    if leading.unacked_count > WINDOW_POSITIONS:
        limit = min(limit, start + WINDOW_POSITIONS)
    ready, end = _ready(leading, limit, messages_max, cursor)
    unacked = leading.unacked_between(start, end)
    batch = Batch(0, leading.turn - 1, leading.term, start, end)
    found = [(position, entry, False) for position, entry in ready]
    found += [(position, entry, True) for position, entry in unacked]
    if unacked:
        found.sort(key=itemgetter(0))
    size = 0
    for position, entry, is_unacked in found:
        if len(batch.entries) >= messages_max or size >= BATCH_BYTES_MAX:
            batch.end = position
            break
        batch.add(position, entry, is_unacked)
        size += ENTRY_BYTES + len(entry.message.body)
    return batch


def _ready(
    leading: LeadingQueue, limit: int, messages_max: int, cursor: Cursor
) -> tuple[list[tuple[int, Entry]], int]:
    """Ready entries with their positions, and the position up to which these are all.

    At least one, or all below the limit. Raises Unreadable if not even the first can be read.
    """
    found: list[tuple[int, Entry]] = []
    size = 0
    while len(found) < messages_max and size < BATCH_BYTES_MAX:
        try:
            entries = cursor.read(READ_BYTES)
        except Unreadable:
            if not found:
                raise
            break
        for entry in entries:
            position = leading.position_of(entry)
            if position >= limit:
                return found, limit
            found.append((position, entry))
            size += ENTRY_BYTES + len(entry.message.body)
        if not entries:
            return found, limit
    return found, found[-1][0] + 1


def holds(leading: LeadingQueue, start: int, end: int) -> bool:
    """Whether the leader may have a message from one position up to, not including, another."""
    if leading.unacked_between(start, end):
        return True
    cursor = leading.cursor(start)
    try:
        found = cursor.read(1)
    except Unreadable:
        return True
    finally:
        cursor.close()
    return bool(found) and leading.position_of(found[0]) < end
