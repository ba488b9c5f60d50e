"""Messages expire at their times, wherever they are in the queue: each once, and none too early."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leveret.broker.amqp.content import encode_address
from leveret.broker.amqp.content_header import read_header
from leveret.broker.queues.classic.priority import PriorityQueue
from leveret.broker.queues.contract.priority_levels import priority_levels
from leveret.broker.queues.dead_letters import timely_expiry
from leveret.broker.queues.dead_letters.timely_expiry import BLOCK, RETRY_MS, TimelyExpiry
from leveret.broker.queues.delivery.expiry_schedule import TICK_MS, ExpirySchedule
from leveret.broker.runtime.virtual_clock import VirtualClock
from leveret.storage.contract.backing_queue import BeingRead, Unreadable
from leveret.storage.messages.message import Address, Message
from leveret.storage.messages.message_run import run_of
from leveret.storage.queue.transient_queue import TransientQueue
from tests.turns_by_hand import TurnsByHand

ADDRESS = Address("", "q", encode_address("", "q"))
HEADER = read_header(b"\0\0")
LATE_MS = 2 * TICK_MS
"""A message expires at the end of its tick; behind the horizon, a tick later."""


class UnreadableAtTimes(TransientQueue):
    """A queue whose messages cannot be taken while `error` is set."""

    error = None

    def take_at(self, positions):
        if self.error is not None:
            raise self.error
        return super().take_at(positions)


class Expiring:
    """A queue with the times at which its messages expired, by their bodies."""

    def __init__(self, backing=None, times_max=1000):
        self.turns = TurnsByHand()
        self.clock = VirtualClock()
        self.backing = TransientQueue() if backing is None else backing
        self.may_expire = True
        self.expired = []
        self.times_max = times_max
        self.start()

    def start(self):
        self.schedule = ExpirySchedule(self.times_max)
        self.blocks = ExpirySchedule(self.times_max)
        self.timely = TimelyExpiry(
            self, self.clock, self.turns, self._expire, lambda: self.may_expire, self.schedule,
            self.blocks,
        )  # fmt: skip

    def _expire(self, entries):
        self.backing.ack(entries)
        self.expired += [(self.clock.now_ms(), int(entry.message.body)) for entry in entries]

    def publish_each(self, first, ttls_ms):
        messages = [Message(ADDRESS, HEADER, b"%d" % (first + one)) for one in range(len(ttls_ms))]
        times = [self.clock.now_ms() + ttl_ms for ttl_ms in ttls_ms]
        self.timely.published_each(run_of(messages), min(times), times)
        self.backing.publish_each(run_of(messages), times)

    def publish(self, number, ttl_ms):
        message = Message(ADDRESS, HEADER, b"%d" % number)
        expires_at_ms = ttl_ms and self.clock.now_ms() + ttl_ms
        run = run_of([message])
        if expires_at_ms:
            self.timely.published(run, expires_at_ms)
        self.backing.publish(run, expires_at_ms)

    def advance(self, ms):
        """Let time pass, with a turn for each few milliseconds."""
        while ms > 0:
            self.clock.advance(min(ms, 5) / 1000)
            self.turns.run()
            ms -= 5

    def numbers(self):
        return [number for _, number in self.expired]


@pytest.fixture
def queue():
    return Expiring()


def test_a_message_behind_others_expires_at_its_time(queue):
    began_ms = queue.clock.now_ms()
    queue.publish(1, 0)
    queue.publish(2, 300)
    queue.publish(3, 100)
    queue.advance(99)
    assert queue.expired == []
    queue.advance(300)
    assert queue.numbers() == [3, 2]
    times_ms = [at_ms - began_ms for at_ms, _ in queue.expired]
    assert 100 <= times_ms[0] <= 100 + TICK_MS
    assert 300 <= times_ms[1] <= 300 + TICK_MS
    assert (queue.backing.ready_count, queue.backing.unacked_count) == (1, 0)


def test_a_message_that_a_consumer_holds_expires_when_it_comes_back(queue):
    queue.publish(1, 10)
    entries = queue.backing.fetch(1, True)
    queue.publish(2, 500)
    queue.advance(100)
    assert queue.expired == []
    queue.backing.requeue(entries)
    queue.timely.requeued(entries)
    queue.turns.run()
    assert queue.numbers() == [1]


def test_one_that_was_consumed_does_not_expire(queue):
    queue.publish(1, 10)
    queue.publish(2, 20)
    queue.backing.fetch(1, False)
    queue.advance(100)
    assert queue.numbers() == [2]


def test_a_queue_that_was_there_before_is_read(queue):
    for number in range(100):
        queue.publish(number, 1 + number % 7 if number % 2 else 0)
    queue.timely.close()
    queue.advance(5)
    assert queue.expired == []
    queue.start()
    queue.turns.run()
    queue.advance(LATE_MS + 10)
    assert sorted(queue.numbers()) == [number for number in range(100) if number % 2]


def test_nothing_expires_while_that_is_suspended(queue):
    queue.publish(1, 10)
    queue.may_expire = False
    queue.advance(100)
    assert queue.expired == []
    queue.may_expire = True
    queue.timely.resume()
    queue.turns.run()
    assert queue.numbers() == [1]


def test_a_message_that_cannot_be_read_expires_later():
    queue = Expiring(UnreadableAtTimes())
    queue.publish(1, 10)
    queue.backing.error = Unreadable("no file handle is free")
    queue.advance(100)
    assert queue.expired == []
    queue.backing.error = None
    queue.advance(RETRY_MS)
    assert queue.numbers() == [1]


def test_a_message_that_is_being_read_expires_when_it_has_been_read():
    queue = Expiring(UnreadableAtTimes())
    callbacks = []
    queue.publish(1, 10)
    queue.backing.error = BeingRead("a segment", callbacks.append)
    queue.advance(100)
    queue.backing.error = None
    (callback,) = callbacks
    callback()
    assert queue.numbers() == [1]


def test_messages_of_a_run_expire_in_the_order_of_their_times(queue):
    ttls_ms = [(7 * one) % 50 * 100 for one in range(1, 51)]
    queue.publish_each(0, ttls_ms)
    queue.publish(99, 0)
    queue.advance(5000 + TICK_MS)
    assert queue.numbers() == sorted(range(50), key=lambda one: ttls_ms[one])
    assert queue.backing.ready_count == 1


def test_positions_of_consumed_messages_are_forgotten(queue, monkeypatch):
    monkeypatch.setattr(timely_expiry, "SPARE", 10)
    queue.start()
    queue.publish(0, 0)
    for first in range(1, 10_000, BLOCK):
        queue.publish_each(first, [60_000] * BLOCK)
        queue.backing.fetch(BLOCK, False)
        queue.turns.run()
    assert queue.blocks.count <= 60
    queue.backing.fetch(1, False)
    queue.publish(10_000, 10)
    assert (queue.blocks.count, queue.schedule.count) == (1, 0)


def test_messages_of_a_block_are_added_to_the_schedule_when_the_first_of_them_expires(queue):
    first = 10
    queue.publish_each(0, [60_000] * first)
    queue.publish_each(first, [*range(1000, 1000 + 3 * BLOCK), 61_000])
    assert queue.schedule.count == 0
    assert queue.blocks.count <= 6
    queue.backing.fetch(2, False)
    queue.advance(1000 + 3 * BLOCK + LATE_MS)
    assert queue.numbers() == [*range(first, first + 3 * BLOCK)]
    queue.publish_each(first + 3 * BLOCK + 1, [10, 70_000, 20])
    queue.advance(LATE_MS)
    assert queue.numbers()[-2:] == [first + 3 * BLOCK + 1, first + 3 * BLOCK + 3]
    queue.advance(70_000)
    assert queue.backing.ready_count == 0


class OnDisk(TransientQueue):
    """A queue whose messages are read from disk while `is_paged`."""

    is_paged = False

    def ready_between(self, start, end):
        return None if self.is_paged else super().ready_between(start, end)


def test_blocks_that_went_to_disk_are_read_once_and_later_messages_are_added_one_by_one():
    queue = Expiring(OnDisk())
    queue.publish_each(0, [100 * (one % 7 + 1) for one in range(3 * BLOCK)])
    queue.publish(1000, 0)
    queue.backing.is_paged = True
    queue.advance(100 + LATE_MS)
    assert queue.schedule.count
    queue.publish_each(2000, [50, 100])
    assert sorted(queue.numbers()) == [one for one in range(3 * BLOCK) if one % 7 == 0]
    queue.advance(700 + LATE_MS)
    assert queue.backing.ready_count == 1
    queue.backing.fetch(1, False)
    queue.backing.is_paged = False
    queue.publish(3000, 10)
    assert (queue.blocks.count, queue.schedule.count) == (1, 0)


def test_nothing_expires_after_the_end(queue):
    queue.publish(1, 10)
    queue.timely.close()
    queue.advance(100)
    assert queue.expired == []


steps = st.lists(
    st.one_of(
        st.tuples(st.just("publish"), st.integers(0, 600)),
        st.tuples(st.just("advance"), st.integers(1, 250)),
        st.tuples(st.just("fetch"), st.integers(1, 3)),
        st.tuples(st.just("requeue"), st.just(0)),
        st.tuples(st.just("restart"), st.just(0)),
    ),
    max_size=60,
)


@given(steps, st.sampled_from([1, 3, 1000]), st.booleans())
@settings(deadline=None, max_examples=150)
def test_each_message_expires_once_at_its_time_unless_it_is_held_or_consumed(
    steps, times_max, has_levels
):
    backing = TransientQueue()
    if has_levels:
        backing = PriorityQueue(priority_levels(3), lambda level: TransientQueue())
    queue = Expiring(backing, times_max)
    # When each message may expire, and when it was ready last.
    due, ready_ms, held = {}, {}, []
    for name, value in steps:
        if name == "publish":
            number = len(due)
            due[number] = queue.clock.now_ms() + value if value else None
            ready_ms[number] = queue.clock.now_ms()
            queue.publish(number, value)
        elif name == "advance":
            queue.advance(value)
        elif name == "fetch":
            held += queue.backing.fetch(value, True)
        elif name == "requeue":
            queue.backing.requeue(held)
            queue.timely.requeued(held)
            ready_ms |= {int(one.message.body): queue.clock.now_ms() for one in held}
            held = []
        else:
            queue.timely.close()
            queue.start()
        queue.turns.run()
        held_now = {int(entry.message.body) for entry in held}
        now_ms = queue.clock.now_ms()
        over = {
            number: max(at_ms, ready_ms[number])
            for number, at_ms in due.items()
            if at_ms is not None and at_ms <= now_ms and number not in held_now
        }
        late = {number for number, at_ms in over.items() if at_ms + LATE_MS <= now_ms}
        assert set(queue.numbers()) <= over.keys()
        assert late <= set(queue.numbers()), "TE3: a block, or its messages, are due in time"
        assert max(Counter(queue.numbers()).values(), default=1) == 1, "TE1"
        assert all(at_ms >= due[number] for at_ms, number in queue.expired), "TE2"
        assert queue.backing.ready_count == len(due) - len(queue.expired) - len(held)
        assert queue.backing.unacked_count == len(held)
