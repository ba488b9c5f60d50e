"""The messages that wait at an exchange of the type x-delayed-message, in the order of their times.

Promise: a message is released when its time has come, not before. It waits in a backing queue, like
a message of a queue: a persistent one at a durable exchange is confirmed when the log has it on
disk, and a restart restores it; the pager moves messages to disk when memory is short. Messages are
released in the order of their times, unless more are due at once than one turn can release.

Not promised: that a message is released only once. If the node crashes while the message moves to
another bucket or to its queues, it may be released twice.

Why not one queue and an index: the index would be in memory, for millions of messages, and would
have to be built at a restart by reading all of them.

Mechanism: a radix heap whose buckets are backing queues. Times are milliseconds of the wall clock,
seen as hexadecimal digits. A message is put into the bucket of the highest digit in which its time
differs from the present, and of that digit's value. So all times in a bucket have the same digits
above, and the bucket begins at the time with zeros below. At that time the bucket is opened: its
due messages, or all if they are few, are taken to memory and sorted there; the rest moves to
buckets of lower digits, each of a sixteenth of the time or less.

    present      1a05 3c71      a message for this time is put into the bucket of
    due          1a05 3c7f      digit 0, value f: opened at 1a05 3c7f
                 1a05 9000      digit 3, value 9: opened at 1a05 9000
                 1a07 1234      digit 4, value 7: opened at 1a07 0000

A message moves at most once for each digit of its delay; where few messages wait it does not move.
Memory is that of the backing queues and of `LOADED_MESSAGES_MAX` messages for each digit.

Invariants:

DM1  A message is in a bucket that begins at its time or before, or in memory.
DM2  A message stays in its bucket, unacked, until its targets (the queues, or another bucket)
     have it safely. So a crash loses no message.
DM3  A message that moves goes to the end of a bucket of a lower digit, or to memory. So reading all
     buckets, then once for each digit those parts that are new, and then the memory, misses no
     message (delayed_inspection.py).
"""

import logging
from collections.abc import Callable, Iterable, Sequence, Set
from heapq import heapify, heappop, heappush
from itertools import chain, count
from typing import NamedTuple

from leveret.broker.queues.contract.publication import Publication, Publisher, publication_of
from leveret.broker.runtime.clock import Clock, Timer
from leveret.broker.runtime.long_work import LongWork
from leveret.broker.runtime.pending import Answer
from leveret.broker.runtime.turns import WORK_MAX, Actor, Turns
from leveret.storage.contract.backing_queue import (
    BackingQueue,
    BeingRead,
    Cursor,
    Unreadable,
    Waiter,
)
from leveret.storage.messages.message import ENTRY_BYTES, Entry, Message
from leveret.storage.queue.transient_queue import TransientQueue

DIGIT_BITS = 4
DIGIT_MASK = (1 << DIGIT_BITS) - 1
DIGITS = 16
BUCKETS = DIGITS << DIGIT_BITS
"""As many buckets as a storage id has levels."""
LOAD_WORK, MOVE_WORK, RELEASE_WORK = 8, 100, 250
"""The work of taking a message to memory, of moving it to another bucket, and of releasing it, in
units of broker/runtime/turns.py."""
RELEASING_WORK = WORK_MAX // 2
"""The part of a turn's work that is left for releasing, however full the buckets are."""
LEAVING_BYTES_MAX = 1024 * 1024
"""While messages that are not yet safe at their targets take more memory than this, no others
leave: the disk is behind."""
LOADED_MESSAGES_MAX = 4000
LOADED_BYTES_MAX = 4 * 1024 * 1024
"""A bucket of at most this size is taken to memory as a whole."""
RETRY_MS = 100
"""The interval at which a bucket that the disk could not read is read again."""

logger = logging.getLogger("leveret.exchange")


class Loaded(NamedTuple):
    """A message in memory. order: its place among those with the same time."""

    due_ms: int
    order: int
    entry: Entry
    bucket: "Bucket"


class Bucket:
    """One bucket.

    begins_ms: no message in it is due before this time (DM1). first_due_ms: nor before this one,
    which a restart or a cancelled message may leave too early. is_split: it was opened, and its
    messages move to other buckets: all of them, so that messages with the same time keep their
    order.
    """

    __slots__ = ("backing", "begins_ms", "first_due_ms", "is_split")

    def __init__(self, backing: BackingQueue) -> None:
        self.backing = backing
        self.begins_ms = self.first_due_ms = 0
        self.is_split = False

    def open(self) -> None:
        """Determine whether it may be taken to memory as a whole."""
        backing = self.backing
        if backing.ready_count > LOADED_MESSAGES_MAX or backing.ready_bytes > LOADED_BYTES_MAX:
            self.is_split = True

    def fetch(self, count_max: int) -> list[Entry]:
        """The next messages: at most one read from disk, and at most about this many bytes."""
        backing = self.backing
        affordable = 1 + LEAVING_BYTES_MAX * backing.ready_count // (backing.ready_bytes + 1)
        fetchable = backing.fetchable(min(count_max, affordable))
        entries = backing.fetch(max(1, fetchable), True)
        self._note_taken()
        return entries

    def take(self, entries: Sequence[Entry]) -> list[Entry]:
        """Those of the entries, which a cursor has read, that are still in it. Unacked then."""
        taken = self.backing.take(entries)
        self._note_taken()
        return taken

    def _note_taken(self) -> None:
        if not self.backing.ready_count:
            self.is_split = False


class LeavingPublisher:
    """A `Publisher` of one message that leaves a bucket. left: called when all have it (DM2)."""

    __slots__ = ("_holders", "_left")

    def __init__(self, left: Callable[[], object]) -> None:
        self._left = left
        self._holders: set[object] = {self}

    def has_left(self) -> None:
        """The message was published: a target that does not hold it by now has it."""
        self.confirm(0, self)

    def hold(self, first: int, count: int, holder: object) -> None:
        """A queue or bucket will have it safely later."""
        self._holders.add(holder)

    def confirm(self, first: int, holder: object) -> None:
        """The holder has it safely."""
        if holder in self._holders:
            self._holders.remove(holder)
            if not self._holders:
                self._left()

    def refuse(self, number: int) -> None:
        """A full queue drops the message, as it drops those published without confirms."""

    def holder_died(self, holder: object, is_settled: bool) -> None:
        """The holder's queue is deleted, or lost."""
        self.confirm(0, holder)


class DelayedMessages(Actor):
    """The messages that wait at one exchange.

    make_backing: makes the backing queue of a bucket, by its number. levels: the buckets in which a
    restart found messages. release: publishes a message whose time has come, with confirms to this
    publisher; returns the result of `routing.publish`. wall_offset_ms: is added to the clock's time
    to get the wall clock's. what: the name of the exchange, for texts. moved_count: how many
    messages have left a bucket for another place.
    """

    __slots__ = (
        "_buckets", "_clock", "_leaving_bytes", "_leaving_count", "_loaded", "_make_backing",
        "_order", "_release", "_reported", "_rest", "_timer", "_timer_ms", "_turns", "_waiting",
        "_waits_for_read", "_wall_offset_ms", "_what", "moved_count",
    )  # fmt: skip

    def __init__(
        self,
        clock: Clock,
        turns: Turns,
        make_backing: Callable[[int], BackingQueue],
        levels: Iterable[int],
        release: Callable[[Message, Publisher], Answer[None] | None],
        wall_offset_ms: int = 0,
        what: str = "an exchange",
    ) -> None:
        super().__init__()
        self._clock = clock
        self._turns = turns
        self._make_backing = make_backing
        self._release = release
        self._wall_offset_ms = wall_offset_ms
        self._what = what
        self._buckets: dict[int, Bucket] = {}
        self._loaded: list[Loaded] = []
        self._leaving_count = self._leaving_bytes = self.moved_count = 0
        self._rest: Answer[None] | None = None
        self._order = count()
        self._timer: Timer | None = None
        self._timer_ms = 0
        self._waits_for_read = False
        self._reported = ""
        self._waiting: list[Callable[[], object]] = []
        # With one bucket at least the store knows that the storage id is in use.
        for level in {0, *levels}:
            self._restore(level)
        self._set_timer()

    @property
    def count(self) -> int:
        """The number of messages that wait."""
        backings = [bucket.backing for bucket in self._buckets.values()]
        held_count = sum(backing.ready_count + backing.unacked_count for backing in backings)
        return held_count - self._leaving_count

    @property
    def next_due_ms(self) -> int | None:
        """When the next message is due, in milliseconds since 1970 if there is a store; None if
        none waits. After a restart, or if messages were cancelled, it may be too early.
        """
        times = [
            bucket.first_due_ms for bucket in self._buckets.values() if bucket.backing.ready_count
        ]
        if self._loaded:
            times.append(self._loaded[0].due_ms)
        return min(times, default=None)

    def _restore(self, level: int) -> None:
        bucket = self._buckets[level] = Bucket(self._make_backing(level))
        try:
            first = bucket.backing.peek()
        except Unreadable:
            # It may be opened too early: messages that are not due go to another bucket.
            return
        if first is not None:
            bucket.begins_ms = _beginning(self.due_ms(first), level >> DIGIT_BITS)
            bucket.first_due_ms = bucket.begins_ms

    def _now_ms(self) -> int:
        return self._clock.now_ms() + self._wall_offset_ms

    def due_ms(self, entry: Entry) -> int:
        """The time of an entry, which the store keeps as its expiry time.

        In milliseconds of the wall clock, if there is a store.
        """
        return entry.expires_at_ms + self._wall_offset_ms

    # Arriving messages

    def add(self, publication: Publication, delay_ms: int) -> None:
        """Keep one message until its delay is over."""
        now_ms = self._now_ms()
        due_ms = now_ms + delay_ms
        bucket = self._bucket_for(due_ms, now_ms)
        self._put(bucket, publication, due_ms)
        if self._timer is None or bucket.begins_ms < self._timer_ms:
            self._set_timer()

    def add_for(self, publication: Publication, due_ms: int) -> None:
        """Keep a message until a time (`due_ms`); until the next turn if that time is over."""
        self.add(publication, max(1, due_ms - self._now_ms()))

    def _bucket_for(self, due_ms: int, now_ms: int) -> Bucket:
        """The bucket for a time in the future."""
        digit = ((due_ms ^ now_ms).bit_length() - 1) // DIGIT_BITS
        level = digit << DIGIT_BITS | due_ms >> digit * DIGIT_BITS & DIGIT_MASK
        bucket = self._buckets.get(level)
        if bucket is None:
            bucket = self._buckets[level] = Bucket(self._make_backing(level))
        begins_ms = _beginning(due_ms, digit)
        if not bucket.backing.ready_count or begins_ms < bucket.begins_ms:
            bucket.begins_ms = begins_ms
        return bucket

    def _put(self, bucket: Bucket, publication: Publication, due_ms: int) -> None:
        """Put a message into a bucket, which holds it in the publisher's name until it is safe."""
        assert bucket.begins_ms <= due_ms, "DM1"
        backing = bucket.backing
        if not backing.ready_count or due_ms < bucket.first_due_ms:
            bucket.first_due_ms = due_ms
        expires_at_ms = due_ms - self._wall_offset_ms
        publisher, number = publication.publisher, publication.first
        if backing.publish(publication, expires_at_ms) and publisher is not None:
            publisher.hold(number, 1, self)
            backing.when_safe(publisher, number, self)

    # Browsing

    def waiting(self) -> tuple[list[Entry], list[Cursor]]:
        """The messages that wait: those in memory, and cursors over the rest.

        The caller must close the cursors.
        """
        loaded = [one.entry for one in sorted(self._loaded)]
        return loaded, [bucket.backing.cursor() for bucket in self._buckets.values()]

    def buckets_by_time(self) -> list[tuple[int, Bucket]]:
        """The buckets that have messages, with their levels; the first to begin is the first."""
        filled = [one for one in self._buckets.items() if one[1].backing.ready_count]
        return sorted(filled, key=lambda one: one[1].begins_ms)

    def loaded(self) -> list[Loaded]:
        """The messages in memory that are not due yet, in the order of their times."""
        now_ms = self._now_ms()
        return sorted(one for one in self._loaded if one.due_ms > now_ms)

    # Messages that an operator has chosen

    def take(self, bucket: Bucket, entries: Sequence[Entry]) -> list[Loaded]:
        """Take messages out of their bucket, to release or to cancel them."""
        if bucket not in self._buckets.values():
            return []
        taken = bucket.take(entries)
        return [Loaded(self.due_ms(one), next(self._order), one, bucket) for one in taken]

    def take_loaded(self, orders: Set[int]) -> list[Loaded]:
        """Take messages out of memory, those that are still in it."""
        taken = [one for one in self._loaded if one.order in orders]
        self._loaded = [one for one in self._loaded if one.order not in orders]
        heapify(self._loaded)
        return taken

    def release_now(self, taken: Sequence[Loaded]) -> None:
        """Release messages that were taken, in the order of their times, in the next turns."""
        now_ms = self._now_ms()
        for one in sorted(taken):
            due_ms = min(one.due_ms, now_ms)
            heappush(self._loaded, Loaded(due_ms, next(self._order), one.entry, one.bucket))
        self._set_timer()

    def cancel(self, taken: Sequence[Loaded]) -> None:
        """Drop messages that were taken."""
        for one in taken:
            one.bucket.backing.ack([one.entry])
        self._set_timer()

    def when_released(self, callback: Callable[[], object]) -> None:
        """Call back when no message in memory is due, or when the exchange or the node ends."""
        self._waiting.append(callback)
        self._call_waiting()

    def when_safe(self, waiter: Waiter) -> None:
        """Confirm number 0 to a waiter when all that was cancelled is on disk."""
        backing = next((bucket.backing for bucket in self._buckets.values()), None)
        if backing is None:
            waiter.confirm(0, self)
        else:
            backing.when_safe(waiter, 0, self)

    def _call_waiting(self) -> None:
        """Call those that wait until messages are released, if none in memory is due."""
        if self._loaded and self._loaded[0].due_ms <= self._now_ms():
            return
        waiting, self._waiting = self._waiting, []
        for callback in waiting:
            callback()

    # Leaving messages

    def take_turn(self) -> None:
        """Open the buckets that have begun, and release due messages, within a turn's work."""
        now_ms = self._now_ms()
        turns, loaded = self._turns, self._loaded
        self._waits_for_read = False
        while turns.work_left > RELEASING_WORK and self._may_leave:
            bucket = self._begun(now_ms)
            if bucket is None:
                break
            try:
                self._open(bucket, now_ms)
            except Unreadable as error:
                self._open_later(error)
                break
            self._reported = ""
        while turns.work_left > 0 and self._may_leave and loaded and loaded[0].due_ms <= now_ms:
            self._release_first()
        self._set_timer()
        if self._waiting:
            self._call_waiting()

    def _open_later(self, error: Unreadable) -> None:
        """A bucket cannot be read now: continue when it has been read, or try again."""
        self._waits_for_read = True
        self._stop_timer()
        if isinstance(error, BeingRead):
            error.when_done(self.take_turn)
            return
        if self._reported != str(error):
            self._reported = str(error)
            logger.error(
                "%s: delayed messages cannot be read, and wait: %s; reading is retried",
                self._what, error,
            )  # fmt: skip
        self._timer = self._clock.call_later_ms(RETRY_MS, self.take_turn)

    @property
    def _may_leave(self) -> bool:
        return self._leaving_bytes <= LEAVING_BYTES_MAX and self._rest is None

    def _begun(self, now_ms: int) -> Bucket | None:
        """A bucket with messages that has begun; of several, the one that began first."""
        begun = [
            bucket for bucket in self._buckets.values()
            if bucket.backing.ready_count and bucket.begins_ms <= now_ms
        ]  # fmt: skip
        return min(begun, key=lambda bucket: bucket.begins_ms, default=None)

    def _open(self, bucket: Bucket, now_ms: int) -> None:
        """Take messages out of a bucket that has begun."""
        bucket.open()
        moves = bucket.is_split
        work = MOVE_WORK if moves else LOAD_WORK
        entries = bucket.fetch(max(1, (self._turns.work_left - RELEASING_WORK) // work))
        self._turns.work_left -= work * max(1, len(entries))
        self.moved_count += len(entries)
        for entry in entries:
            due_ms = self.due_ms(entry)
            target = self._bucket_for(due_ms, now_ms) if moves and due_ms > now_ms else bucket
            if target is bucket:
                heappush(self._loaded, Loaded(due_ms, next(self._order), entry, bucket))
            else:
                leaving = self._leaving(bucket, entry)
                self._put(target, publication_of([entry.message], None, leaving), due_ms)
                leaving.has_left()

    def _release_first(self) -> None:
        _, _, entry, bucket = heappop(self._loaded)
        self._turns.work_left -= RELEASE_WORK
        leaving = self._leaving(bucket, entry)
        self._rest = self._release(entry.message, leaving)
        leaving.has_left()
        if self._rest is not None:
            self._rest.when_given(self._reached_all)

    def _reached_all(self) -> None:
        """All of very many queues have the message that was released last."""
        self._rest = None
        self._set_timer()

    def _leaving(self, bucket: Bucket, entry: Entry) -> LeavingPublisher:
        """A message that leaves its bucket, and is acked there when it is safe at its targets."""
        size = len(entry.message.body) + ENTRY_BYTES
        self._leaving_count += 1
        self._leaving_bytes += size

        def left() -> None:
            could_leave = self._may_leave
            self._leaving_count -= 1
            self._leaving_bytes -= size
            bucket.backing.ack([entry])
            if not could_leave and self._may_leave:
                self._set_timer()

        return LeavingPublisher(left)

    # Waiting

    def _set_timer(self) -> None:
        """Take a turn when the next message is due, or the next bucket begins."""
        if self._waits_for_read:
            return
        times = [
            bucket.begins_ms for bucket in self._buckets.values() if bucket.backing.ready_count
        ]
        if self._loaded:
            times.append(self._loaded[0].due_ms)
        self._stop_timer()
        if not times or not self._may_leave:
            return
        self._timer_ms = min(times)
        delay_ms = self._timer_ms - self._now_ms()
        if delay_ms <= 0:
            self._turns.wake(self)
        else:
            self._timer = self._clock.call_later_ms(delay_ms, self.take_turn)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # Ending

    def close(self) -> None:
        """The node stops: data on disk stays there."""
        self._stop_timer()
        self._buckets.clear()
        self._loaded.clear()
        self._call_waiting()

    def delete(self) -> None:
        """The exchange is deleted, and the messages that wait with it."""
        freeing = [bucket.backing.delete() for bucket in self._buckets.values()]
        self.close()
        # Both refer to the exchange: without these reference cycles it is freed at once.
        self._make_backing, self._release = _bucket_of_deleted, _forget
        LongWork(self._turns, "freeing delayed messages", chain.from_iterable(freeing)).start()


def _bucket_of_deleted(level: int) -> BackingQueue:
    """The bucket of a deleted exchange, for publishers that do not know of the deletion yet."""
    return TransientQueue()


def _forget(message: Message, publisher: Publisher) -> None:
    """Drop a message of a deleted exchange."""


def _beginning(due_ms: int, digit: int) -> int:
    """The time with zeros in the digits below."""
    return due_ms >> digit * DIGIT_BITS << digit * DIGIT_BITS
