"""What a queue counts of its messages, and how old they are: the base of `Queue`.

Counting is done a run or a batch at a time, on the queue itself; rates are made of the counts by a
sampler (mgmt/statistics), and ages of marks (queues/age.py).
"""

from broker.actor import Turns
from broker.clock import Clock
from broker.queues.age import Ages
from storage.backing_queue import BackingQueue
from storage.message import Entry, Message


class QueueCounts:
    """The counts of one queue: totals since it was declared, or since the node started.

    What is delivered or got without acks is counted apart. ages: how old its messages are; of a
    priority queue, for each priority (level_ages). may_redeliver: something was requeued or brought
    back, so deliveries may be redeliveries. idle_since_s: wall-clock time of the last look that
    found it in use.
    """

    __slots__ = (
        "_clock", "_priority_max", "_turns", "acked_count", "ages", "delivered_count",
        "delivered_no_ack_count", "got_count", "got_empty_count", "got_no_ack_count",
        "idle_since_s", "level_ages", "may_redeliver", "published_count", "redelivered_count",
    )  # fmt: skip

    backing: BackingQueue

    def __init__(self, turns: Turns, clock: Clock, priority_max: int | None) -> None:
        self._turns = turns
        self._clock = clock
        self._priority_max = priority_max or 0
        self.published_count = self.delivered_count = self.delivered_no_ack_count = 0
        self.got_count = self.got_no_ack_count = self.got_empty_count = 0
        self.redelivered_count = self.acked_count = 0
        self.may_redeliver = self.backing.ready_count > 0
        self.idle_since_s = clock.wall_time_s()
        self.level_ages: dict[int, Ages] | None = {} if priority_max else None
        self.ages = Ages(self.backing.next_position, turns.now_ms)

    def now_ms(self) -> int:
        """The broker's time, by which messages have their ages."""
        return self._clock.now_ms()

    def _note_published(self, message: Message) -> None:
        """One message comes in, some other way than in a run."""
        ages = self._ages_of(message)
        ages.mark(self._turns.now_ms)
        ages.next_position += 1

    def _ages_of(self, message: Message) -> Ages:
        """Those that the message counts among: a priority queue has some for each priority."""
        if self.level_ages is None:
            return self.ages
        return self._ages_at(min(message.header.priority or 0, self._priority_max))

    def _ages_at(self, priority: int) -> Ages:
        if self.level_ages is None:
            return self.ages
        ages = self.level_ages.get(priority)
        if ages is None:
            ages = Ages(self.backing.next_position, self._turns.now_ms)
            self.level_ages[priority] = ages
        return ages

    def _note_left(self, entries: list[Entry]) -> None:
        """Count how long messages were here, and which were redelivered."""
        now_ms = self._turns.now_ms
        if self.level_ages is not None:
            for entry in entries:
                self._ages_of(entry.message).delivered(entry.position, 1, now_ms)
        elif entries:
            self.ages.delivered(entries[0].position, len(entries), now_ms)
        if self.may_redeliver:
            self.redelivered_count += sum(entry.redelivered for entry in entries)

    def oldest_ready_age_ms(self) -> int | None:
        """How long ago the oldest ready message was published; None if there is none.

        Nothing is read from disk for that, and of each priority the first message is looked at.
        """
        now_ms = self._clock.now_ms()
        return max(
            (
                self._ages_at(head.priority).age_ms(head.position, now_ms)
                for head in self.backing.heads()
            ),
            default=None,
        )
