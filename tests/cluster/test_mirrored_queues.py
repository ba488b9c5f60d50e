"""Mirrored queues of real nodes: policies, deaths of leaders, power cuts, clients that stay."""

import signal

import pika
import pytest

from tests.cluster.clients import PERSISTENT, serve_until, take
from tests.cluster.clustered_nodes import queues
from tests.cluster.mirrored import (
    consumed,
    declared,
    publish,
    wait_until_mirrored,
    wait_until_synchronised,
)


def test_what_was_confirmed_survives_its_leader(mirroring):
    a, b, c = mirroring
    channel = declared(b)
    wait_until_synchronised(b, a, c)
    publish(channel, b"1", b"2", b"3")
    held = c.connect().channel().basic_get("mirrored")
    assert held[2] == b"1"
    b.stop(signal.SIGKILL)
    assert consumed(c, 3) == [(b"1", True), (b"2", False), (b"3", False)]


def test_a_consumer_and_a_publisher_go_on_with_the_next_leader(mirroring):
    a, b, c = mirroring
    publisher = declared(a)
    declared(b)
    wait_until_synchronised(a, b, c)
    through_b = b.connect().channel()
    through_b.confirm_delivery()
    consumer = c.connect().channel()
    bodies = []

    def note(_channel, method, _properties, body):
        bodies.append(body)
        consumer.basic_ack(method.delivery_tag)

    consumer.basic_consume("mirrored", note)
    publish(publisher, b"1", b"2")
    a.stop(signal.SIGKILL)
    publish(through_b, b"3", b"4")
    serve_until(consumer.connection, lambda: len(set(bodies)) == 4, "it has all messages")
    assert [*dict.fromkeys(bodies)] == [b"1", b"2", b"3", b"4"]


def test_messages_expire_on_time_once_though_the_leader_dies(mirroring):
    a, b, c = mirroring
    channel = b.connect().channel()
    channel.confirm_delivery()
    channel.queue_declare(
        "mirrored",
        durable=True,
        arguments={
            "x-expire-on-time": True, "x-dead-letter-exchange": "",
            "x-dead-letter-routing-key": "mirrored-dead",
        },
    )  # fmt: skip
    channel.queue_declare("mirrored-dead", durable=True)
    wait_until_synchronised(b, a, c)
    wait_until_synchronised(b, a, c, queue="mirrored-dead")
    publish(channel, b"stays")
    for body, ttl_ms in ((b"before", 1), (b"after", 5000)):
        properties = pika.BasicProperties(delivery_mode=2, expiration=str(ttl_ms))
        channel.basic_publish("", "mirrored", body, properties, mandatory=True)
    assert consumed(c, 1, "mirrored-dead") == [(b"before", False)]
    b.stop(signal.SIGKILL)
    # The next leader reads the queue, and expires what the last one did not.
    with c.connect() as connection:
        through_c = connection.channel()
        through_c.confirm_delivery()
        properties = pika.BasicProperties(delivery_mode=2, expiration="1")
        through_c.basic_publish("", "mirrored", b"at c", properties, mandatory=True)
    dead = consumed(a, 2, "mirrored-dead")
    assert sorted(dead) == [(b"after", False), (b"at c", False)]
    assert consumed(a, 1) == [(b"stays", False)]


def test_a_queue_in_use_begins_to_be_mirrored(mirroring):
    a, b, c = mirroring
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
    wait_until_mirrored(a, b, c, queue="other")
    own.basic_ack(1)
    with c.connect() as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.basic_publish("x", "an.other", b"4", PERSISTENT, mandatory=True)
    far.connection.close()
    assert consumed(c, 3, "other") == [(b"2", True), (b"3", False), (b"4", False)]


def test_all_nodes_lose_power(mirroring):
    a, b, c = mirroring
    channel = declared(b)
    wait_until_synchronised(b, a, c)
    publish(channel, *[b"%d" % number for number in range(100)])
    for node in mirroring:
        node.stop(signal.SIGKILL)
    for node in mirroring:
        node.start(waits=False)
    for node in mirroring:
        node.wait_for_log(" ready in")
    assert [body for body, _ in consumed(c, 100)] == [b"%d" % number for number in range(100)]


def test_a_policy_that_goes_leaves_the_queue_with_its_leader(mirroring):
    a, b, c = mirroring
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


def test_a_node_that_returns_mirrors_the_queue_again(mirroring):
    a, b, c = mirroring
    a.ctl("set_policy", "ha", "^mirrored", '{"ha-mode": "exactly", "ha-params": 2}')
    channel = declared(a)
    publish(channel, b"1")
    a.wait_for_log("adding a mirror")
    first, second = (b, c) if f"adding a mirror on node {b.name}" in a.log else (c, b)
    first.stop(signal.SIGKILL)
    # Another node takes its place, and it has to be dropped again when that is not wanted.
    wait_until_mirrored(a, second)
    first.start()
    channel.queue_purge("mirrored")
    wait_until_synchronised(a, second)
    publish(channel, b"2")
    a.stop(signal.SIGKILL)
    assert consumed(first, 1) == [(b"2", False)]
    wait_until_mirrored(second, first)


def test_a_queue_is_deleted_on_all_nodes_with_its_last_consumer(mirroring):
    a, b, c = mirroring
    with c.connect() as connection:
        channel = connection.channel()
        channel.queue_declare("mirrored-auto", auto_delete=True)
        wait_until_synchronised(c, a, b, queue="mirrored-auto")
        channel.basic_publish("", "mirrored-auto", b"1")
        with a.connect() as other:
            assert take(other.channel(), "mirrored-auto", 1) == [(b"1", False)]
    for node in mirroring:
        node.wait_until(lambda one=node: not queues(one), "the queue is deleted")
