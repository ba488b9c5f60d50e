"""The leader's backing queue: a decorator that notes its operations, for the mirrors.

It passes each call on to the backing queue that it wraps, and notes the outcome as a decision
(decisions.py). Nothing is noted while there are no mirrors. `KeptTurns.decided` announces the first
decision of a turn; at the end of the turn, `take_decisions` returns its bytes.

Contents that a node has sent to all members are published between `begin_run` and `end_run`, in one
run or in parts of it, and noted by the sender's numbers. Messages without a sender (dead letters
that a limit makes, in a queue that dead-letters to itself) are noted with their bytes. Messages of
the run that are not published by `end_run` were refused.

Entries that await settlement are kept by position: a mirror that joins needs their messages, and no
other part of the leader's node knows all of them.

Invariants:

LQ1  `_unacked` has exactly the entries that await settlement, by `position_of`, except those that a
     channel was about to return when mirroring of the queue began. When these are returned, a
     mirror differs, and joins again.
LQ2  The decisions of a run are in the order of its numbers, and name each of them once.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

from mypy_extensions import i64, mypyc_attr

from leveret.cluster.mirrors.decisions import (
    DROPPED,
    FETCHED,
    REQUEUED,
    RETURNED,
    SETTLED,
    TAKEN,
    DecisionWriter,
    Range,
)
from leveret.cluster.mirrors.kept_turns import KeptTurns
from leveret.cluster.remote_queues.message_runs import RunWriter
from leveret.storage.contract.backing_queue import BackingQueue, Cursor, FirstReady, Purged, Waiter
from leveret.storage.contract.queue_status import StorageCounts
from leveret.storage.messages.message import Entry, Message
from leveret.storage.messages.message_run import MessageRun
from leveret.storage.queue.chained_queue import ChainedQueue
from leveret.storage.queue.tiered_queue import TieredQueue
from leveret.storage.queue.transient_queue import TransientQueue

NO_RUN: Final = MessageRun([], 0)


@mypyc_attr(allow_interpreted_subclasses=True)
class LeaderBackingQueue(BackingQueue):
    """A `BackingQueue` that notes the decisions of a leader.

    inner: the wrapped backing queue. wall_offset_ms: the wall clock minus the broker's clock. term:
    it grows from leader to leader. turn: the number of the first turn. held: the entries of `inner`
    that await settlement, if the queue was in use before it was mirrored. takes_times: whether all
    nodes have OWN_TIMES_FEATURE. has_mirrors: decisions are noted, and confirms wait for mirrors,
    or until the leadership is stable. decided: for each sender, the number below which its contents
    are decided.
    """

    __slots__ = (
        "_has_levels", "_is_logged", "_kept", "_next", "_run", "_takes_times", "_unacked",
        "_wall_offset_ms", "_writer", "decided", "has_mirrors", "inner", "term",
    )  # fmt: skip

    def __init__(
        self,
        inner: BackingQueue,
        kept: KeptTurns,
        wall_offset_ms: int,
        term: int = 0,
        turn: int = 1,
        held: Iterable[Entry] = (),
        takes_times: Callable[[], bool] = lambda: True,
    ) -> None:
        self.inner = inner
        self._kept = kept
        self._wall_offset_ms = wall_offset_ms
        self._takes_times = takes_times
        self._writer = DecisionWriter(turn)
        self._has_levels = not isinstance(inner, (TransientQueue, TieredQueue, ChainedQueue))
        self._unacked: dict[int, Entry] = {inner.position_of(entry): entry for entry in held}
        assert len(self._unacked) <= inner.unacked_count, "LQ1"
        self._is_logged = False
        self._run = NO_RUN
        self._next = 0
        self.has_mirrors = False
        self.term = term
        self.decided: dict[int, int] = {}

    @property
    def ready_count(self) -> int:
        """Entries that are ready."""
        return self.inner.ready_count

    @property
    def ready_bytes(self) -> int:
        """The bytes of the ready entries' bodies."""
        return self.inner.ready_bytes

    @property
    def unacked_count(self) -> int:
        """Entries that were fetched or taken, and are not settled."""
        return self.inner.unacked_count

    @property
    def unacked_bytes(self) -> int:
        """The bytes of the unacked entries' bodies."""
        return self.inner.unacked_bytes

    @property
    def has_expiring(self) -> bool:
        """Whether there may be entries that expire."""
        return self.inner.has_expiring

    def next_position_of(self, message: Message) -> int:
        """The `Entry.position` of this message if it is published next."""
        return self.inner.next_position_of(message)

    def position_of(self, entry: Entry) -> int:
        """The position of an entry: unique, and growing in the order of fetching."""
        return self.inner.position_of(entry)

    def given_positions(self) -> list[Range]:
        """The range of positions that were given, for each priority."""
        return self.inner.given_positions()

    def go_on_at(self, position: int) -> None:
        """Give the next message this position. Publishes are noted with their positions anyway."""
        self.inner.go_on_at(position)

    def set_lazy(self, is_lazy: bool) -> None:
        """Keep messages on disk or in memory: each member does as its own policy says."""
        self.inner.set_lazy(is_lazy)

    def set_loose(self, is_loose: bool) -> None:
        """Keep entries in smaller blocks, from which they are removed faster."""
        self.inner.set_loose(is_loose)

    # Decisions

    @property
    def has_decisions(self) -> bool:
        """Whether something was decided since `take_decisions`."""
        return not self._writer.is_empty

    @property
    def turn(self) -> int:
        """The number of the turn whose decisions are being noted."""
        return self._writer.turn

    def take_decisions(self) -> bytes:
        """The bytes of the decisions of the turn that ends; none if nothing was decided."""
        return self._writer.take()

    def joined(self, member: int) -> list[Range]:
        """A mirror joins: it gets all decisions from now on. Returns the positions it lacks."""
        self.has_mirrors = True
        given = self.inner.given_positions()
        lacked = sorted([(start, end) for start, end in given if start < end])
        self._deciding().joined(member, self.term, self.decided, lacked)
        return lacked

    def leads(self, void: list[Range]) -> None:
        """Note the first decision of a new leader, which lacks these positions."""
        self._deciding().leads(self.term, void)

    def sender_ended(self, sender: int, first: int) -> None:
        """The contents of a sender from this number on will never arrive."""
        if self.has_mirrors:
            self._deciding().sender_ended(sender, first)

    def _deciding(self) -> DecisionWriter:
        """The writer for the next decision."""
        writer = self._writer
        if writer.is_empty:
            self._kept.decided()
        return writer

    # Publishing

    def begin_run(self, run: MessageRun) -> None:
        """A run that a sender has sent to all members is about to be published to the queue."""
        assert self._run is NO_RUN, "LQ2: a run inside of another"
        self._run, self._next = run, run.number

    def end_run(self) -> None:
        """The run was published, except for messages that were refused."""
        run = self._run
        self._refuse_to(run.end)
        self.decided[run.sender] = run.end
        self._run = NO_RUN

    def skip(self, sender: int, first: int, count: int) -> None:
        """The next contents of a sender are lost: they are never published."""
        if self.has_mirrors:
            self._deciding().refused(sender, first, count)
        self.decided[sender] = first + count

    def repeat_refusals(self, sender: int, refused: Iterable[Range]) -> None:
        """Tell the mirrors of refusals that were decided before."""
        if self.has_mirrors:
            for start, end in refused:
                self._deciding().refused(sender, start, end - start)

    def _refuse_to(self, number: int) -> None:
        """The remaining messages of the run below a number were refused."""
        count = number - self._next
        if count and self.has_mirrors:
            self._deciding().refused(self._run.sender, self._next, count)
        self._next = number

    def publish(self, run: MessageRun, expires_at_ms: int) -> bool:
        """Append messages; returns whether they will be safe only later (see `when_safe`)."""
        inner, messages = self.inner, run.messages
        if not self.has_mirrors:
            return inner.publish(run, expires_at_ms)
        position = self._position_of_next(messages[0])
        self._is_logged = inner.publish(run, expires_at_ms)
        expires = expires_at_ms and expires_at_ms + self._wall_offset_ms
        count = len(messages)
        if run.sender:
            self._decide_to(run)
            self._deciding().published(run.sender, run.number, count, position, expires)
        else:
            pieces = RunWriter(b"").publish(messages)
            self._deciding().published_here(count, position, expires, pieces)
        return True

    def publish_each(self, run: MessageRun, expire_at_ms: list[int]) -> bool:
        """Append messages that expire at different times."""
        inner = self.inner
        if not self.has_mirrors:
            return inner.publish_each(run, expire_at_ms)
        if not (run.sender and self._takes_times()):
            return super().publish_each(run, expire_at_ms)
        position = self._position_of_next(run.messages[0])
        self._is_logged = inner.publish_each(run, expire_at_ms)
        self._decide_to(run)
        offset_ms: i64 = self._wall_offset_ms
        times = [time + offset_ms for time in expire_at_ms]
        self._deciding().published_each(run.sender, run.number, position, times)
        return True

    def _position_of_next(self, message: Message) -> int:
        inner = self.inner
        first = inner.next_position_of(message)
        return inner.position_of(Entry(message, first)) if self._has_levels else first

    def _decide_to(self, part: MessageRun) -> None:
        """A part of the run is published next: what is between was refused."""
        assert part.sender == self._run.sender, "LQ2"
        assert part.number >= self._next, "LQ2"
        self._refuse_to(part.number)
        self._next = part.end

    def when_safe(self, waiter: Waiter, first: int, holder: object) -> None:
        """Confirm a run when all members have kept it."""
        if self.has_mirrors:
            run = self._run
            self._kept.when_kept(
                self.turn, self._is_logged, waiter, first, holder, run.number, len(run.messages)
            )
        else:
            self.inner.when_safe(waiter, first, holder)

    # Taking

    def peek(self) -> Entry | None:
        """The first ready entry, without taking it; None if there is none."""
        return self.inner.peek()

    def heads(self) -> list[FirstReady]:
        """The first ready entry of each priority that has any, the highest first."""
        return self.inner.heads()

    def firsts(self) -> list[int]:
        """The position of the first ready entry of each priority."""
        return self.inner.firsts()

    def fetchable(self, count: int) -> int:
        """The number of the next `count` entries that one read from disk at most can fetch."""
        return self.inner.fetchable(count)

    def unexpired(self, count: int, now_ms: int) -> int:
        """The number of the next `count` entries that precede the first expired one."""
        return self.inner.unexpired(count, now_ms)

    def fetch(self, count: int, ack_required: bool) -> list[Entry]:
        """Take the first entries."""
        entries = self.inner.fetch(count, ack_required)
        if ack_required:
            self._note(FETCHED, entries, True)
        elif self.has_mirrors:
            self._note(DROPPED, entries, False)
        return entries

    def drop(self) -> Entry | None:
        """Remove the first ready entry and return it."""
        entry = self.inner.drop()
        if entry is not None and self.has_mirrors:
            self._note(DROPPED, [entry], False)
        return entry

    def take(self, entries: Sequence[Entry]) -> list[Entry]:
        """Take entries out of the middle of the queue."""
        taken = self.inner.take(entries)
        self._note(TAKEN, taken, True)
        return taken

    def take_at(self, positions: Sequence[int]) -> list[Entry]:
        """Take the entries at these positions."""
        taken = self.inner.take_at(positions)
        self._note(TAKEN, taken, True)
        return taken

    def ready_between(self, start: int, end: int) -> list[Entry] | None:
        """The ready entries at these positions."""
        return self.inner.ready_between(start, end)

    def _note(self, kind: int, entries: list[Entry], are_kept: bool) -> None:
        """Entries were taken, in the order of their positions. are_kept: they await settlement."""
        if not entries:
            return
        unacked, has_levels, inner = self._unacked, self._has_levels, self.inner
        writer = self._deciding() if self.has_mirrors else None
        start: i64 = -1
        end: i64 = -1
        for entry in entries:
            position: i64 = inner.position_of(entry) if has_levels else entry.position
            if are_kept:
                unacked[position] = entry
            if position != end:
                if writer is not None and start >= 0:
                    writer.ranged(kind, start, end)
                start = position
            end = position + 1
        if writer is not None:
            writer.ranged(kind, start, end)

    # Settling

    def ack(self, entries: Sequence[Entry]) -> None:
        """Remove unacked entries."""
        self._settle(SETTLED, entries)
        self.inner.ack(entries)

    def requeue(self, entries: Sequence[Entry], redelivered: bool = True) -> None:
        """Unacked entries become ready again, each at its old position."""
        self._settle(REQUEUED if redelivered else RETURNED, entries)
        self.inner.requeue(entries, redelivered)

    def _settle(self, kind: int, entries: Sequence[Entry]) -> None:
        if not entries:
            return
        unacked, has_levels, inner = self._unacked, self._has_levels, self.inner
        writer = self._deciding() if self.has_mirrors else None
        start: i64 = -1
        end: i64 = -1
        for entry in entries:
            position: i64 = inner.position_of(entry) if has_levels else entry.position
            unacked.pop(position, None)
            if position != end:
                if writer is not None and start >= 0:
                    writer.ranged(kind, start, end)
                start = position
            end = position + 1
        if writer is not None:
            writer.ranged(kind, start, end)

    def purge(self) -> Purged:
        """Drop every ready entry."""
        if self.has_mirrors and self.inner.ready_count:
            self._deciding().purged()
        return self.inner.purge()

    # Looking

    def unacked_between(self, start: int, end: int) -> list[tuple[int, Entry]]:
        """The entries that await settlement at positions from `start` up to, not including, `end`,
        in order, with their positions.
        """
        unacked = self._unacked
        if len(unacked) <= end - start:
            found = [(place, entry) for place, entry in unacked.items() if start <= place < end]
            found.sort(key=_place)
            return found
        return [(place, unacked[place]) for place in range(start, end) if place in unacked]

    def cursor(self, position: int = 0) -> Cursor:
        """A cursor that reads from this position on (see `position_of`)."""
        return self.inner.cursor(position)

    def counts(self) -> StorageCounts:
        """The numbers of messages in the queue, by where they are."""
        return self.inner.counts()

    def status(self) -> dict[str, Any]:
        """RabbitMQ's `backing_queue_status`: see queue_status.py."""
        return self.inner.status()

    def delete(self) -> Iterator[int]:
        """Delete the leader's messages. Mirrors delete theirs when the record is deleted."""
        return self.inner.delete()


def _place(found: tuple[int, Entry]) -> int:
    return found[0]
