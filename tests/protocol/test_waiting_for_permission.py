"""A method that waits for a backend's answer, and other events while it waits."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from pamqp import commands

from leveret.broker.amqp.errors import precondition_failed
from tests.patience import PATIENCE_SECONDS
from tests.protocol.raw_client import (
    close_arguments,
    method_bytes,
    opened,
    publish_bytes,
    side_of_broker,
    wait_until,
)

OPERATION_TIMEOUT_MS = 15_000


class SlowBackend:
    """Permits everything, when told to answer. Runs in the broker's event loop.

    questions: the queries it received. known: names that it answers at once.
    """

    def __init__(self, known=()):
        self.may_answer = asyncio.Event()
        self.questions = []
        self.known = known

    @property
    def asked(self):
        return len(self.questions)

    async def _yes(self, *question):
        self.questions.append(question)
        await self.may_answer.wait()
        return True

    def may_use(self, identity, vhost, kind, name, permission):
        return name in self.known or self._yes(kind, name, permission)

    def may_use_topic(self, identity, vhost, exchange, routing_key, permission):
        return self._yes("topic", exchange, routing_key, permission)


@pytest.fixture
def client(broker):
    with opened(broker) as client:
        yield client


@pytest.fixture
def backend(broker, client):
    return install(broker, client)


def install(broker, client, known=()):
    """Install a backend that is queried for the client's permissions from now on."""

    def do(embedded):
        connection = side_of_broker(embedded, client)
        backend = SlowBackend(known)
        connection.user = replace(connection.user, authorization=backend)
        return backend

    return broker.call(do)


def answer(broker, backend):
    """Let the backend answer, and the broker process the answer."""
    broker.call(lambda _: backend.may_answer.set())
    broker.call(lambda _: None)


def waits(broker, backend, questions=1):
    """Wait until the backend was queried so often."""
    wait_until(lambda: broker.call(lambda _: backend.asked) >= questions)


def queues(broker):
    return broker.call(lambda embedded: set(embedded.broker.services.vhosts["/"].queues))


def queue_named(name):
    return lambda embedded: embedded.broker.services.vhosts["/"].queues[name]


def test_it_is_done_when_the_answer_comes(broker, client, backend):
    client.send_method(1, commands.Queue.Declare, queue="q", exclusive=True)
    waits(broker, backend)
    answer(broker, backend)
    assert client.read_method(1, commands.Queue.DeclareOk).queue == "q"


def test_it_is_not_done_on_a_connection_that_was_closed(broker, client):
    """Otherwise a consumer of a closed connection would receive messages forever."""
    client.declare("q")
    backend = install(broker, client)
    client.send_method(1, commands.Basic.Consume, queue="q", consumer_tag="c")
    waits(broker, backend)
    broker.call(lambda embedded: side_of_broker(embedded, client).force_close("go away"))
    answer(broker, backend)
    assert client.read_method(0, commands.Connection.Close).reply_code == 320
    client.send_method(0, commands.Connection.CloseOk)
    assert client.read_end() == b""
    assert not broker.call(queue_named("q")).ring.consumers


def test_it_is_not_done_on_a_channel_that_failed(broker, client, backend):
    client.send_method(1, commands.Queue.Declare, queue="q")
    waits(broker, backend)

    def fail(embedded):
        channel = side_of_broker(embedded, client).channels[1]
        channel.fail(precondition_failed("a delivery was not acknowledged in time"))

    broker.call(fail)
    answer(broker, backend)
    assert client.read_method(1, commands.Channel.Close).reply_code == 406
    client.call(1, commands.Channel.Close, commands.Channel.CloseOk, **close_arguments())
    assert not queues(broker)


def test_it_is_not_done_for_a_client_that_has_gone(broker, client, backend):
    client.send_method(1, commands.Queue.Declare, queue="q", exclusive=True)
    waits(broker, backend)
    broker.call(lambda embedded: side_of_broker(embedded, client).abort())
    answer(broker, backend)
    wait_until(lambda: broker.call(lambda embedded: not embedded.broker.connections))
    assert not queues(broker)


class TestOtherChannels:
    def test_they_go_on(self, broker, client):
        client.declare("known")
        client.open_channel(2)
        backend = install(broker, client, known=("known", "amq.default"))
        client.send_method(1, commands.Queue.Declare, queue="q")
        waits(broker, backend)
        client.publish(2, "known", b"meanwhile")
        assert client.get("known", channel=2) == b"meanwhile"
        answer(broker, backend)
        assert client.read_method(1, commands.Queue.DeclareOk).queue == "q"

    def test_each_waits_for_its_own_answer(self, broker, client, backend):
        client.send(method_bytes(2, commands.Channel.Open))
        client.read_method(2, commands.Channel.OpenOk)
        client.send_method(1, commands.Queue.Declare, queue="a")
        client.send_method(2, commands.Queue.Declare, queue="b")
        waits(broker, backend, questions=2)
        answer(broker, backend)
        assert client.read_method(1, commands.Queue.DeclareOk).queue == "a"
        assert client.read_method(2, commands.Queue.DeclareOk).queue == "b"


class TestWhatIsPipelined:
    """Frames on a waiting channel are processed after its method, in order."""

    def test_methods_messages_and_settlements_keep_their_order(self, broker, client):
        client.declare("known")
        client.consume("known", consumer_tag="c")
        client.publish(1, "known", b"first")
        tag = client.read_content(1, commands.Basic.Deliver).method.delivery_tag
        backend = install(broker, client, known=("known", "amq.default"))
        client.send(
            method_bytes(1, commands.Queue.Declare, queue="q")
            + publish_bytes(1, "q", b"small")
            + publish_bytes(1, "q", b"large" * 100, frame_bytes_max=64)
            + method_bytes(1, commands.Basic.Ack, delivery_tag=tag)
            + method_bytes(1, commands.Queue.Declare, queue="q", passive=True)
        )
        waits(broker, backend)
        assert not broker.call(queue_named("known")).backing.ready_count
        answer(broker, backend)
        assert client.read_method(1, commands.Queue.DeclareOk).message_count == 0
        assert client.read_method(1, commands.Queue.DeclareOk).message_count == 2
        assert not broker.call(unsettled_on(client, 1))
        assert client.get("q") == b"small"
        assert client.get("q") == b"large" * 100

    def test_a_message_that_waits_is_published_before_the_next(self, broker, client):
        client.declare("q")
        backend = install(broker, client, known=("q",))
        client.send(publish_bytes(1, "q", b"1") + publish_bytes(1, "q", b"2", priority=1))
        client.publish(1, "q", b"3")
        waits(broker, backend)
        answer(broker, backend)
        assert [client.get("q") for _ in range(3)] == [b"1", b"2", b"3"]
        assert backend.questions == [("exchange", "amq.default", "write")]

    def test_closing_the_channel_waits_for_its_turn(self, broker, client, backend):
        client.send_method(1, commands.Queue.Declare, queue="q", nowait=True)
        client.send_method(1, commands.Channel.Close, **close_arguments())
        waits(broker, backend)
        answer(broker, backend)
        client.read_method(1, commands.Channel.CloseOk)
        assert "q" in queues(broker)

    def test_a_channel_that_is_opened_again_is_another(self, broker, client, backend):
        client.send(
            method_bytes(1, commands.Queue.Declare, queue="a", nowait=True)
            + method_bytes(1, commands.Channel.Close, **close_arguments())
            + method_bytes(1, commands.Channel.Open)
            + method_bytes(1, commands.Queue.Declare, queue="b")
        )
        waits(broker, backend)
        answer(broker, backend)
        client.read_method(1, commands.Channel.CloseOk)
        client.read_method(1, commands.Channel.OpenOk)
        assert client.read_method(1, commands.Queue.DeclareOk).queue == "b"

    def test_behind_a_method_that_failed_only_the_end_of_the_channel_counts(self, broker, client):
        client.declare("q", durable=True)
        backend = install(broker, client)
        client.send(
            method_bytes(1, commands.Queue.Declare, queue="q")
            + method_bytes(1, commands.Queue.Declare, queue="other")
            + method_bytes(1, commands.Channel.Close, **close_arguments())
        )
        waits(broker, backend)
        answer(broker, backend)
        close = client.read_method(1, commands.Channel.Close)
        assert (close.reply_code, close.class_id, close.method_id) == (406, 50, 10)
        client.read_method(1, commands.Channel.CloseOk)
        assert queues(broker) == {"q"}


class TestOnce:
    """A method is executed once, and each query is sent once."""

    def test_a_declaration(self, broker, client, backend):
        declared = broker.call(lambda embedded: embedded.broker.services.counts.queues_declared)
        arguments = {"x-dead-letter-exchange": ("S", "amq.fanout")}
        client.send_method(1, commands.Queue.Declare, queue="q", arguments=arguments)
        waits(broker, backend)
        answer(broker, backend)
        client.read_method(1, commands.Queue.DeclareOk)
        assert backend.questions == [
            ("queue", "q", "configure"),
            ("queue", "q", "read"),
            ("exchange", "amq.fanout", "write"),
        ]
        counted = broker.call(lambda embedded: embedded.broker.services.counts.queues_declared)
        assert counted == declared + 1

    def test_a_message_with_several_topics(self, broker, client):
        client.declare("q")
        for key in ("a", "b"):
            client.bind("q", "amq.topic", key)
        backend = install(broker, client, known=("q",))
        client.publish(1, "a", b"m", exchange="amq.topic", headers={"CC": ("A", [("S", "b")])})
        waits(broker, backend)
        answer(broker, backend)
        assert client.get("q") == b"m"
        assert client.get("q") is None
        assert backend.questions == [
            ("exchange", "amq.topic", "write"),
            ("topic", "amq.topic", "a", "write"),
            ("topic", "amq.topic", "b", "write"),
        ]


def test_an_exchange_that_was_declared_meanwhile_is_not_declared_again(broker, client):
    client.open_channel(2)
    backend = install(broker, client)
    arguments = {"alternate-exchange": ("S", "amq.fanout")}
    declaration = {"exchange": "e", "exchange_type": "direct", "arguments": arguments}
    client.send_method(1, commands.Exchange.Declare, **declaration)
    client.send_method(2, commands.Exchange.Declare, **declaration)
    waits(broker, backend, questions=2)
    answer(broker, backend)
    client.read_method(1, commands.Exchange.DeclareOk)
    client.read_method(2, commands.Exchange.DeclareOk)


def test_a_method_that_waits_too_long_fails_its_channel(timeless):
    with opened(timeless) as client:
        backend = install(timeless, client)
        client.send_method(1, commands.Queue.Purge, queue="q")
        client.send_method(1, commands.Queue.Declare, queue="behind")
        waits(timeless, backend)
        timeless.advance(OPERATION_TIMEOUT_MS / 1000)
        close = client.read_method(1, commands.Channel.Close)
        answer(timeless, backend)
        client.call(1, commands.Channel.Close, commands.Channel.CloseOk, **close_arguments())
    assert close.reply_text == (
        "PRECONDITION_FAILED - operation queue.purge on queue 'q' in vhost '/' timed out after "
        f"{OPERATION_TIMEOUT_MS} ms"
    )
    assert (close.reply_code, close.class_id, close.method_id) == (406, 50, 30)
    assert not queues(timeless)


def test_a_client_that_sends_on_is_not_read_for_ever(broker, client):
    """The frames stored for a waiting channel are bounded; after the answer all are processed."""
    client.declare("q")
    backend = install(broker, client, known=("q",))
    messages = 64
    client.send_method(1, commands.Queue.Declare, queue="other")
    waits(broker, backend)
    flood = publish_bytes(1, "q", bytes(100_000)) * messages
    with ThreadPoolExecutor(1) as threads:
        sending = threads.submit(client.send, flood)
        wait_until(lambda: broker.call(lambda e: not side_of_broker(e, client).is_reading))
        kept = broker.call(lambda e: side_of_broker(e, client).bytes_in)
        assert kept < len(flood) // 2
        answer(broker, backend)
        sending.result(PATIENCE_SECONDS)
    client.read_method(1, commands.Queue.DeclareOk)
    counted = client.declare("q", passive=True)
    assert counted.message_count == messages
    assert broker.call(lambda e: side_of_broker(e, client).is_reading)


def unsettled_on(client, channel):
    return lambda embedded: len(side_of_broker(embedded, client).channels[channel].unacked)
