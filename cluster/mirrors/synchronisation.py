"""Sends the mirrors of a leader the messages that they lack, in batches, while the queue works.

A mirror lacks the messages that the queue had when it joined. It is synchronised when it has kept
batches about all of them, or when the leader no longer has any. Batches are sent if the policy
(`ha-sync-mode: automatic`) or an operator (`sync_queue`) says so; one for each mirror in a round,
so that the queue can work between them (`Synchronising`).

The leader reads the positions that a mirror lacks with a cursor, and adds the entries that await
settlement. A batch is bounded in messages and in bytes, and at most two are in flight: the next one
is read when the mirror has reported the last but one as kept. A batch is read between two turns, so
it has the messages that remain after earlier decisions (`Batch.turn`).

A mirror that joined under an earlier leader reports the positions that it lacks when it follows
this one, and a mirror that was not linked for a while reports again: batches may have been lost.

Invariants:

SY1  Batches cover all lacked positions, in order, each once.
SY2  At most `IN_FLIGHT_MAX` batches are sent and not yet kept.
"""

from collections.abc import Callable, Iterator
from functools import partial
from operator import itemgetter
from typing import Final, NamedTuple

from leveret.cluster.gm.group import Member
from leveret.cluster.mirrors.batches import Batch
from leveret.cluster.mirrors.decisions import Range
from leveret.cluster.mirrors.leader_backing_queue import LeaderBackingQueue
from leveret.cluster.mirrors.planning import Mirroring
from leveret.storage.contract.backing_queue import BeingRead, Cursor, Unreadable
from leveret.storage.messages.message import ENTRY_BYTES, Entry

BATCH_MESSAGES_MAX: Final = 4096
BATCH_BYTES_MAX: Final = 1024 * 1024
READ_BYTES: Final = 256 * 1024
IN_FLIGHT_MAX: Final = 2
WINDOW_POSITIONS: Final = 65_536
"""The limit for the positions of a batch, for queues in which many messages await settlement."""
AGAIN_MS: Final = 1000
"""The pause after a failed read. A read that needs a thread is repeated when that is done."""


ReadAgain = Callable[[Unreadable, Callable[[], object]], object]
"""Calls back when a failed read may succeed, and has `batches` called right after that."""


def when_readable(
    error: Unreadable,
    call_later_ms: Callable[[int, Callable[[], object]], object],
    read: Callable[[], object],
) -> None:
    """Call `read` when a failed read from the disk may succeed."""
    if isinstance(error, BeingRead):
        error.when_done(read)
    else:
        call_later_ms(AGAIN_MS, read)


class Synchronisation:
    """The synchronising of one mirror.

    lacked: the positions that the mirror reports as lacked after the decision with which this
    leader began. number: that of the last batch that this leader sent it before. messages: the
    number that was sent. expected: about the number to be sent at the start. messages_max: the
    limit of a batch. is_cancelled: no more batches are sent.
    """

    def __init__(
        self,
        leading: LeaderBackingQueue,
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
        """Whether the mirror has kept all messages that it lacked."""
        return not self._left and self._kept == self._sent

    @property
    def sent(self) -> int:
        """The number of the last batch that was read."""
        return self._sent

    @property
    def may_send(self) -> bool:
        """Whether another batch can be read, and fewer than `IN_FLIGHT_MAX` are in flight."""
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
        """The mirror has kept all batches through this one. It may repeat a report."""
        assert number <= self._sent, "SY2"
        self._kept = max(self._kept, number)
        if self.is_complete:
            self._close()

    def cancel(self) -> None:
        """Send no more batches. The mirror keeps its messages."""
        self.is_cancelled = True
        self._close()

    def is_used_up(self) -> bool:
        """Whether the leader no longer has any of the messages that the mirror lacks.

        Messages in flight count as lacked until the mirror has kept them.
        """
        if self._kept != self._sent:
            return False
        return all(not holds(self._leading, start, end) for start, end in self._left)

    def _cursor_at(self, start: int) -> Cursor:
        """A cursor at a position: that of the batch before, if it is at that position."""
        if self._cursor is None or self._cursor.position != start:
            self._close()
            self._cursor = self._leading.cursor(start)
        return self._cursor

    def _close(self) -> None:
        if self._cursor is not None:
            self._cursor.close()
            self._cursor = None


def read_batch(
    leading: LeaderBackingQueue, start: int, limit: int, messages_max: int, cursor: Cursor
) -> Batch:
    """The leader's messages from one position up to another, or up to the limit of a batch.

    cursor: one on the leader's queue, at `start`; it is moved on. Raises Unreadable.
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
    leading: LeaderBackingQueue, limit: int, messages_max: int, cursor: Cursor
) -> tuple[list[tuple[int, Entry]], int]:
    """Ready entries with their positions, and the position below which they are complete.

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


def holds(leading: LeaderBackingQueue, start: int, end: int) -> bool:
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


class SyncProgress(NamedTuple):
    """The progress of synchronising a mirror: the messages sent, and about the number that was to
    be sent. is_running: batches are sent.
    """

    messages: int
    expected: int
    is_running: bool


class Synchronising:
    """The mirrors of a leader that lack messages, and the synchronisation of each."""

    __slots__ = (
        "_done", "_failing", "_lacking", "_last", "_leading", "_mirroring", "_read_again",
        "_reported", "_running", "_wake",
    )  # fmt: skip

    def __init__(
        self,
        leading: LeaderBackingQueue,
        mirroring: Callable[[], Mirroring],
        done: Callable[[Member], object],
        wake: Callable[[], object],
        read_again: ReadAgain,
    ) -> None:
        """mirroring: returns the present policy. done: called with a mirror that has become
        synchronised. wake: has `batches` called at the end of the round. read_again: see
        `ReadAgain`.
        """
        self._leading = leading
        self._mirroring = mirroring
        self._done = done
        self._wake = wake
        self._read_again = read_again
        self._failing: set[Member] = set()
        self._lacking: dict[Member, Synchronisation] = {}
        self._running: dict[Member, None] = {}
        self._reported: dict[Member, SyncProgress] = {}
        # The number of the last batch, which a synchronised mirror repeats after its link broke.
        self._last: dict[Member, int] = {}

    # Mirrors

    def joined(self, mirror: Member, lacked: list[Range]) -> None:
        """A mirror has joined, and lacks these positions."""
        self._begin(mirror, lacked, 0)

    def lacks(self, mirror: Member, lacked: list[Range]) -> None:
        """A mirror of an earlier leader lacks these positions."""
        number, before = self._last.get(mirror, 0), self._lacking.get(mirror)
        if before is not None:
            before.cancel()
            number = before.sent
        self._begin(mirror, lacked, number)

    def _begin(self, mirror: Member, lacked: list[Range], number: int) -> None:
        mirroring = self._mirroring()
        self._lacking[mirror] = Synchronisation(self._leading, lacked, mirroring.batch_size, number)
        if mirroring.is_automatic:
            self._running[mirror] = None
        if mirror in self._running:
            self._wake()

    def died(self, mirror: Member) -> None:
        """A mirror has died."""
        self._reported.pop(mirror, None)
        self._last.pop(mirror, None)
        self._running.pop(mirror, None)
        lacking = self._lacking.pop(mirror, None)
        if lacking is not None:
            lacking.cancel()

    # Requests

    def start(self) -> None:
        """Send all mirrors the messages that they lack."""
        self._running.update(dict.fromkeys(self._lacking))
        self._wake()

    def cancel(self) -> None:
        """Send no more batches. Mirrors keep what they have."""
        self._running.clear()

    def policies_changed(self) -> None:
        """Other policies are in force."""
        mirroring = self._mirroring()
        for lacking in self._lacking.values():
            lacking.messages_max = mirroring.batch_size
        if mirroring.is_automatic:
            self.start()

    @property
    def progress(self) -> dict[Member, SyncProgress]:
        """The progress of mirrors that were not synchronised when this leader began with them.

        Other nodes see a mirror as synchronised when the record says so.
        """
        return self._reported | {
            mirror: SyncProgress(one.messages, one.expected, mirror in self._running)
            for mirror, one in self._lacking.items()
        }

    # Batches

    @property
    def has_batches(self) -> bool:
        """Whether a batch may be sent to some mirror now."""
        lacking, failing = self._lacking, self._failing
        return any(lacking[one].may_send for one in self._running if one not in failing)

    def batches(self) -> Iterator[tuple[Member, Batch]]:
        """The batches of this round. To be called between two turns: see `next_batch`."""
        for mirror in self._running:
            if mirror in self._failing:
                continue
            try:
                batch = self._lacking[mirror].next_batch()
            except Unreadable as error:
                self._failing.add(mirror)
                self._read_again(error, partial(self._failing.discard, mirror))
                continue
            if batch is not None:
                yield mirror, batch

    def kept(self, mirror: Member, batch: int) -> None:
        """A mirror has kept its batches through a number; 0 if it has none."""
        lacking = self._lacking.get(mirror)
        if lacking is None:
            return
        lacking.kept(batch)
        if lacking.is_complete or (mirror not in self._running and lacking.is_used_up()):
            progress = self.progress[mirror]
            self.died(mirror)
            self._reported[mirror] = progress
            self._last[mirror] = lacking.sent
            self._done(mirror)
        elif mirror in self._running and lacking.may_send:
            self._wake()
