"""Expiry at its time: messages of a classic queue expire wherever they are in it.

By default, as in RabbitMQ, a message expires only at the head of its queue. With `x-expire-on-time`
each message leaves the queue and is dead-lettered when its time is over. Messages that consumers
hold are left alone; one that comes back after its time expires then.

The times are in a schedule of bounded memory (delivery/expiry_schedule.py). Most messages are
consumed before they expire, so what is published costs little: positions are in blocks of 64, and
another schedule has, for each block, when the first of its messages expires. Then the block is
opened: the messages that are still in it are added to the schedule of messages.

At a start, and when a schedule's horizon is reached, the queue is read with a cursor, a piece in
each turn. Messages that have expired are taken while they are read; others are added to the
schedule. So is a queue whose messages went to disk before their blocks were opened: it is read
once, and what is published after that is added message by message, until the queue is empty.

A message leaves within a tenth of a second after its time. While the queue has messages that are on
disk only, it may be a second later: segments are read from their beginning to their end, so those
that have expired by then are read together.

Invariants:

TE1  A message is taken out of the queue before it is dead-lettered, so it expires once, whether
     here or at the head.
TE2  None is taken before its time: a tick of the schedule is over before it is due (ES3).
TE3  A block is due when the first of its ready messages is, or before that, unless all of them are
     in the schedule of messages, or a reading has yet to reach them.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Final, Protocol

from mypy_extensions import i64

from leveret.broker.queues.delivery.expiry_schedule import LEVEL_BITS, ExpirySchedule
from leveret.broker.runtime.clock import Clock, Timer
from leveret.broker.runtime.turns import Actor, Turns
from leveret.storage.contract.backing_queue import BackingQueue, BeingRead, Cursor, Unreadable
from leveret.storage.messages.message import Entry
from leveret.storage.messages.message_run import MessageRun

BLOCK_BITS: Final = 6
BLOCK: Final = 1 << BLOCK_BITS
"""The positions of a block."""
NO_BLOCK: Final = -1
READ_BYTES: Final = 64 * 1024
READ_WORK: Final = 2
"""The work of looking at a message that is read, in units of broker/runtime/turns.py."""
TAKEN_MAX: Final = 1000
"""This many messages are taken and dead-lettered together."""
READ_TOGETHER_MAX: Final = 100_000
"""The most positions that are read in one pass over the segments."""
DISK_INTERVAL_MS: Final = 1000
"""The interval of such passes."""
RETRY_MS: Final = 100
"""The interval at which a message that the disk could not read is read again."""
SPREAD_ITEMS: Final = 2
"""Positions that are moved or examined in the schedule for one unit of work."""
SPARE = 65_536
"""The positions that the schedule may have beside two for each of the queue's messages."""


class ExpiringQueue(Protocol):
    """The queue. backing: another one when mirroring of the queue begins or ends."""

    backing: BackingQueue


class TimelyExpiry(Actor):
    """The expiry of one queue's messages at their times.

    expire: dead-letters entries that were taken out of the queue, in the order of their positions,
    and settles them.
    may_expire: whether messages may expire now (`ClassicQueue.suspend_expiry`).
    """

    __slots__ = (
        "_block", "_block_ms", "_blocks", "_clock", "_cursor", "_due", "_due_at", "_expire",
        "_forget_at", "_forgetting", "_is_closed", "_is_on_disk", "_may_expire", "_opening",
        "_queue", "_schedule", "_taken_ms", "_timer", "_timer_ms", "_turns", "_waits_for_disk",
    )  # fmt: skip

    def __init__(
        self,
        queue: ExpiringQueue,
        clock: Clock,
        turns: Turns,
        expire: Callable[[list[Entry]], object],
        may_expire: Callable[[], bool],
        schedule: ExpirySchedule | None = None,
        blocks: ExpirySchedule | None = None,
    ) -> None:
        super().__init__()
        self._queue = queue
        self._clock = clock
        self._turns = turns
        self._expire = expire
        self._may_expire = may_expire
        self._schedule = ExpirySchedule() if schedule is None else schedule
        # Positions of blocks, and those that are due. The last block that was added, and when it
        # is due.
        self._blocks = ExpirySchedule() if blocks is None else blocks
        self._opening: list[int] = []
        self._block: i64 = NO_BLOCK
        self._block_ms: i64 = 0
        # Messages are added to the schedule, not to blocks.
        self._is_on_disk = False
        self._cursor: Cursor | None = None
        # Positions that are due, those from an index on, in order.
        self._due: list[int] = []
        self._due_at: int = 0
        # Positions before the head are being forgotten: the steps, and the count that asks for it.
        self._forgetting: Iterator[int] | None = None
        self._forget_at: int = SPARE
        self._timer: Timer | None = None
        self._timer_ms: int = 0
        self._taken_ms: int = -DISK_INTERVAL_MS
        self._is_closed = self._waits_for_disk = False
        backing = queue.backing
        backing.set_loose(True)
        if backing.ready_count and backing.has_expiring:
            self._begin_reading()

    # Messages that become ready

    def published(self, run: MessageRun, expires_at_ms: int) -> None:
        """Messages are about to be published that expire at this time."""
        self._forget_consumed()
        position: i64 = self._next_position(run)
        count: i64 = len(run.messages)
        if self._is_on_disk:
            self._schedule.add(expires_at_ms, position, count)
        else:
            end = position + count
            while position < end:
                self._add_to_block(position, expires_at_ms)
                position = (position >> BLOCK_BITS) + 1 << BLOCK_BITS
        self._set_timer_before(expires_at_ms)

    def published_each(self, run: MessageRun, expires_at_ms: int, expire_at_ms: list[int]) -> None:
        """The same, for messages of which each has its own time. expires_at_ms: the first time."""
        self._forget_consumed()
        position: i64 = self._next_position(run)
        if self._is_on_disk:
            for at_ms in expire_at_ms:
                self._schedule.add(at_ms, position)
                position += 1
        else:
            self._add_to_blocks(position, expire_at_ms)
        self._set_timer_before(expires_at_ms)

    def _add_to_blocks(self, position: i64, expire_at_ms: list[int]) -> None:
        first_ms: i64 = expire_at_ms[0]
        block: i64 = position >> BLOCK_BITS
        for one in expire_at_ms:
            at_ms: i64 = one
            if position >> BLOCK_BITS != block:
                self._add_to_block(position - 1, first_ms)
                block += 1
                first_ms = at_ms
            elif at_ms < first_ms:
                first_ms = at_ms
            position += 1
        self._add_to_block(position - 1, first_ms)

    def _add_to_block(self, position: i64, first_ms: i64) -> None:
        """Messages of the block of a position are published, of which the first expires then."""
        block = position >> BLOCK_BITS
        if block != self._block or first_ms < self._block_ms:
            self._block, self._block_ms = block, first_ms
            self._blocks.add(first_ms, block << BLOCK_BITS)

    def _next_position(self, run: MessageRun) -> int:
        """The position of a run's first message if the run is published next."""
        backing, first = self._queue.backing, run.messages[0]
        return backing.position_of(Entry(first, backing.next_position_of(first)))

    def requeued(self, entries: Sequence[Entry]) -> None:
        """Messages came back. Those whose time is over expire in the next turn."""
        schedule, position_of = self._schedule, self._queue.backing.position_of
        for entry in entries:
            if entry.expires_at_ms:
                schedule.add(entry.expires_at_ms, position_of(entry))
        self._set_timer()

    def _forget_consumed(self) -> None:
        """Forget positions of messages that were consumed before they expired, if all or very many
        were.
        """
        ready_count, count = self._queue.backing.ready_count, self._count
        if not ready_count:
            if count or self._block != NO_BLOCK or self._is_on_disk:
                self.purged()
        elif (
            count > self._forget_at and count > 2 * ready_count + SPARE and self._forgetting is None
        ):
            firsts = self._queue.backing.firsts()
            in_blocks = [first >> BLOCK_BITS << BLOCK_BITS for first in firsts]
            self._forgetting = chain(
                self._schedule.forget_before({one >> LEVEL_BITS: one for one in firsts}),
                self._blocks.forget_before({one >> LEVEL_BITS: one for one in in_blocks}),
            )
            self._turns.wake(self)

    @property
    def _count(self) -> int:
        """The positions of messages and of blocks."""
        return self._schedule.count + self._blocks.count

    def purged(self) -> None:
        """The queue is empty."""
        self._end_reading()
        self._schedule.clear()
        self._blocks.clear()
        self._opening = []
        self._block, self._is_on_disk = NO_BLOCK, False
        self._due, self._due_at = [], 0
        self._forgetting, self._forget_at = None, SPARE

    def resume(self) -> None:
        """Messages may expire again."""
        self._turns.wake(self)

    # Messages that expire

    def take_turn(self) -> None:
        """Let messages expire, and read on, within a turn's work."""
        self._waits_for_disk = False
        if self._is_closed or not self._may_expire():
            return
        if not self._queue.backing.ready_count:
            self.purged()
            return
        try:
            if self._open_blocks():
                self._take_due()
            self._read_on()
        except Unreadable as error:
            self._try_later(error)
            return
        self._forget_on()
        self._set_timer()

    def _open_blocks(self) -> bool:
        """Open the blocks that are due; whether all of them are."""
        turns, blocks = self._turns, self._blocks
        now_ms = self._clock.now_ms()
        while turns.work_left > 0 and (count := blocks.spread(now_ms)):
            turns.work_left -= count // SPREAD_ITEMS
        while turns.work_left > 0:
            if not self._opening:
                self._opening = blocks.take_due(now_ms)
            if not self._opening:
                return True
            position = self._opening.pop()
            turns.work_left -= READ_WORK * (1 + self._open(position))
        return False

    def _open(self, start: int) -> int:
        """Add the messages of a block to the schedule of messages; returns their number."""
        if start >> BLOCK_BITS == self._block:
            # What is published to it from now on is added again.
            self._block = NO_BLOCK
        backing, schedule = self._queue.backing, self._schedule
        entries = backing.ready_between(start, start + BLOCK)
        if entries is None:
            if not self._is_on_disk:
                self._is_on_disk = True
                self._begin_reading()
            return 0
        for entry in entries:
            if entry.expires_at_ms:
                schedule.add(entry.expires_at_ms, backing.position_of(entry))
        return len(entries)

    def _take_due(self) -> None:
        """Take the messages whose time is over. Raises Unreadable."""
        turns, schedule, backing = self._turns, self._schedule, self._queue.backing
        now_ms = self._clock.now_ms()
        while turns.work_left > 0 and (count := schedule.spread(now_ms)):
            turns.work_left -= count // SPREAD_ITEMS
        while turns.work_left > 0 and self._find_due(now_ms):
            positions = self._due[self._due_at : self._due_at + TAKEN_MAX]
            taken = backing.take_at(positions)
            self._due_at += len(positions)
            turns.work_left -= READ_WORK * len(positions)
            if taken:
                self._taken_ms = now_ms
                self._expire(taken)

    def _find_due(self, now_ms: int) -> bool:
        """Whether there are positions that are due."""
        if self._due_at < len(self._due):
            return True
        schedule = self._schedule
        due = schedule.take_due(now_ms)
        if due and self._queue.backing.counts().paged_out:
            while len(due) < READ_TOGETHER_MAX and (more := schedule.take_due(now_ms)):
                due += more
            due.sort()
        self._due, self._due_at = due, 0
        return bool(due)

    def _read_on(self) -> None:
        """Read the queue, if that is wanted. Raises Unreadable."""
        turns, schedule, backing = self._turns, self._schedule, self._queue.backing
        now_ms = self._clock.now_ms()
        is_at_horizon = schedule.is_at_horizon(now_ms) or self._blocks.is_at_horizon(now_ms)
        if self._cursor is None and is_at_horizon:
            self._begin_reading()
        while self._cursor is not None and turns.work_left > 0:
            entries = self._cursor.read(READ_BYTES)
            if not entries:
                self._end_reading()
                return
            turns.work_left -= READ_WORK * len(entries)
            expired = []
            for entry in entries:
                expires_at_ms = entry.expires_at_ms
                if 0 < expires_at_ms <= now_ms:
                    expired.append(entry)
                elif expires_at_ms:
                    schedule.add(expires_at_ms, backing.position_of(entry))
            if expired:
                self._expire(backing.take(expired))

    def _forget_on(self) -> None:
        """Forget positions of messages that were consumed, within a turn's work."""
        turns = self._turns
        while self._forgetting is not None and turns.work_left > 0:
            count = next(self._forgetting, None)
            if count is None:
                self._forgetting, self._forget_at = None, 2 * self._count + SPARE
                return
            turns.work_left -= count // SPREAD_ITEMS

    def _begin_reading(self) -> None:
        self._schedule.begin_reading()
        self._blocks.begin_reading()
        self._block = NO_BLOCK
        self._end_reading()
        self._cursor = self._queue.backing.cursor()
        self._turns.wake(self)

    def _end_reading(self) -> None:
        if self._cursor is not None:
            self._cursor.close()
            self._cursor = None

    def _try_later(self, error: Unreadable) -> None:
        """Continue when the message has been read, or try again."""
        self._stop_timer()
        self._waits_for_disk = True
        if isinstance(error, BeingRead):
            # A call that comes later would start another read.
            error.when_done(self.take_turn)
        else:
            # The queue reports what it cannot read when it gets there.
            self._timer = self._clock.call_later_ms(RETRY_MS, self._call_back)

    # Waiting

    def _set_timer_before(self, expires_at_ms: int) -> None:
        """Take a turn when a message expires, unless one is due before that."""
        if self._timer is None or expires_at_ms < self._timer_ms:
            self._set_timer()

    def _set_timer(self) -> None:
        """Take a turn when the next message expires."""
        if self._waits_for_disk:
            return
        has_more = self._due_at < len(self._due) or self._cursor is not None
        if has_more or self._opening or self._forgetting is not None:
            self._turns.wake(self)
            return
        next_ms, block_ms = self._schedule.next_ms, self._blocks.next_ms
        if block_ms and not 0 < next_ms < block_ms:
            next_ms = block_ms
        if next_ms and self._queue.backing.counts().paged_out:
            next_ms = max(next_ms, self._taken_ms + DISK_INTERVAL_MS)
        if self._timer is not None and self._timer_ms == next_ms:
            return
        self._stop_timer()
        if not next_ms:
            return
        delay_ms = next_ms - self._clock.now_ms()
        if delay_ms <= 0:
            self._turns.wake(self)
            return
        self._timer_ms = next_ms
        self._timer = self._clock.call_later_ms(delay_ms, self._call_back)

    def _call_back(self) -> None:
        self._timer = None
        if not self._is_closed:
            self._turns.wake(self)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def close(self) -> None:
        """The queue ends, or its messages no longer expire at their times."""
        self._is_closed = True
        self._stop_timer()
        self.purged()
        self._expire, self._may_expire = _nothing, _never


def _nothing(_entries: list[Entry]) -> None:
    """The queue has ended."""


def _never() -> bool:
    """The queue has ended."""
    return False
