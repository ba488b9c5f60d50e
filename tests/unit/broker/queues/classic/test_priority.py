"""Priorities within one queue."""

import pytest

from leveret.broker.amqp.content_header import read_header
from leveret.broker.amqp.properties import encode_properties
from leveret.broker.queues.classic.priority import PriorityQueue
from leveret.broker.queues.contract.priority_levels import priority_levels
from leveret.storage.messages.message import Message
from leveret.storage.messages.message_run import run_of
from leveret.storage.queue.transient_queue import TransientQueue
from tests.storage.reading import ready_entries
from tests.unit.broker.queues.fakes import FakeVhost, declared, got, publish
from tests.unit.storage.fakes import ADDRESS


def message(body, priority=None):
    return Message(ADDRESS, read_header(encode_properties({"priority": priority})), body)


def queue_with(*bodies_and_priorities, priority_max=9):
    """Return a queue to which these were published one by one."""
    queue = PriorityQueue(priority_levels(priority_max), lambda level: TransientQueue())
    for body, priority in bodies_and_priorities:
        queue.publish(run_of([message(body, priority)]), 0)
    return queue


def bodies(entries):
    return [entry.message.body for entry in entries]


def test_an_empty_queue():
    queue = PriorityQueue(priority_levels(9), lambda level: TransientQueue())
    assert queue.peek() is None
    assert queue.fetch(10, True) == []
    assert queue.purge().dropped == 0
    assert (queue.ready_count, queue.ready_bytes) == (0, 0)


def test_the_highest_priority_comes_first_and_within_it_the_oldest():
    queue = queue_with((b"a", 1), (b"b", 5), (b"c", 1), (b"d", 5))
    assert bodies(ready_entries(queue)) == [b"b", b"d", b"a", b"c"]
    assert queue.peek().message.body == b"b"
    assert bodies(queue.fetch(3, True)) == [b"b", b"d", b"a"]
    assert bodies(queue.fetch(3, True)) == [b"c"]


def test_none_is_0_and_too_much_is_the_maximum():
    queue = queue_with((b"none", None), (b"zero", 0), (b"top", 5), (b"over", 255), priority_max=5)
    assert bodies(queue.fetch(9, True)) == [b"top", b"over", b"none", b"zero"]


def test_messages_go_to_their_levels():
    queue = PriorityQueue(priority_levels(9), lambda level: TransientQueue())
    queue.publish(run_of([message(b"low", 1)]), 0)
    queue.publish(run_of([message(b"higher", 2)]), 0)
    queue.publish(run_of([message(b"x", 1), message(b"yz", 1)]), 0)
    assert bodies(ready_entries(queue)) == [b"higher", b"low", b"x", b"yz"]
    assert (queue.ready_count, queue.ready_bytes) == (4, 12)


def test_it_counts_over_all_levels():
    queue = queue_with((b"a", 1), (b"bb", 5), (b"ccc", 3))
    entries = queue.fetch(2, True)
    assert (queue.ready_count, queue.ready_bytes) == (1, 1)
    assert (queue.unacked_count, queue.unacked_bytes) == (2, 5)
    queue.ack([entries[0]])
    assert (queue.unacked_count, queue.unacked_bytes) == (1, 3)
    queue.requeue([entries[1]])
    assert (queue.unacked_count, queue.ready_count, queue.ready_bytes) == (0, 2, 4)


def test_without_acks_nothing_is_unacked():
    queue = queue_with((b"a", 1), (b"bb", 5))
    queue.fetch(2, False)
    assert (queue.unacked_count, queue.ready_count) == (0, 0)


def test_a_requeued_message_goes_back_to_its_place_in_its_level():
    queue = queue_with((b"a", 1), (b"b", 5), (b"c", 1), (b"d", 5))
    entries = queue.fetch(4, True)
    queue.requeue([entries[2], entries[1], entries[0]])
    assert bodies(ready_entries(queue)) == [b"b", b"d", b"a"]
    assert all(entry.redelivered for entry in ready_entries(queue))


def test_drop_and_purge():
    queue = queue_with((b"a", 1), (b"b", 5), (b"c", 1))
    assert queue.drop().message.body == b"b"
    assert queue.purge().dropped == 2
    assert queue.ready_count == 0
    assert ready_entries(queue) == []


def test_the_oldest_of_all_priorities_is_the_queues_oldest():
    vhost = FakeVhost()
    queue = declared(vhost, x_max_priority=9)
    assert queue.figures.ages().oldest_ready_ms is None
    for priority in (1, 9):
        publish(queue, b"x", header=read_header(encode_properties({"priority": priority})))
        vhost.clock.advance(5)
        vhost.turns.now_ms = vhost.clock.now_ms()
    assert queue.figures.ages().oldest_ready_ms == pytest.approx(10_000, abs=2)
    assert [head.priority for head in queue.backing.heads()] == [9, 1]
    got(queue, ack_required=False)
    assert queue.figures.ages().oldest_ready_ms == pytest.approx(10_000, abs=2)
