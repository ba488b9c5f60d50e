"""A queue in memory. tests/storage/backing_contract has the contract in any order of calls."""

from leveret.storage.messages.message import Entry, Message
from leveret.storage.messages.message_run import run_of
from leveret.storage.queue.transient_queue import TransientQueue
from tests.storage.reading import ready_entries
from tests.unit.storage.fakes import ADDRESS


def message(body):
    return Message(ADDRESS, None, body)


def queue_with(*bodies, expires_at_ms=0):
    queue = TransientQueue()
    if bodies:
        queue.publish(run_of([message(body) for body in bodies]), expires_at_ms)
    return queue


def bodies(entries):
    return [entry.message.body for entry in entries]


def test_an_empty_queue():
    queue = TransientQueue()
    assert queue.peek() is None
    assert queue.fetch(5, True) == []
    assert ready_entries(queue) == []
    assert queue.purge().dropped == 0


def test_messages_come_in_the_order_in_which_they_were_published():
    queue = queue_with(b"1", b"2")
    queue.publish(run_of([message(b"3")]), 0)
    assert bodies(ready_entries(queue)) == [b"1", b"2", b"3"]
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


def test_messages_fetched_without_ack_are_gone():
    queue = queue_with(b"1", b"22")
    queue.fetch(2, False)
    assert (queue.ready_count, queue.ready_bytes) == (0, 0)
    assert (queue.unacked_count, queue.unacked_bytes) == (0, 0)


def test_counts_of_entries_and_bytes():
    queue = queue_with(b"1", b"22", b"333")
    first, second = queue.fetch(2, True)
    assert (queue.ready_count, queue.ready_bytes) == (1, 3)
    assert (queue.unacked_count, queue.unacked_bytes) == (2, 3)
    queue.ack([first])
    assert (queue.unacked_count, queue.unacked_bytes) == (1, 2)
    queue.requeue([second])
    assert (queue.ready_count, queue.ready_bytes) == (2, 5)
    assert (queue.unacked_count, queue.unacked_bytes) == (0, 0)


def test_requeued_messages_go_back_to_their_place():
    queue = queue_with(b"1", b"2", b"3", b"4")
    one, two, three = queue.fetch(3, True)
    queue.requeue([three])
    assert bodies(ready_entries(queue)) == [b"3", b"4"]
    queue.requeue([one])
    assert queue.peek() is one
    queue.requeue([two])
    assert bodies(ready_entries(queue)) == [b"1", b"2", b"3", b"4"]
    assert [entry.redelivered for entry in ready_entries(queue)] == [True, True, True, False]
    assert bodies(queue.fetch(4, True)) == [b"1", b"2", b"3", b"4"]


def test_drop_takes_the_head_for_good():
    queue = queue_with(b"1", b"22")
    assert queue.drop().message.body == b"1"
    (entry,) = queue.fetch(1, True)
    queue.requeue([entry])
    assert queue.drop() is entry
    assert (queue.ready_count, queue.unacked_count) == (0, 0)


def test_a_purge_leaves_unacked_messages():
    queue = queue_with(b"1", b"2", b"3", b"4")
    one, two = queue.fetch(2, True)
    queue.requeue([two])
    assert queue.purge().dropped == 3
    assert (queue.ready_count, queue.ready_bytes, queue.unacked_count) == (0, 0, 1)
    queue.requeue([one])
    assert queue.fetch(9, True) == [one]


def test_entries_are_taken_out_of_the_middle_and_put_back():
    queue = queue_with(b"1", b"2", b"3", b"4")
    _, two, _, four = ready_entries(queue)
    taken = queue.take([two, four, Entry(four.message, 9)])
    assert bodies(taken) == [b"2", b"4"]
    assert (queue.ready_count, queue.unacked_count) == (2, 2)
    queue.requeue(taken, redelivered=False)
    assert bodies(ready_entries(queue)) == [b"1", b"2", b"3", b"4"]
    assert not any(entry.redelivered for entry in queue.fetch(4, True))


def test_it_is_as_safe_as_it_will_be_at_once():
    confirmed = []
    queue = queue_with()
    assert not queue.publish(run_of([message(b"1")]), 0)
    queue.when_safe(Confirmed(confirmed), 7, queue)
    assert confirmed == [7]


class Confirmed:
    def __init__(self, numbers):
        self.confirm = lambda sequence, *holder: numbers.append(sequence)
