"""pika in its usual ways: blocking, with confirms, and with errors.

These programs run with each kind of queue. What has nothing to do with queues is among the
scenarios of tests/conformance, which use pika, too.
"""

import time

import pika
import pytest
from pika import exceptions

from tests.patience import PATIENCE_SECONDS


@pytest.fixture
def channel(amqp_url):
    connection = pika.BlockingConnection(pika.URLParameters(amqp_url))
    yield connection.channel()
    if connection.is_open:
        connection.close()


def got_soon(channel, queue):
    """What basic.get takes, once it is there: a dead letter takes a while."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while (got := channel.basic_get(queue, auto_ack=True))[0] is None:
        assert time.monotonic() < deadline, f"nothing comes to {queue}"
    return got


def test_a_message_goes_through_a_queue(channel):
    channel.queue_declare("q", durable=True)
    properties = pika.BasicProperties(headers={"n": 1}, delivery_mode=2, content_type="text/plain")
    channel.basic_publish("", "q", b"hello", properties)
    method, received, body = channel.basic_get("q")
    assert (body, received.headers, received.delivery_mode) == (b"hello", {"n": 1}, 2)
    channel.basic_ack(method.delivery_tag)
    assert channel.queue_declare("q", durable=True).method.message_count == 0


def test_confirms_and_unroutable_messages(channel):
    channel.confirm_delivery()
    channel.queue_declare("q")
    channel.basic_publish("", "q", b"routed", mandatory=True)
    with pytest.raises(exceptions.UnroutableError) as error:
        channel.basic_publish("", "nowhere", b"lost", mandatory=True)
    assert error.value.messages[0].method.reply_text == "NO_ROUTE"


def test_a_full_queue_refuses(channel):
    channel.confirm_delivery()
    channel.queue_declare("q", arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
    channel.basic_publish("", "q", b"first")
    with pytest.raises(exceptions.NackError):
        channel.basic_publish("", "q", b"second")


def test_consuming_with_a_generator(channel):
    channel.queue_declare("q")
    for number in range(10):
        channel.basic_publish("", "q", str(number))
    channel.basic_qos(prefetch_count=3)
    bodies = []
    for method, _, body in channel.consume("q", inactivity_timeout=PATIENCE_SECONDS):
        bodies.append(body)
        channel.basic_ack(method.delivery_tag)
        if len(bodies) == 10:
            break
    channel.cancel()
    assert bodies == [str(number).encode() for number in range(10)]


def test_rejected_messages_go_to_the_dead_letter_queue(channel):
    channel.queue_declare("dead")
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    channel.queue_declare("q", arguments=arguments)
    channel.basic_publish("", "q", b"bad")
    method, _, _ = channel.basic_get("q")
    channel.basic_reject(method.delivery_tag, requeue=False)
    _, properties, body = got_soon(channel, "dead")
    assert body == b"bad"
    assert properties.headers["x-death"][0]["reason"] == "rejected"


def test_an_exclusive_queue_is_locked_to_its_connection(channel, amqp_url):
    channel.queue_declare("mine", exclusive=True)
    other = pika.BlockingConnection(pika.URLParameters(amqp_url))
    with pytest.raises(exceptions.ChannelClosedByBroker) as error:
        other.channel().queue_declare("mine", passive=True)
    assert error.value.reply_code == 405
    other.close()


def test_a_transaction(channel):
    channel.tx_select()
    channel.queue_declare("q")
    channel.basic_publish("", "q", b"x")
    assert channel.queue_declare("q", passive=True).method.message_count == 0
    channel.tx_commit()
    assert channel.queue_declare("q", passive=True).method.message_count == 1


def test_a_rejected_message_goes_back_to_its_place(channel):
    channel.queue_declare("q")
    for body in (b"first", b"second"):
        channel.basic_publish("", "q", body)
    method, _, body = channel.basic_get("q")
    assert (body, method.redelivered, method.message_count) == (b"first", False, 1)
    channel.basic_nack(method.delivery_tag, requeue=True)
    method, _, body = channel.basic_get("q")
    assert (body, method.redelivered, method.message_count) == (b"first", True, 1)


def test_unacknowledged_messages_go_back_when_the_channel_closes(channel):
    channel.queue_declare("q")
    channel.basic_publish("", "q", b"x")
    other = channel.connection.channel()
    assert other.basic_get("q")[2] == b"x"
    assert channel.basic_get("q")[2] is None
    other.close()
    method, _, body = channel.basic_get("q")
    assert (body, method.redelivered) == (b"x", True)


def test_a_callback_consumes(channel):
    bodies = []

    def on_message(channel, method, _properties, body):
        bodies.append(body)
        channel.basic_ack(method.delivery_tag)
        if len(bodies) == 3:
            channel.stop_consuming()

    channel.queue_declare("q")
    channel.basic_consume("q", on_message)
    for number in range(3):
        channel.basic_publish("", "q", str(number))
    channel.connection.call_later(PATIENCE_SECONDS, channel.stop_consuming)
    channel.start_consuming()
    assert bodies == [b"0", b"1", b"2"]


def test_a_consumer_hears_that_its_queue_was_deleted(channel):
    canceled = []
    channel.add_on_cancel_callback(canceled.append)
    channel.queue_declare("q")
    tag = channel.basic_consume("q", lambda *_: None)
    channel.connection.channel().queue_delete("q")
    channel.connection.process_data_events(PATIENCE_SECONDS)
    assert [frame.method.consumer_tag for frame in canceled] == [tag]


def test_a_queue_with_messages_is_not_deleted_if_it_has_to_be_empty(channel):
    channel.queue_declare("q")
    channel.basic_publish("", "q", b"x")
    with pytest.raises(exceptions.ChannelClosedByBroker) as error:
        channel.queue_delete("q", if_empty=True)
    assert error.value.reply_code == 406
    assert error.value.reply_text == "PRECONDITION_FAILED - queue 'q' in vhost '/' not empty"


def test_a_callback_connection(amqp_url):
    """SelectConnection: every step is a callback of the previous one."""
    bodies = []

    def on_open(connection):
        connection.ioloop.call_later(PATIENCE_SECONDS, connection.ioloop.stop)
        connection.channel(on_open_callback=on_channel)

    def on_channel(channel):
        channel.queue_declare("q", callback=lambda _: on_queue(channel))

    def on_queue(channel):
        channel.basic_consume("q", on_message, auto_ack=True)
        channel.basic_publish("", "q", b"hello")

    def on_message(channel, _method, _properties, body):
        bodies.append(body)
        channel.connection.close()

    connection = pika.SelectConnection(
        pika.URLParameters(amqp_url),
        on_open_callback=on_open,
        on_close_callback=lambda connection, _: connection.ioloop.stop(),
    )
    connection.ioloop.start()
    assert bodies == [b"hello"]
    assert connection.is_closed
