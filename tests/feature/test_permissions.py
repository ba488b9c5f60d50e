"""Permissions of clients, operation by operation, from RabbitMQ's table and with its 403 texts.

The user of these tests may configure, write and read names that begin with `my`, and on such topic
exchanges only routing keys that begin with `a`.
"""

from contextlib import closing, suppress

import pika
import pytest

from leveret.broker.auth.users import with_password
from leveret.broker.declarations.values import (
    Permission,
    PutPermission,
    PutTopicPermission,
    PutUser,
    TopicPermission,
)
from leveret.testing import EmbeddedBroker
from tests.declaring import declare

MINE = Permission("/", "anna", "^my", "^my", "^my")
MY_TOPICS = ("my.topics", "my.other")


@pytest.fixture(scope="module")
def broker():
    with EmbeddedBroker.in_thread() as broker:
        with closing(connect(broker, "guest", "guest")) as connection:
            channel = connection.channel()
            for name in ("q", "my.queue"):
                channel.queue_declare(name)
            for name in ("topics", *MY_TOPICS):
                channel.exchange_declare(name, "topic")
            channel.exchange_declare("my.direct", "direct")
        broker.call(add_anna)
        yield broker


def add_anna(embedded):
    declare(embedded, PutUser(with_password("anna", "secret")), PutPermission(MINE))
    for name in (*MY_TOPICS, "my.direct"):
        declare(embedded, PutTopicPermission(TopicPermission("/", "anna", name, "^a", "^a")))


def connect(broker, name="anna", password="secret"):
    credentials = pika.PlainCredentials(name, password)
    return pika.BlockingConnection(
        pika.ConnectionParameters("127.0.0.1", broker.port, credentials=credentials)
    )


def refusal_of(broker, operation):
    """Execute an operation on a channel of its own; returns the error text, None on success."""
    connection = connect(broker)
    try:
        operation(connection.channel())
    except (
        pika.exceptions.ChannelClosedByBroker, pika.exceptions.ConnectionClosedByBroker,
    ) as closed:  # fmt: skip
        return closed.reply_text.removeprefix("ACCESS_REFUSED - ").removesuffix(
            " refused for user 'anna'"
        )
    finally:
        with suppress(pika.exceptions.AMQPError):
            connection.close()
    return None


def publish(channel, exchange, key, **properties):
    channel.confirm_delivery()
    channel.basic_publish(exchange, key, b"", pika.BasicProperties(**properties))


class TestBindingExchanges:
    """Like binding queues: write to the destination, read from the source, and topics."""

    @pytest.mark.parametrize("method", ["exchange_bind", "exchange_unbind"])
    @pytest.mark.parametrize(
        ("destination", "source", "key", "refused"),
        [
            ("my.other", "my.topics", "a.#", None),
            ("my.other", "my.topics", "b.#", "read access to topic 'b.#' in exchange 'my.topics'"),
            ("my.other", "my.topics", "#", "read access to topic '#' in exchange 'my.topics'"),
            ("my.topics", "my.direct", "b", None),
            ("topics", "my.topics", "a", "write access to exchange 'topics'"),
            ("my.topics", "topics", "a", "read access to exchange 'topics'"),
        ],
    )
    def test_it(self, broker, method, destination, source, key, refused):
        text = refusal_of(
            broker, lambda channel: getattr(channel, method)(destination, source, key)
        )
        assert text == (refused and f"{refused} in vhost '/'")

    def test_a_topic_is_refused_even_of_an_exchange_that_is_not_there(self, broker):
        text = refusal_of(broker, lambda channel: channel.exchange_bind("my.no", "my.topics", "b"))
        assert text == "read access to topic 'b' in exchange 'my.topics' in vhost '/'"


class TestPublishing:
    @pytest.mark.parametrize("header", ["CC", "BCC"])
    def test_a_topic_cannot_be_smuggled_in_as_a_further_key(self, broker, header):
        text = refusal_of(
            broker, lambda channel: publish(channel, "my.topics", "a", headers={header: ["a", "b"]})
        )
        assert text == "write access to topic 'b' in exchange 'my.topics' in vhost '/'"

    @pytest.mark.parametrize(("exchange", "key"), [("my.topics", "a.b"), ("my.direct", "b")])
    def test_further_keys_that_are_the_users_are_fine(self, broker, exchange, key):
        assert not refusal_of(
            broker, lambda channel: publish(channel, exchange, "a", headers={"CC": [key]})
        )


class TestChanges:
    """Removed permissions take effect at once, on open connections too."""

    def test_publishing(self, broker):
        with closing(connect(broker)) as connection:
            channel = connection.channel()
            publish(channel, "my.direct", "k")
            self.set(broker, Permission("/", "anna", "^my", "^none", "^my"))
            try:
                with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="write access"):
                    publish(channel, "my.direct", "k")
            finally:
                self.set(broker, MINE)

    def test_getting(self, broker):
        with closing(connect(broker)) as connection:
            channel = connection.channel()
            channel.basic_get("my.queue")
            self.set(broker, Permission("/", "anna", "^my", "^my", ""))
            try:
                with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="read access"):
                    channel.basic_get("my.queue")
            finally:
                self.set(broker, MINE)

    def set(self, broker, permission):
        broker.call(lambda embedded: declare(embedded, PutPermission(permission)))
