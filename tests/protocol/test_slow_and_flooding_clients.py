"""Clients that read too slowly, write too fast, or vanish do not affect others."""

import threading

import pytest
from pamqp import commands

from leveret.broker.amqp.content import header_frame
from leveret.broker.amqp.frames import BODY, METHOD, encode_frame
from leveret.broker.protocols.ending import GONE
from tests.protocol.raw_client import (
    RawClient,
    connection_count,
    method_bytes,
    opened,
    publish_bytes,
    side_of_broker,
    wait_until,
    wait_until_read,
)

SMALL_BUFFER_BYTES = 64 * 1024
LARGE_BODY_BYTES = 100_000
LARGE_BODIES = 500
UNSENT_BYTES_MAX = 4 * 1024 * 1024


def unsent_bytes(broker, client):
    """Return the bytes for a client that the operating system has not accepted yet."""

    def look(embedded):
        output = side_of_broker(embedded, client).output
        return output._transport.get_write_buffer_size() + output.gathered_bytes

    return broker.call(look)


def bytes_in(broker, client):
    """Return the bytes that the broker has read from a client."""
    return broker.call(lambda embedded: side_of_broker(embedded, client).bytes_in)


def numbered(number):
    """Return a large unique body."""
    return number.to_bytes(4, "big") + bytes(LARGE_BODY_BYTES - 4)


@pytest.mark.parametrize("no_ack", [True, False])
def test_a_consumer_that_stops_reading(no_ack, broker):
    slow = RawClient(broker, receive_buffer_bytes=SMALL_BUFFER_BYTES).open().open_channel()
    with slow, opened(broker) as quick, opened(broker) as publisher:
        slow.declare("slow")
        slow.consume("slow", no_ack=no_ack)
        quick.declare("quick")
        quick.consume("quick", no_ack=True)

        most = 0
        for number in range(LARGE_BODIES):
            publisher.publish(1, "slow", numbered(number))
            if number % 50 == 49:
                publisher.declare("slow")
                most = max(most, unsent_bytes(broker, slow))
        assert 0 < most <= UNSENT_BYTES_MAX
        assert broker.queue_length("slow") > LARGE_BODIES // 2

        # While the slow client still has not read anything; every read has a deadline.
        publisher.publish(1, "quick", b"meanwhile")
        assert quick.read_content(1, commands.Basic.Deliver).body == b"meanwhile"

        for number in range(LARGE_BODIES):
            message = slow.read_content(1, commands.Basic.Deliver)
            assert message.body == numbered(number)
            assert message.method.delivery_tag == number + 1
        assert broker.queue_length("slow") == 0


def test_one_that_gets_but_does_not_read_is_a_burden_to_itself_only(broker):
    slow = RawClient(broker, receive_buffer_bytes=SMALL_BUFFER_BYTES).open().open_channel()
    with slow, opened(broker) as other:
        slow.declare("q")
        slow.publish(1, "q", bytes(LARGE_BODY_BYTES))
        get = method_bytes(1, commands.Basic.Get, queue="q")
        nack = method_bytes(1, commands.Basic.Recover, requeue=True)
        slow.send((get + nack) * 50)
        wait_until_read(broker, slow)
        other.declare("elsewhere")
        for _ in range(50):
            assert len(slow.read_content(1, commands.Basic.GetOk).body) == LARGE_BODY_BYTES
            slow.read_method(1, commands.Basic.RecoverOk)


def test_a_flooding_publisher_does_not_stop_the_others(broker):
    flood = b"".join(publish_bytes(1, "flood", b"%d" % number) for number in range(20_000))
    is_enough = threading.Event()

    def pour(client):
        client.send(flood)
        while not is_enough.is_set():
            client.send(flood)

    with opened(broker) as publisher, opened(broker) as other:
        publisher.declare("flood", arguments={"x-max-length": ("I", 1000)})
        thread = threading.Thread(target=pour, args=(publisher,))
        thread.start()
        try:
            wait_until(lambda: bytes_in(broker, publisher) > len(flood))
            before = bytes_in(broker, publisher)
            for number in range(20):
                other.declare(f"q{number}", auto_delete=True)
            # The flood goes on: the broker did not leave it for later to answer the other.
            wait_until(lambda: bytes_in(broker, publisher) > before)
        finally:
            is_enough.set()
            thread.join()
        assert publisher.declare("flood", passive=True).message_count == 1000


@pytest.mark.parametrize("frames", ["method", "header", "part of a body", "part of a frame"])
def test_a_client_that_vanishes_in_the_middle_of_a_message(frames, broker, caplog):
    method = method_bytes(1, commands.Basic.Publish, exchange="", routing_key="q")
    sent = {
        "method": method,
        "header": method + header_frame(1, b"\0\0", 1000),
        "part of a body": method + header_frame(1, b"\0\0", 1000) + encode_frame(BODY, 1, b"x"),
        "part of a frame": publish_bytes(1, "q", bytes(1000))[:-500],
    }[frames]
    with opened(broker) as other:
        other.declare("q")
        with opened(broker) as client:
            client.declare("mine", exclusive=True)
            client.consume("q")
            client.send(sent)
            wait_until_read(broker, client)
        wait_until(lambda: connection_count(broker) == 1)
        declared = other.declare("q")
        assert (declared.message_count, declared.consumer_count) == (0, 0)
        with pytest.raises(KeyError):
            broker.queue_length("mine")
    assert broker.published == []
    assert [line for line in caplog.messages if client.name in line and "unexpectedly" in line]


def test_what_a_vanished_client_held_goes_back_in_order(broker):
    bodies = [b"%d" % number for number in range(10)]
    with opened(broker) as other:
        other.declare("q")
        for body in bodies:
            other.publish(1, "q", body)
        with opened(broker) as client:
            client.consume("q")
            for _ in bodies[:5]:
                client.read_content(1, commands.Basic.Deliver)
        wait_until(lambda: connection_count(broker) == 1)
        assert [other.get("q") for _ in bodies] == bodies


def test_one_that_is_dropped_and_does_not_read_is_cut_off_in_the_end(timeless):
    slow = RawClient(timeless, receive_buffer_bytes=SMALL_BUFFER_BYTES).open().open_channel()
    with slow, opened(timeless) as publisher:
        slow.declare("slow")
        slow.consume("slow", no_ack=True)
        for number in range(100):
            publisher.publish(1, "slow", numbered(number))
        publisher.declare("slow")
        assert unsent_bytes(timeless, slow) > 0
        slow.send_method(1, commands.Basic.Cancel, consumer_tag="c", nowait=True)
        slow.send(encode_frame(METHOD, 1, b"\0\x3c\0\x63"))  # there is no method 99
        wait_until(lambda: timeless.queue_length("slow") and is_dropped(timeless))
        timeless.advance(60)
        wait_until(lambda: connection_count(timeless) == 1)


def is_dropped(broker):
    """One of the two connections was closed by the broker, though its socket may still be open."""
    return broker.call(lambda embedded: any(c.state == GONE for c in embedded.broker.connections))


def test_a_client_that_reads_nothing_for_thirty_seconds_is_disconnected(timeless, caplog):
    slow = RawClient(timeless, receive_buffer_bytes=SMALL_BUFFER_BYTES).open().open_channel()
    with slow, opened(timeless) as publisher:
        slow.declare("slow")
        slow.consume("slow", no_ack=False)
        for number in range(100):
            publisher.publish(1, "slow", numbered(number))
        publisher.declare("slow")
        wait_until(lambda: unsent_bytes(timeless, slow) > 0)
        timeless.advance(29)
        assert connection_count(timeless) == 2
        # The system may have accepted something since the output became congested.
        timeless.advance(1)
        timeless.advance(30)
        wait_until(lambda: connection_count(timeless) == 1)
        assert publisher.declare("slow").message_count == 100
    assert any("the client has read nothing for 30 s" in line for line in caplog.messages)
