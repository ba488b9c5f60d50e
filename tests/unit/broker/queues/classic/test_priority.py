"""Priorities within one queue; tests/storage/backing_contract calls it in any order."""

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


def test_the_highest_priority_comes_first_and_within_it_the_oldest():
    queue = queue_with((b"a", 1), (b"b", 5), (b"c", 1), (b"d", 5))
    assert bodies(ready_entries(queue)) == [b"b", b"d", b"a", b"c"]
    assert queue.peek().message.body == b"b"
    assert bodies(queue.fetch(3, True)) == [b"b", b"d", b"a"]
    assert bodies(queue.fetch(3, True)) == [b"c"]


def test_none_is_0_and_too_much_is_the_maximum():
    queue = queue_with((b"none", None), (b"zero", 0), (b"top", 5), (b"over", 255), priority_max=5)
    assert bodies(queue.fetch(9, True)) == [b"top", b"over", b"none", b"zero"]


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
