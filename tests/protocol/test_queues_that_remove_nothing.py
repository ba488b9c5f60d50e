"""A kind of queue whose messages stay when they are consumed, brought by an installed package.

Each test runs twice: for clients of the node where the queue lives, and of another node.
"""

from collections import deque
from contextlib import ExitStack
from datetime import UTC, datetime

import pika
import pytest
from pika.exceptions import ChannelClosedByBroker, ConnectionClosedByBroker

from leveret.broker.queues.contract.queue_kinds import INSTALLED
from tests.fakes.log_queue import IS_LOG, OFFSET_HEADER, SOURCE
from tests.installed_package import install_in
from tests.patience import PATIENCE_SECONDS

BODIES = [b"m0", b"m1", b"m2", b"m3"]
LONG_AGO = datetime(2001, 1, 1, tzinfo=UTC)
LONG_AFTER = datetime(2201, 1, 1, tzinfo=UTC)


@pytest.fixture(params=["its node", "another node"])
def connect(request, monkeypatch, tmp_path, broker, far_node):
    """Opens connections to a node, on which there is a log with four messages."""
    install_in(monkeypatch, tmp_path, [INSTALLED], "log", SOURCE, "log_queues")
    node = far_node if request.param == "its node" else broker
    with ExitStack() as connections:

        def connect():
            parameters = pika.ConnectionParameters(node.host, node.port)
            return connections.enter_context(pika.BlockingConnection(parameters))

        channel = connect().channel()
        channel.queue_declare("log", durable=True, arguments=IS_LOG)
        publish(channel, *BODIES)
        yield connect


def publish(channel, *bodies):
    channel.confirm_delivery()
    for body in bodies:
        channel.basic_publish("", "log", body)


class Reader:
    """A consumer on a channel of its own."""

    def __init__(self, connection, start=None, prefetch_count=100):
        self._deliveries = deque()
        self.cancels = []
        self.channel = connection.channel()
        self.channel.basic_qos(prefetch_count=prefetch_count)
        self.channel.add_on_cancel_callback(self.cancels.append)
        arguments = {} if start is None else {"x-stream-offset": start}
        self.channel.basic_consume(
            "log", lambda *delivery: self._deliveries.append(delivery[1:]), arguments=arguments
        )

    def deliveries(self, count):
        """The next deliveries: method, properties and body of each."""
        while len(self._deliveries) < count:
            self.channel.connection.process_data_events(PATIENCE_SECONDS)
        return [self._deliveries.popleft() for _ in range(count)]

    def bodies(self, count):
        """The bodies of the next deliveries."""
        return [body for _, _, body in self.deliveries(count)]

    def is_given_more(self):
        """Something else was delivered before an answer to a later method."""
        self.channel.queue_declare("log", passive=True)
        self.channel.connection.process_data_events(0)
        return bool(self._deliveries)

    def until_cancelled(self):
        """Wait for the broker's basic.cancel."""
        while not self.cancels:
            self.channel.connection.process_data_events(PATIENCE_SECONDS)


def test_a_consumer_begins_where_it_asks_to(connect):
    connection = connect()
    for start, expected in (
        ("first", BODIES), ("last", [b"m3"]), (2, [b"m2", b"m3"]), (LONG_AGO, BODIES),
        ("1h", BODIES),
    ):  # fmt: skip
        reader = Reader(connection, start)
        assert reader.bodies(len(expected)) == expected
        assert not reader.is_given_more()


def test_a_consumer_gets_what_is_published_after_its_start(connect):
    connection = connect()
    readers = [Reader(connection, start) for start in (None, "next", 5, LONG_AFTER)]
    assert not any(reader.is_given_more() for reader in readers)
    publish(connect().channel(), b"m4", b"m5")
    assert [reader.bodies(1) for reader in readers] == [[b"m4"], [b"m4"], [b"m5"], [b"m4"]]


def test_an_ack_makes_room_and_removes_nothing(connect):
    reader = Reader(connect(), "first", prefetch_count=2)
    assert reader.bodies(2) == [b"m0", b"m1"]
    assert not reader.is_given_more()
    reader.channel.basic_ack(1)
    assert reader.bodies(1) == [b"m2"]
    reader.channel.basic_ack(3, multiple=True)
    assert reader.bodies(1) == [b"m3"]
    assert reader.channel.queue_declare("log", passive=True).method.message_count == 4


def test_a_consumer_goes_on_behind_the_last_offset_of_the_one_before(connect):
    connection = connect()
    first = Reader(connection, "first", prefetch_count=2)
    _, (_, properties, body) = first.deliveries(2)
    assert body == b"m1"
    first.channel.close()
    assert Reader(connection, properties.headers[OFFSET_HEADER] + 1).bodies(2) == [b"m2", b"m3"]


def test_what_is_not_acknowledged_is_not_delivered_again(connect):
    connection = connect()
    reader = Reader(connection, "first", prefetch_count=2)
    assert reader.bodies(2) == [b"m0", b"m1"]
    reader.channel.basic_recover(requeue=True)
    assert reader.bodies(2) == [b"m2", b"m3"]
    reader.channel.close()
    again = Reader(connection, "first").deliveries(4)
    assert [(body, method.redelivered) for method, _, body in again] == [
        (body, False) for body in BODIES
    ]


def test_a_deleted_log_cancels_its_consumers(connect):
    reader = Reader(connect(), "last")
    assert reader.bodies(1) == [b"m3"]
    assert connect().channel().queue_delete("log").method.message_count == 0
    reader.until_cancelled()


# What is refused


def rejected(channel, reject):
    """Reject a message, and wait for what comes of it."""
    reader = Reader(channel.connection, "first")
    (method, _, _), *_ = reader.deliveries(4)
    getattr(reader.channel, reject)(method.delivery_tag)
    channel.queue_declare("log", passive=True)


@pytest.mark.parametrize("connect", ["another node"], indirect=True)
@pytest.mark.parametrize(
    ("operation", "ask"),
    [
        ("basic.get", lambda channel: channel.basic_get("log")),
        ("queue.purge", lambda channel: channel.queue_purge("log")),
        (
            "automatic acknowledgement",
            lambda channel: channel.basic_consume("log", print, auto_ack=True),
        ),
        ("basic.nack and basic.reject", lambda channel: rejected(channel, "basic_nack")),
        ("basic.nack and basic.reject", lambda channel: rejected(channel, "basic_reject")),
    ],
)
def test_what_takes_messages_away_is_refused(connect, operation, ask):
    channel = connect().channel()
    channel.basic_qos(prefetch_count=1)
    with pytest.raises(ConnectionClosedByBroker) as refused:
        ask(channel)
    assert refused.value.reply_code == 540
    assert refused.value.reply_text == (
        f"NOT_IMPLEMENTED - {operation} not supported by log queues queue 'log' in vhost '/'"
    )


@pytest.mark.parametrize("connect", ["another node"], indirect=True)
def test_what_another_queue_delivered_goes_back_when_rejecting_is_refused(connect):
    reader = Reader(connect(), "last")
    reader.channel.queue_declare("queue")
    reader.channel.basic_publish("", "queue", b"goes back")
    reader.channel.basic_consume("queue", print)
    reader.is_given_more()
    reader.channel.basic_nack(2, multiple=True)
    with pytest.raises(ConnectionClosedByBroker, match="basic.nack and basic.reject"):
        reader.is_given_more()
    assert connect().channel().basic_get("queue", auto_ack=True)[2] == b"goes back"


def refused_consumer(connection, global_qos, **arguments):
    """The error for a consumer of a channel with this kind of limit."""
    channel = connection.channel()
    channel.basic_qos(prefetch_count=1, global_qos=global_qos)
    with pytest.raises(ChannelClosedByBroker) as refused:
        channel.basic_consume("log", print, arguments=arguments)
    assert refused.value.reply_code == 406
    return refused.value.reply_text


@pytest.mark.parametrize("connect", ["another node"], indirect=True)
def test_a_consumer_needs_a_limit_of_its_own_and_an_offset(connect):
    connection = connect()
    assert refused_consumer(connection, True) == (
        "PRECONDITION_FAILED - consumer prefetch count is not set for 'queue 'log' in vhost '/''"
    )
    assert refused_consumer(connection, False, **{"x-stream-offset": "10"}) == (
        "PRECONDITION_FAILED - invalid arg 'x-stream-offset' for queue 'log' in vhost '/': "
        '{invalid_stream_offset_arg,{longstr,<<"10">>}}'
    )
    assert "of queue type log_queue" in refused_consumer(connection, False, **{"x-priority": 1})
