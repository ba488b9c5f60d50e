"""Delayed retries and the delivery limit of a classic queue; its design is described here.

A message that a client returns is counted (`Retry`, contract/retry_headers.py). Above the delivery
limit it is dead-lettered. If its retry is delayed, it is *replaced*: a copy, whose header has the
count and the time, is published to the backing queue and taken out at once, and the original is
acked. So a waiting message is an unacked entry of the backing queue, which delays no other, and:

- the store keeps its time and count, as it keeps any message;
- mirrors have it, since replacing it is made of a publish, a take and an ack, which the leader of a
  mirrored queue broadcasts anyway: neither the store nor mirrors know of retries;
- a restart or a new leader has it as a ready entry with a time in its header. Entries that are
  fetched and whose time has not come are put aside again (`prepare`). configuring.py reads a queue
  that had messages once, so that they are counted and shown before that.

When its time has come it is requeued at its place: behind the messages that were in the queue when
it was returned. A message whose retry is not delayed returns to its old place, with the count in
its header in memory; a restart or another leader forgets that count.

Alternatives: a backing queue of its own, as that of an `x-delayed-message` exchange, would page
waiting messages out, but mirrors would have to know it. A level for them in front of the others, as
of a priority, would change the position of every message when a policy comes into force.

Waiting messages count for the length limits, but are not dropped by them: only ready ones are. They
expire while they wait. A purge drops them.

A queue without a delivery limit and delays has no `Retries`: the message path tests one attribute
for a run of messages.

Invariants:

RT1  Each waiting entry is unacked in the backing queue, and no consumer holds it.
RT2  A copy is in the backing queue before its original is acked: a crash loses neither.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Protocol

from leveret.broker.amqp.content_header import ContentHeader, Retry
from leveret.broker.events.taps import DISCARDED
from leveret.broker.queues.contract.arguments import NO_LIMIT, QueueOptions
from leveret.broker.queues.contract.queue_owner import QueueOwner
from leveret.broker.queues.contract.retry_delay import (
    DISABLED,
    RetryDelay,
    delay_text,
    retry_delay,
)
from leveret.broker.queues.contract.retry_headers import (
    RETRIES_FEATURE,
    as_delivered,
    retry_of,
    with_retry,
)
from leveret.broker.queues.contract.status import RetryStatus
from leveret.broker.queues.contract.waiting_retries import (
    ChosenRetries,
    WaitingRetry,
    message_id,
)
from leveret.broker.queues.dead_letters.dead_lettering import DeadLettering, DyingQueue
from leveret.broker.queues.dead_letters.header import DELIVERY_LIMIT, EXPIRED
from leveret.broker.queues.retries.waiting_entries import WaitingEntries, WaitingEntry
from leveret.broker.runtime.clock import Timer
from leveret.storage.messages.message import Entry
from leveret.storage.messages.message_run import run_of

COUNT_WORK, REPLACE_WORK, LEAVE_WORK = 60, 150, 30
"""The work of counting a return, of replacing a message, and of ending its wait, in the units of
broker/runtime/turns.py."""
LEAVE_AT_ONCE = 500


class ReturningQueue(DyingQueue, Protocol):
    """The queue."""

    def make_ready(self, entries: Sequence[Entry]) -> None:
        """Requeue entries, and have them delivered."""

    def note_taken(self, entries: Sequence[Entry]) -> None:
        """Entries were taken out of their places."""

    def note_requeued(self, entries: Sequence[Entry]) -> None:
        """Entries are back in the backing queue: they may expire again."""


def are_wanted(options: QueueOptions) -> bool:
    """Whether the options of a queue ask for a delivery limit or delayed retries."""
    return delivery_limit(options) is not None or retry_delay(options) is not None


def delivery_limit(options: QueueOptions) -> int | None:
    """The delivery limit; None if there is none."""
    limit = options.delivery_limit
    return None if limit is None or limit >= NO_LIMIT else limit


class Retries:
    """The retries of one queue. waiting: the entries that wait. is_behind: see `go_on`."""

    __slots__ = (
        "_clock", "_deaths", "_delay", "_limit", "_owner", "_queue", "_returned", "_timer",
        "_timer_ms", "_turns", "_wall_offset_ms", "is_behind", "waiting",
    )  # fmt: skip

    def __init__(self, queue: ReturningQueue, owner: QueueOwner, deaths: DeadLettering) -> None:
        self._queue = queue
        self._owner = owner
        self._turns = owner.turns
        self._clock = owner.clock
        self._deaths = deaths
        # Once, as the store does it: each calculation is rounded, so that times would differ.
        self._wall_offset_ms = int(owner.clock.wall_time_s() * 1000) - owner.clock.now_ms()
        self._limit: int | None = None
        self._delay: RetryDelay | None = None
        self._returned: deque[tuple[Entry, bool]] = deque()
        self._timer: Timer | None = None
        self._timer_ms = 0
        self.is_behind = False
        self.waiting = WaitingEntries()

    def configure(self, options: QueueOptions) -> None:
        """Set the limit and the delay from now on. Messages that wait keep their times."""
        self._limit = delivery_limit(options)
        self._delay = retry_delay(options)

    @property
    def is_idle(self) -> bool:
        """Whether nothing waits, and no message that was returned remains to be handled."""
        return not self.waiting and not self._returned

    # Returned messages

    def take_back(self, entries: Sequence[Entry], is_failed: bool) -> None:
        """Take messages that a client returns. is_failed: see `QueueClient.requeue`.

        While a node of an earlier version is in the cluster, they are neither counted nor delayed.
        """
        if not self._owner.features.all_have(RETRIES_FEATURE):
            self._queue.make_ready(entries)
            return
        self._returned.extend([(entry, is_failed) for entry in entries])
        self.go_on()

    def go_on(self) -> None:
        """Handle as many returned messages as there is work left for in this turn of the queue."""
        turns, returned, limit = self._turns, self._returned, self._limit
        back: list[Entry] = []
        died: list[Entry] = []
        while returned and turns.work_left > 0:
            entry, is_failed = returned.popleft()
            known = retry_of(entry.message)
            count = 1 if known is None else known.returns + 1
            if limit is not None and count > limit:
                died.append(entry)
            elif self._delay is not None and self._delay.is_for(is_failed):
                turns.work_left -= REPLACE_WORK
                self._replace(entry, count, self._delay.ms(count))
            else:
                turns.work_left -= COUNT_WORK
                entry.message = with_retry(entry.message, Retry(count, 0))
                back.append(entry)
        if back:
            self._queue.make_ready(back)
        if died:
            self._deaths.let_die(died, DELIVERY_LIMIT)
        self._wait()
        self.is_behind = len(returned) > 0
        if self.is_behind:
            self._queue.have_turn()

    def _replace(self, entry: Entry, count: int, delay_ms: int) -> None:
        """Have a copy of a message wait in its place (RT2)."""
        due_ms = self._clock.now_ms() + delay_ms
        copy = with_retry(entry.message, Retry(count, due_ms + self._wall_offset_ms))
        backing = self._queue.backing
        place = backing.next_position_of(copy)
        backing.publish(run_of([copy]), entry.expires_at_ms)
        taken = backing.take([Entry(copy, place, True, entry.expires_at_ms)])
        assert len(taken) == 1, "RT1: the copy was published at another position"
        taken[0].redelivered = True
        self._hold(taken[0], due_ms)
        backing.ack([entry])
        if self._owner.tracer is not None:
            self._owner.tracer.delayed(self._queue, copy, due_ms + self._wall_offset_ms)

    # Waiting messages

    def _hold(self, entry: Entry, due_ms: int) -> None:
        self.waiting.add(self._queue.backing.position_of(entry), WaitingEntry(entry, due_ms))

    def prepare(self, entries: list[Entry]) -> list[Entry]:
        """The fetched entries that may be delivered, as consumers get them; the others wait."""
        now_ms = wall_ms = 0
        ready: list[Entry] = []
        for entry in entries:
            header = entry.message.header
            assert isinstance(header, ContentHeader), "messages have content headers"
            retry = header.mark
            if isinstance(retry, Retry):
                if not now_ms:
                    now_ms = self._clock.now_ms()
                    wall_ms = now_ms + self._wall_offset_ms
                if retry.due_ms > wall_ms:
                    self._hold(entry, now_ms + retry.due_ms - wall_ms)
                    continue
                entry.message = as_delivered(entry.message)
            ready.append(entry)
        if len(ready) < len(entries):
            self._wait()
        return ready

    def found(self, entries: Sequence[Entry]) -> None:
        """Put aside ready entries that a cursor has read, and whose times have not come."""
        wall_ms = self._clock.now_ms() + self._wall_offset_ms
        early = [
            entry for entry in entries
            if (retry := retry_of(entry.message)) is not None and retry.due_ms > wall_ms
        ]  # fmt: skip
        if early:
            taken = self._queue.backing.take(early)
            self._queue.note_taken(taken)
            # Their times may come meanwhile.
            due = self.prepare(taken)
            if due:
                self._queue.make_ready(due)

    def _wait(self) -> None:
        """Be called back when the next message leaves."""
        if not self.waiting:
            return
        leaves_ms = self.waiting.leaves_next_ms
        if self._timer is not None:
            if self._timer_ms <= leaves_ms:
                return
            self._timer.cancel()
        self._timer_ms = leaves_ms
        delay_ms = max(0, leaves_ms - self._clock.now_ms())
        self._timer = self._clock.call_later_ms(delay_ms, self._leave)

    def _leave(self) -> None:
        """Have the messages delivered whose time has come, and let those die that have expired."""
        self._timer = None
        now_ms = self._clock.now_ms()
        due: list[Entry] = []
        expired: list[Entry] = []
        for waiting in self.waiting.take_first(LEAVE_AT_ONCE, now_ms):
            entry = waiting.entry
            is_expired = 0 < entry.expires_at_ms <= now_ms
            (expired if is_expired else due).append(entry)
        self._turns.work_left -= LEAVE_WORK * len(due)
        if self._owner.tracer is not None:
            for entry in expired:
                self._owner.tracer.expired(self._queue, entry.message)
        if due:
            self._queue.make_ready(due)
        if expired:
            self._deaths.let_die(expired, EXPIRED)
        self._wait()

    # For operators

    def listed(self, count_max: int) -> list[WaitingRetry]:
        """The first messages that wait, in the order of their times."""
        offset_ms = self._wall_offset_ms
        found: list[WaitingRetry] = []
        for position, waiting in self.waiting:
            if len(found) == count_max:
                break
            message = waiting.entry.message
            retry = retry_of(message)
            returns = 0 if retry is None else retry.returns
            found.append(WaitingRetry(position, returns, waiting.due_ms + offset_ms, message))
        return found

    def end_waiting(self, chosen: ChosenRetries, is_discarded: bool) -> int:
        """Have messages delivered now, or drop them; returns their number."""
        entries = self._chosen(chosen)
        if is_discarded:
            self._drop(entries)
        elif entries:
            for entry in entries:
                retry = retry_of(entry.message)
                assert retry is not None, "RT1: a waiting message was returned"
                entry.message = with_retry(entry.message, Retry(retry.returns, 0))
            self._queue.make_ready(entries)
        return len(entries)

    def _chosen(self, chosen: ChosenRetries) -> list[Entry]:
        waiting = self.waiting
        if chosen.are_all:
            return [one.entry for one in waiting.take_first(len(waiting))]
        positions: Iterable[int]
        if chosen.positions is not None:
            positions = [position for position in chosen.positions if position in waiting]
        else:
            positions = [
                position for position, one in waiting
                if message_id(one.entry.message) == chosen.message_id
            ]  # fmt: skip
        found = [waiting.remove(position) for position in dict.fromkeys(positions)]
        return [one.entry for one in found if one is not None]

    def _drop(self, entries: list[Entry]) -> None:
        if not entries:
            return
        tracer = self._owner.tracer
        if tracer is not None:
            for entry in entries:
                tracer.dropped(self._queue, entry.message, DISCARDED)
        self._queue.note_dropped([entry.message for entry in entries])
        self._queue.backing.ack(entries)

    def purge(self) -> int:
        """Drop all messages that wait; returns how many there were."""
        entries = [one.entry for one in self.waiting.take_first(len(self.waiting))]
        self._queue.backing.ack(entries)
        return len(entries)

    def return_all(self) -> None:
        """Make all messages ready, with their times: the queue is to be read as a whole.

        If it goes on, they wait again when they are fetched.
        """
        entries = [entry for entry, _ in self._returned]
        self._returned.clear()
        entries += [one.entry for one in self.waiting.take_first(len(self.waiting))]
        if entries:
            self._queue.backing.requeue(entries)
            self._queue.note_requeued(entries)

    @property
    def held(self) -> list[Entry]:
        """All entries that are unacked in the backing queue, and held by no consumer."""
        waiting = [one.entry for _, one in self.waiting]
        return waiting + [entry for entry, _ in self._returned]

    def status(self) -> RetryStatus:
        """The figures for management."""
        offset_ms, waiting, delay = self._wall_offset_ms, self.waiting, self._delay
        next_ms, last_ms = waiting.next_due_ms, waiting.last_due_ms
        return RetryStatus(
            delivery_limit=self._limit,
            delayed_bytes=waiting.bytes,
            next_delayed_ms=next_ms and next_ms + offset_ms,
            last_delayed_ms=last_ms and last_ms + offset_ms,
            delayed_retry=DISABLED if delay is None else delay_text(*delay),
        )

    def close(self) -> None:
        """The queue ends: what waits stays in the store."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._returned.clear()
        self.waiting = WaitingEntries()
        self.is_behind = False
