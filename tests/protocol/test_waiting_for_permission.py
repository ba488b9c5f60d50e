"""A client's method that waits for a backend's answer, while its connection or channel ends."""

import asyncio
from dataclasses import replace

import pytest
from pamqp import commands

from broker.amqp.errors import precondition_failed
from tests.protocol.raw_client import close_arguments, opened, side_of_broker, wait_until


class SlowBackend:
    """Allows everything, once it is told to. It lives in the broker's event loop."""

    def __init__(self):
        self.may_answer = asyncio.Event()
        self.asked = 0

    async def _yes(self):
        self.asked += 1
        await self.may_answer.wait()
        return True

    def may_use(self, *_):
        return self._yes()


@pytest.fixture
def client(broker):
    with opened(broker) as client:
        yield client


@pytest.fixture
def backend(broker, client):
    return install(broker, client)


def install(broker, client):
    """A backend that is asked from now on what the client may do."""

    def do(embedded):
        connection = side_of_broker(embedded, client)
        backend = SlowBackend()
        connection.user = replace(connection.user, authorization=backend)
        return backend

    return broker.call(do)


def answer(broker, backend):
    """Have the backend answer, and the broker go on as far as it will."""
    broker.call(lambda _: backend.may_answer.set())
    broker.call(lambda _: None)


def waits(broker, backend):
    wait_until(lambda: broker.call(lambda _: backend.asked))


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
    """A consumer of a connection that is no more would be given messages for ever."""
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
