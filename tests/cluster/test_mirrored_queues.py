"""Mirrored queues of real nodes: policies, deaths of leaders, power cuts, clients that stay."""

import signal

import pika
import pytest

from tests.cluster.clustered_nodes import queues
from tests.cluster.publisher import PERSISTENT

HA_ALL = ("set_policy", "ha", "^mirrored", '{"ha-mode": "all"}')


@pytest.fixture
def nodes(running):
    """Three nodes with a policy for queues whose name begins with `mirrored`."""
    nodes = running("a", "b", "c")
    nodes[0].ctl(*HA_ALL)
    return nodes


def declared(node, queue="mirrored"):
    """A channel with confirms on which the queue was declared."""
    channel = node.connect().channel()
    channel.confirm_delivery()
    channel.queue_declare(queue, durable=True)
    return channel


def publish(channel, *bodies, queue="mirrored"):
    for body in bodies:
        channel.basic_publish("", queue, body, PERSISTENT, mandatory=True)


def wait_until_synchronised(leader, *others, queue="mirrored"):
    what = f"mirrored queue '{queue}' in vhost '/': the mirror on node"
    for node in others:
        leader.wait_for_log(f"{what} {node.name} is synchronised")


def consumed(node, count, queue="mirrored"):
    """The first so many messages: bodies, and whether they are redelivered."""
    with node.connect() as connection:
        channel = connection.channel()
        found = []
        while len(found) < count:
            method, _, body = next(channel.consume(queue))
            found.append((body, method.redelivered))
            channel.basic_ack(method.delivery_tag)
        return found


def test_what_was_confirmed_survives_its_leader(nodes):
    a, b, c = nodes
    channel = declared(b)
    wait_until_synchronised(b, a, c)
    publish(channel, b"1", b"2", b"3")
    held = c.connect().channel().basic_get("mirrored")
    assert held[2] == b"1"
    b.stop(signal.SIGKILL)
    assert consumed(c, 3) == [(b"1", True), (b"2", False), (b"3", False)]


def test_a_consumer_and_a_publisher_go_on_with_the_next_leader(nodes):
    a, b, c = nodes
    publisher = declared(a)
    declared(b)
    wait_until_synchronised(a, b, c)
    through_b = b.connect().channel()
    through_b.confirm_delivery()
    consumer = c.connect().channel()
    consumed = []

    def take(_channel, method, _properties, body):
        consumed.append(body)
        consumer.basic_ack(method.delivery_tag)

    consumer.basic_consume("mirrored", take)
    publish(publisher, b"1", b"2")
    a.stop(signal.SIGKILL)
    publish(through_b, b"3", b"4")
    while len(set(consumed)) < 4:
        consumer.connection.process_data_events(1)
    assert [*dict.fromkeys(consumed)] == [b"1", b"2", b"3", b"4"]


def test_a_queue_in_use_begins_to_be_mirrored(nodes):
    a, b, c = nodes
    there = declared(a, "mirrored-later")
    declared(a, "other")
    with a.connect() as connection:
        connection.channel().exchange_declare("x", "topic", durable=True)
        connection.channel().queue_bind("other", "x", "#.other")
    publish(there, b"1", b"2", b"3", queue="other")
    own, far = a.connect().channel(), b.connect().channel()
    assert own.basic_get("other")[2] == b"1"
    assert far.basic_get("other")[2] == b"2"
    a.ctl("set_policy", "more", "^other$", '{"ha-mode": "all", "ha-sync-mode": "automatic"}')
    for node in (b, c):
        a.wait_for_log(f"mirrored queue 'other' in vhost '/': adding a mirror on node {node.name}")
    own.basic_ack(1)
    with c.connect() as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.basic_publish("x", "an.other", b"4", PERSISTENT, mandatory=True)
    far.connection.close()
    assert consumed(c, 3, "other") == [(b"2", True), (b"3", False), (b"4", False)]


def test_all_nodes_lose_power(nodes):
    a, b, c = nodes
    channel = declared(b)
    wait_until_synchronised(b, a, c)
    publish(channel, *[b"%d" % number for number in range(100)])
    for node in nodes:
        node.stop(signal.SIGKILL)
    for node in nodes:
        node.start(waits=False)
    for node in nodes:
        node.wait_for_log("ready in")
    assert [body for body, _ in consumed(c, 100)] == [b"%d" % number for number in range(100)]


def test_a_policy_that_goes_leaves_the_queue_with_its_leader(nodes):
    a, b, c = nodes
    channel = declared(b)
    wait_until_synchronised(b, a, c)
    publish(channel, b"1")
    consumer = c.connect().channel()
    assert consumer.basic_get("mirrored")[2] == b"1"
    a.ctl("clear_policy", "ha")
    publish(channel, b"2")
    consumer.basic_ack(1)
    publish(declared(c), b"3")
    assert consumed(a, 2) == [(b"2", False), (b"3", False)]
    b.stop(signal.SIGKILL)
    with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="is down or inaccessible"):
        a.connect().channel().queue_declare("mirrored", passive=True)


def test_a_node_that_returns_mirrors_the_queue_again(nodes):
    a, b, c = nodes
    a.ctl("set_policy", "ha", "^mirrored", '{"ha-mode": "exactly", "ha-params": 2}')
    channel = declared(a)
    publish(channel, b"1")
    a.wait_for_log("adding a mirror")
    first, second = (b, c) if f"adding a mirror on node {b.name}" in a.log else (c, b)
    first.stop(signal.SIGKILL)
    # Another node takes its place, and it has to be dropped again when that is not wanted.
    a.wait_for_log(f"adding a mirror on node {second.name}")
    first.start()
    channel.queue_purge("mirrored")
    wait_until_synchronised(a, second)
    publish(channel, b"2")
    a.stop(signal.SIGKILL)
    assert consumed(first, 1) == [(b"2", False)]


def test_a_queue_is_deleted_on_all_nodes_with_its_last_consumer(nodes):
    a, b, c = nodes
    with c.connect() as connection:
        channel = connection.channel()
        channel.queue_declare("mirrored-auto", auto_delete=True)
        wait_until_synchronised(c, a, b, queue="mirrored-auto")
        channel.basic_publish("", "mirrored-auto", b"1")
        with a.connect() as other:
            consumer = other.channel()
            assert next(consumer.consume("mirrored-auto"))[2] == b"1"
    for node in nodes:
        node.wait_until(lambda one=node: not queues(one), "the queue is deleted")
