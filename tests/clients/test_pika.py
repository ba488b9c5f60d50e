"""pika, as people use it: blocking, with confirms, and with its errors."""

import pika
import pytest
from pika import exceptions


@pytest.fixture
def channel(amqp_url):
    connection = pika.BlockingConnection(pika.URLParameters(amqp_url))
    yield connection.channel()
    if connection.is_open:
        connection.close()


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
    for method, _, body in channel.consume("q", inactivity_timeout=5):
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
    _, properties, body = channel.basic_get("dead", auto_ack=True)
    assert body == b"bad"
    assert properties.headers["x-death"][0]["reason"] == "rejected"


def test_errors_have_the_texts_of_rabbitmq(channel):
    channel.queue_declare("q")
    with pytest.raises(exceptions.ChannelClosedByBroker) as error:
        channel.queue_declare("q", durable=True)
    assert error.value.reply_code == 406
    assert error.value.reply_text == (
        "PRECONDITION_FAILED - inequivalent arg 'durable' for queue 'q' in vhost '/': "
        "received 'true' but current is 'false'"
    )


def test_a_wrong_password_is_refused(amqp_broker):
    credentials = pika.PlainCredentials("guest", "wrong")
    parameters = pika.ConnectionParameters(
        amqp_broker.host, amqp_broker.port, credentials=credentials
    )
    with pytest.raises(exceptions.ProbableAuthenticationError):
        pika.BlockingConnection(parameters)


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


def test_headers_and_topics_route(channel):
    for name in ("topics", "headers"):
        channel.queue_declare(name)
    channel.queue_bind("topics", "amq.topic", "orders.*.eu")
    matching = {"x-match": "all", "kind": "order", "size": 3}
    channel.queue_bind("headers", "amq.headers", arguments=matching)
    channel.basic_publish("amq.topic", "orders.new.eu", b"t")
    channel.basic_publish("amq.topic", "orders.new.us", b"not")
    properties = pika.BasicProperties(headers={"kind": "order", "size": 3})
    channel.basic_publish("amq.headers", "", b"h", properties)
    assert channel.basic_get("topics", True)[2] == b"t"
    assert channel.basic_get("topics", True)[2] is None
    assert channel.basic_get("headers", True)[2] == b"h"
