"""A memory alarm blocks publishers only."""

import socket
import struct

import pytest
from pamqp import commands

from leveret.broker.amqp.frames import HEARTBEAT
from tests.protocol.raw_client import (
    connection_count,
    method_bytes,
    opened,
    publish_bytes,
    side_of_broker,
    wait_until,
    wait_until_read,
)

RESET = struct.pack("ii", 1, 0)
"""SO_LINGER of socket(7): what is unsent is dropped, and the other side gets a reset."""


@pytest.fixture
def consumer(broker):
    """A client that never publishes."""
    with opened(broker) as client:
        client.declare("q")
        client.consume("q", no_ack=True)
        yield client


def bytes_in(broker, client):
    return broker.call(lambda embedded: side_of_broker(embedded, client).bytes_in)


def test_a_publisher_is_told_once_it_publishes_and_read_again_afterwards(broker, consumer, caplog):
    with opened(broker) as publisher:
        broker.block_publishers()
        publisher.declare("unheard of")

        publisher.publish(1, "q", b"first")
        blocked = publisher.read_method(0, commands.Connection.Blocked)
        assert blocked.reason == "low on memory"

        read = bytes_in(broker, publisher)
        publisher.publish(1, "q", b"second")
        publisher.publish(1, "q", b"third")
        for _ in range(10):
            assert consumer.declare("q").message_count == 0
        assert bytes_in(broker, publisher) == read

        broker.unblock_publishers()
        publisher.read_method(0, commands.Connection.Unblocked)
        assert consumer.read_content(1, commands.Basic.Deliver).body == b"first"
        assert consumer.read_content(1, commands.Basic.Deliver).body == b"second"
        assert consumer.read_content(1, commands.Basic.Deliver).body == b"third"
        publisher.declare("heard of")
    assert [line for line in caplog.messages if publisher.name in line and "low on memory" in line]


def test_one_that_connects_during_an_alarm_is_blocked_when_it_publishes(broker):
    broker.block_publishers()
    with opened(broker) as publisher:
        publisher.declare("q")
        publisher.publish(1, "q", b"x")
        publisher.read_method(0, commands.Connection.Blocked)
        broker.unblock_publishers()
        publisher.read_method(0, commands.Connection.Unblocked)


def test_nothing_gets_in_by_connecting_again_for_each_message(broker):
    with opened(broker) as client:
        client.declare("q")
    broker.block_publishers()
    for _ in range(3):
        with opened(broker) as publisher:
            publisher.publish(1, "q", b"x")
            publisher.read_method(0, commands.Connection.Blocked)
    assert broker.queue_length("q") == 0


def test_what_follows_a_blocked_publish_waits_with_it_and_in_order(broker, consumer):
    with opened(broker) as publisher:
        broker.block_publishers()
        publisher.send(
            b"".join(publish_bytes(1, "q", b"%d" % number) for number in range(5))
            + method_bytes(1, commands.Queue.Declare, queue="late")
            + publish_bytes(1, "late", b"x")
        )
        publisher.read_method(0, commands.Connection.Blocked)
        wait_until_read(broker, publisher)
        assert consumer.declare("q").message_count == 0
        assert "late" not in broker.call(
            lambda embedded: embedded.broker.services.vhosts["/"].queues
        )
        broker.unblock_publishers()
        publisher.read_method(0, commands.Connection.Unblocked)
        publisher.read_method(1, commands.Queue.DeclareOk)
        for number in range(5):
            assert consumer.read_content(1, commands.Basic.Deliver).body == b"%d" % number
        assert publisher.get("late") == b"x"


def test_a_message_in_several_chunks_blocks_too(broker):
    broker.block_publishers()
    with opened(broker, frame_max=4096) as publisher:
        publisher.declare("q")
        publisher.publish(1, "q", bytes(10_000))
        publisher.read_method(0, commands.Connection.Blocked)
        broker.unblock_publishers()
        publisher.read_method(0, commands.Connection.Unblocked)
        assert publisher.get("q") == bytes(10_000)


def test_a_blocked_client_may_answer_connection_close(timeless):
    with opened(timeless) as publisher:
        publisher.declare("q")
        timeless.block_publishers()
        publisher.publish(1, "q", b"x")
        publisher.read_method(0, commands.Connection.Blocked)
        timeless.call(lambda embedded: side_of_broker(embedded, publisher).force_close("enough"))
        publisher.read_method(0, commands.Connection.Close)
        publisher.send_method(0, commands.Connection.CloseOk)
        wait_until(lambda: connection_count(timeless) == 0)


def test_nothing_is_said_after_connection_close(broker):
    with opened(broker) as publisher:
        publisher.declare("q")
        broker.block_publishers()
        publisher.publish(1, "q", b"x")
        publisher.read_method(0, commands.Connection.Blocked)
        broker.call(lambda embedded: side_of_broker(embedded, publisher).force_close("enough"))
        publisher.read_method(0, commands.Connection.Close)
        broker.unblock_publishers()
        publisher.send_method(0, commands.Connection.CloseOk)
        assert publisher.read_end() == b""


def test_consumers_go_on(broker, consumer):
    with opened(broker) as other:
        other.declare("full")
        for number in range(3):
            other.publish(1, "full", b"%d" % number)
        other.declare("full")
        broker.block_publishers()
        consumer.consume("full", consumer_tag="late")
        for number in range(3):
            message = consumer.read_content(1, commands.Basic.Deliver)
            assert message.body == b"%d" % number
            consumer.send_method(1, commands.Basic.Ack, delivery_tag=number + 1)
        assert consumer.declare("full").message_count == 0
        # It has not published since the alarm, so it is not blocked.
        other.declare("another")


def test_one_without_the_capability_is_held_back_without_a_word(broker, consumer):
    with opened(broker, capabilities=()) as publisher:
        broker.block_publishers()
        publisher.publish(1, "q", b"first")
        wait_until_read(broker, publisher)
        read = bytes_in(broker, publisher)
        publisher.publish(1, "q", b"second")
        for _ in range(10):
            assert consumer.declare("q").message_count == 0
        assert bytes_in(broker, publisher) == read
        broker.unblock_publishers()
        assert consumer.read_content(1, commands.Basic.Deliver).body == b"first"
        assert consumer.read_content(1, commands.Basic.Deliver).body == b"second"
        publisher.declare("q")


def test_an_alarm_that_comes_and_goes_in_between_is_not_noticed(broker):
    with opened(broker) as publisher:
        publisher.declare("q")
        broker.block_publishers()
        broker.unblock_publishers()
        publisher.publish(1, "q", b"x")
        assert publisher.declare("q").message_count == 1


def test_the_silence_of_a_blocked_client_is_not_held_against_it(timeless):
    with opened(timeless, heartbeat=10) as publisher:
        publisher.declare("q")
        timeless.block_publishers()
        publisher.publish(1, "q", b"x")
        publisher.read_method(0, commands.Connection.Blocked)
        for _ in range(10):
            timeless.advance(10)
        assert publisher.read_frame().kind == HEARTBEAT
        assert connection_count(timeless) == 1
        timeless.unblock_publishers()
        publisher.read_method(0, commands.Connection.Unblocked)
        publisher.declare("q")
        wait_until_read(timeless, publisher)
        timeless.advance(40)
        wait_until(lambda: connection_count(timeless) == 0)


@pytest.mark.parametrize("resets", [False, True], ids=["killed", "reset"])
def test_a_blocked_client_that_ends_is_gone_though_it_has_no_heartbeats(broker, resets):
    with opened(broker, heartbeat=0) as stays, opened(broker, heartbeat=0) as publisher:
        stays.declare("q")
        broker.block_publishers()
        for client, queue in ((stays, "q"), (publisher, "other")):
            client.publish(1, queue, b"first")
            client.read_method(0, commands.Connection.Blocked)
            client.publish(1, queue, b"is not read")
        if resets:
            publisher.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        publisher.socket.close()
        wait_until(lambda: connection_count(broker) == 1)
        broker.unblock_publishers()
        stays.read_method(0, commands.Connection.Unblocked)
        assert stays.declare("q").message_count == 2


def test_sockets_are_watched_only_while_they_are_not_read(broker):
    def watched():
        return broker.call(lambda embedded: len(embedded.broker.services.unread_sockets))

    with opened(broker) as publisher:
        broker.block_publishers()
        publisher.publish(1, "q", b"x")
        publisher.read_method(0, commands.Connection.Blocked)
        assert watched() == 1
        broker.unblock_publishers()
        publisher.read_method(0, commands.Connection.Unblocked)
        assert watched() == 0
