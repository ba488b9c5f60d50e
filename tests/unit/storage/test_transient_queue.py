"""Messages in memory, in their order."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from storage.message import Message
from storage.transient_queue import TransientQueue


def message(body):
    return Message(None, None, body)


def queue_with(*bodies, expires_at_ms=0):
    queue = TransientQueue()
    if bodies:
        queue.publish([message(body) for body in bodies], sum(map(len, bodies)), expires_at_ms)
    return queue


def bodies(entries):
    return [entry.message.body for entry in entries]


def test_an_empty_queue():
    queue = TransientQueue()
    assert queue.peek() is None
    assert queue.fetch(5, True) == []
    assert list(queue.entries()) == []
    assert queue.purge() == 0


def test_messages_come_in_the_order_in_which_they_were_published():
    queue = queue_with(b"1", b"2")
    queue.publish([message(b"3")], 1, 0)
    assert bodies(queue.entries()) == [b"1", b"2", b"3"]
    assert bodies(queue.fetch(2, True)) == [b"1", b"2"]
    assert bodies(queue.fetch(9, True)) == [b"3"]


def test_entries_know_when_they_expire():
    queue = queue_with(b"1", expires_at_ms=99)
    assert queue.peek().expires_at_ms == 99
    assert not queue.peek().redelivered


def test_peek_takes_nothing():
    queue = queue_with(b"1")
    assert queue.peek() is queue.peek()
    assert queue.ready_count == 1


def test_what_is_fetched_without_ack_is_gone():
    queue = queue_with(b"1", b"22")
    queue.fetch(2, False)
    assert (queue.ready_count, queue.ready_bytes) == (0, 0)
    assert (queue.unacked_count, queue.unacked_bytes) == (0, 0)


def test_counts_of_entries_and_bytes():
    queue = queue_with(b"1", b"22", b"333")
    first, second = queue.fetch(2, True)
    assert (queue.ready_count, queue.ready_bytes) == (1, 3)
    assert (queue.unacked_count, queue.unacked_bytes) == (2, 3)
    queue.ack(first)
    assert (queue.unacked_count, queue.unacked_bytes) == (1, 2)
    queue.requeue([second])
    assert (queue.ready_count, queue.ready_bytes) == (2, 5)
    assert (queue.unacked_count, queue.unacked_bytes) == (0, 0)


def test_what_is_requeued_goes_back_to_its_place():
    queue = queue_with(b"1", b"2", b"3", b"4")
    one, two, three = queue.fetch(3, True)
    queue.requeue([three])
    assert bodies(queue.entries()) == [b"3", b"4"]
    queue.requeue([one])
    assert queue.peek() is one
    queue.requeue([two])
    assert bodies(queue.entries()) == [b"1", b"2", b"3", b"4"]
    assert [entry.redelivered for entry in queue.entries()] == [True, True, True, False]
    assert bodies(queue.fetch(4, True)) == [b"1", b"2", b"3", b"4"]


def test_drop_takes_the_head_for_good():
    queue = queue_with(b"1", b"22")
    assert queue.drop().message.body == b"1"
    (entry,) = queue.fetch(1, True)
    queue.requeue([entry])
    assert queue.drop() is entry
    assert (queue.ready_count, queue.unacked_count) == (0, 0)


def test_purge_leaves_what_is_unacked():
    queue = queue_with(b"1", b"2", b"3", b"4")
    one, two = queue.fetch(2, True)
    queue.requeue([two])
    assert queue.purge() == 3
    assert (queue.ready_count, queue.ready_bytes, queue.unacked_count) == (0, 0, 1)
    queue.requeue([one])
    assert queue.fetch(9, True) == [one]


class AnyOrder(RuleBasedStateMachine):
    """Whatever happens in whatever order, the queue is a sorted list of numbered messages."""

    def __init__(self):
        super().__init__()
        self.queue = TransientQueue()
        self.published = 0
        self.ready = []
        self.unacked = {}
        self.redelivered = set()

    def number(self, entry):
        """A message's number is in its body; so is what makes its size its own."""
        body = entry.message.body
        number = int(body.split(b":")[0])
        assert entry.redelivered == (number in self.redelivered)
        return number

    @rule(sizes=st.lists(st.integers(0, 20), min_size=1, max_size=5))
    def publish(self, sizes):
        numbers = range(self.published, self.published + len(sizes))
        messages = [
            message(b"%d:" % number + b"x" * size)
            for number, size in zip(numbers, sizes, strict=True)
        ]
        self.queue.publish(messages, sum(len(one.body) for one in messages), 0)
        self.ready += numbers
        self.published += len(sizes)

    @rule(count=st.integers(1, 8), ack_required=st.booleans())
    def fetch(self, count, ack_required):
        entries = self.queue.fetch(count, ack_required)
        expected, self.ready = self.ready[:count], self.ready[count:]
        assert [self.number(entry) for entry in entries] == expected
        if ack_required:
            self.unacked.update(zip(expected, entries, strict=True))

    @rule(data=st.data())
    def ack(self, data):
        if self.unacked:
            number = data.draw(st.sampled_from(sorted(self.unacked)))
            self.queue.ack(self.unacked.pop(number))

    @rule(data=st.data())
    def requeue(self, data):
        if self.unacked:
            numbers = data.draw(st.lists(st.sampled_from(sorted(self.unacked)), unique=True))
            self.queue.requeue([self.unacked.pop(number) for number in numbers])
            self.redelivered.update(numbers)
            self.ready = sorted(self.ready + numbers)

    @rule()
    def drop(self):
        if self.ready:
            assert self.number(self.queue.drop()) == self.ready.pop(0)

    @rule()
    def purge(self):
        assert self.queue.purge() == len(self.ready)
        self.ready = []

    @invariant()
    def the_queue_is_what_it_should_be(self):
        queue = self.queue
        entries = list(queue.entries())
        assert [self.number(entry) for entry in entries] == self.ready
        assert queue.peek() is (entries[0] if entries else None)
        assert queue.ready_count == len(self.ready)
        assert queue.ready_bytes == sum(len(entry.message.body) for entry in entries)
        assert queue.unacked_count == len(self.unacked)
        unacked_bytes = sum(len(entry.message.body) for entry in self.unacked.values())
        assert queue.unacked_bytes == unacked_bytes


TestAnyOrder = AnyOrder.TestCase
TestAnyOrder.settings = settings(
    max_examples=60, stateful_step_count=40, deadline=None, database=None, derandomize=True
)
