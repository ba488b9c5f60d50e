"""A classic queue is held on its node, and copied to a quorum queue: what clients have stays."""

import asyncio

import pytest

from leveret.broker.sessions.unacked_record import Unacked
from leveret.cluster.quorum.conversion.home_hold import restored_hold
from leveret.cluster.quorum.machine.commands import Tick
from leveret.cluster.rpc.refused import Refused
from tests.unit.broker.queues.fakes import FakeConsumer, declared, publish, subscribed
from tests.unit.cluster.quorum.conversion.converted_node import Node
from tests.unit.cluster.quorum.group_of_one import LimitedConsumer


@pytest.fixture
def node():
    return Node()


def test_messages_are_copied_in_order_with_those_that_clients_hold(node):
    publish(node.queue, *[b"%d" % number for number in range(1, 1201)])
    first, second, third = node.take(3)
    node.copy()
    assert (node.use.figures.ready, node.use.figures.unacked) == (1197, 3)
    first.queue.ack([first.entry])
    node.replace()
    assert node.use.figures.unacked == 2
    second.queue.ack([second.entry])
    assert node.left[:2] == [b"4", b"5"]
    third.queue.requeue([third.entry], True)
    consumer = node.use.consuming(LimitedConsumer("late", 2000))
    assert consumer.bodies[0] == b"3"
    assert node.use.figures.unacked == 1198


def test_clients_of_other_nodes_settle_at_the_successor(node):
    publish(node.queue, b"1", b"2")
    (record,) = node.take(1)
    node.clients.records.clear()
    node.clients.hosted = [record.entry]
    node.copy()
    node.replace()
    assert node.clients.replaced_by == [node.hold.held, node.successor]
    node.successor.ack(node.clients.hosted)
    node.use.settle()
    assert (node.use.figures.ready, node.use.figures.unacked) == (1, 0)


def test_a_consumer_goes_on(node):
    publish(node.queue, b"1", b"2", b"3")
    consumer = LimitedConsumer(prefetch=1)
    consumer.credit = 1
    node.clients.consumers.append(subscribed(node.queue, consumer))
    node.vhost.turns.run()
    (entry,) = consumer.entries
    node.clients.records.append(Unacked(entry, node.queue, None, 0))
    node.copy()
    node.replace()
    assert consumer.bodies == [b"1"]
    node.clients.records[0].queue.ack([entry])
    consumer.credit += 1
    consumer.queue.credit(consumer)
    node.use.settle()
    assert consumer.bodies == [b"1", b"2"]


def test_a_queue_that_is_not_replaced_is_as_it_was(node):
    publish(node.queue, b"1", b"2", b"3")
    (record,) = node.take(1)
    consumer = FakeConsumer(credit=0)
    node.clients.consumers.append(subscribed(node.queue, consumer))
    node.copy()
    publish(node.vhost.queues["q"], b"4")
    assert node.queue.backing.ready_count == 2
    node.hold.end()
    assert node.vhost.queues["q"] is record.queue is consumer.queue is node.queue
    record.queue.requeue([record.entry])
    consumer.credit = 9
    node.queue.credit(consumer)
    node.vhost.turns.run()
    assert consumer.bodies == [b"1", b"2", b"3", b"4"]
    assert [entry.redelivered for entry in consumer.entries] == [True, False, False, False]


def test_a_message_that_nobody_is_known_to_hold_is_not_lost(node):
    publish(node.queue, b"1", b"2")
    node.take(1)
    node.clients.records.clear()
    node.hold.begin()
    with pytest.raises(Refused, match="just being returned"):
        node.hold.freeze(node.clients, node.messages)
    node.hold.end()
    assert (node.queue.backing.ready_count, node.queue.backing.unacked_count) == (1, 1)


def test_a_queue_that_was_deleted_and_declared_again_is_not_held(node):
    again = node.vhost.queues["q"] = declared(node.vhost)
    with pytest.raises(Refused, match="was deleted"):
        node.hold.begin()
    node.hold.end()
    assert node.vhost.queues["q"] is again


def test_nothing_expires_between_the_copy_and_the_change_of_the_name(node):
    publish(node.queue, b"short", ttl_ms=5000)
    publish(node.queue, b"long", ttl_ms=60_000)
    publish(node.queue, b"stays")
    node.copy()
    node.vhost.clock.advance(5.001)
    node.vhost.turns.run()
    node.use.group.propose(Tick())
    assert (node.use.figures.ready, node.queue.backing.ready_count) == (3, 3)
    node.replace()
    assert (node.use.figures.ready, node.vhost.dead) == (2, [])
    node.vhost.clock.advance(55)
    node.use.group.propose(Tick())
    assert node.left == [b"stays"]


def test_messages_expire_again_in_a_queue_that_is_not_replaced(node):
    publish(node.queue, b"short", ttl_ms=5000)
    publish(node.queue, b"long", ttl_ms=60_000)
    node.copy()
    node.vhost.clock.advance(6)
    node.hold.end()
    assert node.queue.backing.ready_count == 1
    node.vhost.clock.advance(55)
    assert node.queue.backing.ready_count == 0


def test_nothing_expires_in_a_queue_that_is_held_from_the_start_of_its_node_on(node):
    publish(node.queue, b"short", ttl_ms=5000)
    hold = restored_hold(node.vhost, node.queue)
    hold.begin()
    node.vhost.clock.advance(6)
    assert node.queue.backing.ready_count == 1
    hold.end()
    assert node.queue.backing.ready_count == 0


def test_a_successor_that_ends_does_not_take_the_messages(node):
    publish(node.queue, b"1")
    node.use.group.stop_leading()

    async def copy():
        copying = asyncio.ensure_future(node.copying.add(node.messages.read(0), 1))
        copying.add_done_callback(lambda _: None)
        await asyncio.sleep(0)
        node.successor.close()
        await node.copying._confirmed(0)

    with pytest.raises(Refused, match="does not take the messages"):
        node.run(copy())
