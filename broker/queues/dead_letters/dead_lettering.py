"""Handles messages that die in a queue: expired, dropped by a limit, or rejected by a client.

Each goes to the queue's dead-letter exchange, if it has one. Messages that die in one turn for one
reason are dead-lettered together. A policy may make a million messages die at once, or a client may
reject as many with one method, so each turn of the queue handles only as many deaths as its budget
of work allows (broker/runtime/turns.py). Until its turn comes, a message stays where it was: the
queue is longer than its limit, and rejected messages are unacked.
"""

from collections import deque
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Protocol

from leveret.broker.amqp.content_header import ContentHeader
from leveret.broker.queues.contract.arguments import REJECT_PUBLISH_DLX, QueueOptions
from leveret.broker.queues.contract.queue_client import QueueClient
from leveret.broker.queues.contract.queue_owner import QueueOwner
from leveret.broker.queues.contract.retry_headers import as_published
from leveret.broker.queues.dead_letters.header import EXPIRED, MAXLEN, REJECTED, letter_work
from leveret.broker.queues.dead_letters.timely_expiry import TimelyExpiry
from leveret.broker.queues.delivery.counting import QueueCounts
from leveret.broker.queues.delivery.expiry import HeadExpiry
from leveret.broker.queues.delivery.failed_reads import FailedReads, reading
from leveret.broker.runtime.clock import Clock
from leveret.storage.contract.backing_queue import BackingQueue
from leveret.storage.messages.message import Entry, Message
from leveret.storage.messages.message_run import MessageRun

_expires_at_ms = attrgetter("expires_at_ms")
DEATH_WORK = 4
"""The work of taking a message out of a queue, in the units of broker/runtime/turns.py."""


class DyingQueue(QueueClient, Protocol):
    """The queue. counts: of its messages. reads: its failed reads."""

    backing: BackingQueue
    counts: QueueCounts
    reads: FailedReads

    @property
    def waiting_count(self) -> int:
        """The messages that wait for a retry: they count for the length limits."""

    @property
    def waiting_bytes(self) -> int:
        """The bytes of their bodies."""

    def note_dropped(self, messages: Sequence[Message]) -> None:
        """Messages have left the queue in another way than by an ack."""

    def have_turn(self) -> None:
        """Request a turn, which calls `DeadLettering.go_on`."""


class DeadLettering:
    """The dead-lettering of one queue. is_behind: deaths are left for the queue's next turn.

    expiry: watches the head of the queue. timely: None unless messages expire at their times.
    """

    __slots__ = (
        "_clock", "_dying", "_owner", "_queue", "_turns", "_waiting", "expiry", "is_behind",
        "reads", "timely",
    )  # fmt: skip

    def __init__(self, queue: DyingQueue, owner: QueueOwner) -> None:
        self._queue = queue
        self._owner = owner
        self._turns = owner.turns
        self._clock: Clock = owner.clock
        self._dying: deque[tuple[str, deque[Entry]]] = deque()
        self._waiting: list[Callable[[], object]] = []
        self.is_behind = False
        self.reads = queue.reads
        self.expiry = HeadExpiry(owner.clock, self.drop_expired, queue.backing.has_expiring)
        self.timely: TimelyExpiry | None = None

    @property
    def _options(self) -> QueueOptions:
        return self._queue.options

    def go_on(self) -> None:
        """In the queue's turn: handle the deaths that were left for it."""
        self.is_behind = False
        self._go_on_dying()
        self.enforce_limits()
        self.drop_expired()
        if not self.is_behind:
            self._call_waiting()

    def close(self) -> None:
        """The queue ends."""
        self._dying.clear()
        self.is_behind = False
        self.expiry.stop()
        if self.timely is not None:
            self.timely.close()
            self.timely = None
        self._call_waiting()

    def when_done(self, callback: Callable[[], object]) -> None:
        """Call back when nothing is left for the next turn, or when the queue ends."""
        self._waiting.append(callback)

    def _call_waiting(self) -> None:
        waiting, self._waiting = self._waiting, []
        for callback in waiting:
            callback()

    def _go_on_later(self) -> None:
        self.is_behind = True
        self._queue.have_turn()

    # Messages that die together

    def refuse(self, message: Message) -> None:
        """The queue is full, and its overflow behaviour is to refuse publishes."""
        queue = self._queue
        if self._owner.tracer is not None:
            self._owner.tracer.dropped(queue, message, MAXLEN)
        if self._options.overflow == REJECT_PUBLISH_DLX:
            self.dead_letter(message, MAXLEN)

    def dead_letter(self, message: Message, reason: str) -> None:
        """Dead-letter a message, or drop it if the queue has no dead-letter exchange."""
        self._count_work(message)
        self._dead_letter([message], reason)

    def _count_work(self, message: Message) -> None:
        """Count the death of a message as work of this turn, and publishing its dead letter."""
        work = DEATH_WORK
        if self._options.dead_letter_exchange is not None:
            assert isinstance(message.header, ContentHeader), "messages have content headers"
            work += letter_work(message.header)
        self._turns.work_left -= work

    def _dead_letter(self, messages: list[Message], reason: str) -> None:
        """Dead-letter messages that died together, and count their work."""
        if not messages:
            return
        self._queue.note_dropped(messages)
        if self._options.dead_letter_exchange is not None:
            letters = [as_published(message) for message in messages]
            self._owner.dead_letter(self._queue, letters, reason)
        else:
            self._owner.note_discarded(self._queue, reason, len(messages))

    # Limits

    def enforce_limits(self) -> None:
        """Drop from the head until the queue is within its limits (overflow drop-head)."""
        options = self._options
        if options.has_limit and not options.rejects_when_full:
            self._drop_over_limits()

    @reading
    def _drop_over_limits(self) -> None:
        options, backing = self._options, self._queue.backing
        waiting_count, waiting_bytes = self._queue.waiting_count, self._queue.waiting_bytes
        dropped: list[Message] = []
        try:
            while options.is_exceeded(
                backing.ready_count + waiting_count, backing.ready_bytes + waiting_bytes
            ):
                if self._turns.work_left <= 0:
                    self._go_on_later()
                    return
                entry = backing.drop()
                if entry is None:
                    return
                self._count_work(entry.message)
                if self._owner.tracer is not None:
                    self._owner.tracer.dropped(self._queue, entry.message, MAXLEN)
                dropped.append(entry.message)
        finally:
            self._dead_letter(dropped, MAXLEN)

    # Expiry

    def drop_expired(self) -> bool:
        """Drop the expired messages at the head. Returns False if some are left."""
        return not self.expiry.is_wanted or self._queue.is_deleted or self._drop_expired()

    @reading
    def _drop_expired(self) -> bool:
        now_ms = self._clock.now_ms()
        backing = self._queue.backing
        expired: list[Message] = []
        try:
            while (head := backing.peek()) is not None and 0 < head.expires_at_ms <= now_ms:
                if self._turns.work_left <= 0:
                    self._go_on_later()
                    return False
                backing.drop()
                self._count_work(head.message)
                if self._owner.tracer is not None:
                    self._owner.tracer.expired(self._queue, head.message)
                expired.append(head.message)
        finally:
            self._dead_letter(expired, EXPIRED)
        self.watch_head()
        return True

    def watch_head(self) -> None:
        """Be called back when the message at the head expires."""
        if self.expiry.is_wanted:
            self._watch_head()

    @reading
    def _watch_head(self) -> None:
        head = self._queue.backing.peek()
        if head is not None:
            self.expiry.watch(head.expires_at_ms)

    # Expiry at its time

    def configure_expiry(self) -> bool:
        """Use the queue's present options. Returns whether messages expire wherever they are in the
        queue (timely_expiry.py).
        """
        wanted, timely = self._options.expires_on_time, self.timely
        is_timely = self._owner.expires_on_time if wanted is None else wanted
        if is_timely and timely is None:
            self.timely = TimelyExpiry(
                self._queue, self._clock, self._turns, self._expire, self._may_expire
            )
        elif timely is not None and not is_timely:
            self._queue.backing.set_loose(False)
            timely.close()
            self.timely = None
        return is_timely

    def will_expire(
        self, run: MessageRun, expires_at_ms: int, expire_at_ms: list[int] | None = None
    ) -> None:
        """A run is about to be published that expires. expires_at_ms: when its first message does.
        expire_at_ms: when each does, if the times differ.
        """
        self.expiry.will_expire(expires_at_ms)
        timely = self.timely
        if timely is None:
            return
        if expire_at_ms is None:
            timely.published(run, expires_at_ms)
        else:
            timely.published_each(run, expires_at_ms, expire_at_ms)

    def requeued(self, entries: Sequence[Entry]) -> None:
        """Entries are back in the queue, with the times that they had."""
        if self.timely is not None:
            self.timely.requeued(entries)

    def purged(self) -> None:
        """All ready messages were dropped."""
        if self.timely is not None:
            self.timely.purged()

    def resume_expiry(self) -> None:
        """Messages may expire again."""
        self.drop_expired()
        if self.timely is not None:
            self.timely.resume()

    def _may_expire(self) -> bool:
        return self.expiry.is_wanted

    def _expire(self, entries: list[Entry]) -> None:
        """Dead-letter messages, in the order of their times, that have expired and were taken out
        of the queue. entries: in the order of their positions, in which they are settled fastest.
        """
        self._queue.counts.expired_on_time += len(entries)
        in_order = sorted(entries, key=_expires_at_ms)
        messages = [entry.message for entry in in_order]
        if self._owner.tracer is not None:
            for message in messages:
                self._owner.tracer.expired(self._queue, message)
        if self._options.dead_letter_exchange is None:
            self._turns.work_left -= DEATH_WORK * len(messages)
        else:
            for message in messages:
                self._count_work(message)
        self._dead_letter(messages, EXPIRED)
        self._queue.backing.ack(entries)

    # Messages that no longer are ready

    def reject(self, entries: Sequence[Entry]) -> None:
        """A client rejects delivered messages."""
        self.let_die(entries, REJECTED)

    def let_die(self, entries: Sequence[Entry], reason: str) -> None:
        """Let unacked messages die."""
        self._dying.append((reason, deque(entries)))
        self._go_on_dying()

    def _go_on_dying(self) -> None:
        dying = self._dying
        while dying and self._turns.work_left > 0:
            reason, entries = dying[0]
            done: list[Entry] = []
            while entries and self._turns.work_left > 0:
                done.append(entries.popleft())
                self._count_work(done[-1].message)
            if not entries:
                dying.popleft()
            self._dead_letter([entry.message for entry in done], reason)
            self._queue.backing.ack(done)
        if dying:
            self._go_on_later()


class NoDeadLettering(DeadLettering):
    """The dead-lettering of a queue that has ended: it does nothing. All ended queues share it."""

    __slots__ = ()

    def __init__(self) -> None:
        self.is_behind = False
        self.timely = None

    def go_on(self) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""

    def when_done(self, callback: Callable[[], object]) -> None:
        """Call back at once."""
        callback()

    def dead_letter(self, message: Message, reason: str) -> None:
        """Do nothing."""

    def enforce_limits(self) -> None:
        """Do nothing."""

    def drop_expired(self) -> bool:
        """True: nothing is left."""
        return True

    def configure_expiry(self) -> bool:
        """False: no message expires."""
        return False

    def will_expire(
        self, run: MessageRun, expires_at_ms: int, expire_at_ms: list[int] | None = None
    ) -> None:
        """Do nothing."""

    def resume_expiry(self) -> None:
        """Do nothing."""

    def watch_head(self) -> None:
        """Do nothing."""

    def reject(self, entries: Sequence[Entry]) -> None:
        """Do nothing."""

    def let_die(self, entries: Sequence[Entry], reason: str) -> None:
        """Do nothing."""


NO_DEAD_LETTERING = NoDeadLettering()
