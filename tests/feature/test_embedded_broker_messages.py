"""A test's use of the embedded broker's messages: publish, wait, clear; and how it starts."""

import asyncio
import json
import urllib.request

import aio_pika
import pika
import pytest

from leveret.testing import EmbeddedBroker
from tests.patience import PATIENCE_SECONDS

DEFINITIONS = {
    "vhosts": [{"name": "/"}, {"name": "shop"}],
    "queues": [{"name": "orders", "vhost": "shop", "durable": True, "auto_delete": False,
                "arguments": {}}],
    "exchanges": [{"name": "events", "vhost": "shop", "type": "topic", "durable": True,
                   "auto_delete": False, "internal": False, "arguments": {}}],
    "bindings": [{"source": "events", "vhost": "shop", "destination": "orders",
                  "destination_type": "queue", "routing_key": "order.#", "arguments": {}}],
}  # fmt: skip


@pytest.fixture
async def broker():
    async with EmbeddedBroker() as embedded:
        yield embedded


@pytest.fixture
async def channel(broker):
    connection = await aio_pika.connect(broker.url)
    yield await connection.channel()
    await connection.close()


async def publish(channel, *bodies, key="q"):
    for body in bodies:
        await channel.default_exchange.publish(aio_pika.Message(body), key)


# Waiting


async def test_waiting_for_what_will_be_published(broker, channel):
    await channel.declare_queue("q")
    waiting = asyncio.ensure_future(broker.wait_for(2))
    await publish(channel, b"one", b"two")
    assert [message.body for message in await waiting] == [b"one", b"two"]


async def test_waiting_for_what_was_published_already(broker, channel):
    await channel.declare_queue("q")
    await publish(channel, b"one")
    assert len(await broker.wait_for(1)) == 1
    assert await broker.wait_for(0, queue="none") == []


async def test_two_wait_at_once_for_different_queues(broker, channel):
    for name in ("q", "r"):
        await channel.declare_queue(name)
    waiting = [asyncio.ensure_future(broker.wait_for(1, queue=name)) for name in ("q", "r")]
    await publish(channel, b"to r", key="r")
    assert [message.body for message in await waiting[1]] == [b"to r"]
    assert not waiting[0].done()
    await publish(channel, b"to q")
    assert [message.body for message in await waiting[0]] == [b"to q"]


async def test_waiting_for_a_delivery(broker, channel):
    queue = await channel.declare_queue("q")
    waiting = asyncio.ensure_future(broker.wait_for_delivered(1, queue="q"))
    await publish(channel, b"one")
    await queue.get()
    assert [message.body for message in await waiting] == [b"one"]


async def test_a_wait_that_fails_names_the_messages_there(broker, channel):
    await channel.declare_queue("q")
    await publish(channel, b"one")
    with pytest.raises(TimeoutError) as error:
        await broker.wait_for(2, timeout=0.01)
    assert str(error.value) == (
        "waited 0.01 seconds for 2 messages published, and there are 1. Messages published in all: "
        "1\n  exchange '', routing key 'q', queues ['q']"
    )
    with pytest.raises(TimeoutError, match="messages published to queue 'r', and there are 0"):
        await broker.wait_for(1, queue="r", timeout=0.01)


def test_waiting_in_a_thread(amqp_broker):
    connection = pika.BlockingConnection(pika.URLParameters(amqp_broker.url))
    channel = connection.channel()
    channel.queue_declare("q")
    channel.basic_publish("", "q", b"one")
    channel.basic_get("q")
    assert [message.body for message in amqp_broker.wait_for(1)] == [b"one"]
    assert [message.queues for message in amqp_broker.wait_for_delivered(1)] == [("q",)]
    with pytest.raises(TimeoutError, match="for 2 messages published"):
        amqp_broker.wait_for(2, timeout=0.01)
    connection.close()


# Publishing, and clearing records


async def test_a_message_of_the_test(broker, channel):
    queue = await channel.declare_queue("q")
    properties = {"headers": {"attempt": 1}, "correlation_id": "c"}
    await broker.publish("text", "q", properties=properties)
    message = await queue.get()
    assert (message.body, message.correlation_id, message.headers) == (b"text", "c", {"attempt": 1})
    assert broker.published == []
    assert len(broker.delivered) == 1


async def test_a_message_of_the_test_to_an_exchange(broker, channel):
    queue = await channel.declare_queue("q")
    await queue.bind("amq.topic", "order.*")
    await broker.publish(b"x", "order.new", exchange="amq.topic")
    await broker.publish(b"x", "nobody", exchange="amq.topic", mandatory=False)
    assert broker.queue_length("q") == 1
    with pytest.raises(ValueError, match="properties"):
        await broker.publish(b"x", "q", properties={"priority": "high"})


def test_a_message_of_the_test_in_a_thread(amqp_broker):
    connection = pika.BlockingConnection(pika.URLParameters(amqp_broker.url))
    connection.channel().queue_declare("q")
    amqp_broker.publish(b"one", "q")
    assert amqp_broker.queue_length("q") == 1
    with pytest.raises(LookupError, match="reached no queue"):
        amqp_broker.publish(b"one", "none")
    connection.close()


async def test_records_are_cleared(broker, channel):
    queue = await channel.declare_queue("q")
    await publish(channel, b"one")
    await queue.get()
    broker.clear_records()
    assert broker.published == broker.delivered == []
    await publish(channel, b"two")
    assert [message.body for message in await broker.wait_for(1)] == [b"two"]


# Starting with definitions and management


@pytest.mark.parametrize("is_file", [False, True])
async def test_definitions_to_start_with(is_file, tmp_path):
    path = tmp_path / "definitions.json"
    path.write_text(json.dumps(DEFINITIONS))
    async with EmbeddedBroker(definitions=path if is_file else DEFINITIONS) as broker:
        await broker.publish(b"x", "order.new", exchange="events", vhost="shop")
        assert broker.queue_length("orders", vhost="shop") == 1
        connection = await aio_pika.connect(broker.url)
        await connection.close()


async def test_definitions_are_declared_at_each_start():
    broker = EmbeddedBroker(definitions=DEFINITIONS)
    for _ in range(2):
        async with broker:
            await broker.publish(b"x", "orders", vhost="shop")
            assert broker.queue_length("orders", vhost="shop") == 1


@pytest.mark.parametrize(
    ("definitions", "error", "text"),
    [
        ({"queues": [{"vhost": "/"}]}, ValueError, r"definitions: \n  queues\[0\].name: is"),
        ({"queues": 5}, ValueError, "cannot start with these definitions"),
        (5, TypeError, "must be a dict or the path of a JSON file, and int was given"),
        ("/no/file", OSError, "/no/file"),
    ],
)  # fmt: skip
async def test_definitions_that_are_wrong(definitions, error, text):
    broker = EmbeddedBroker(definitions=definitions)
    with pytest.raises(error, match=text):
        await broker.start()
    with pytest.raises(RuntimeError, match="was not started"):
        _ = broker.url


def overview_of(broker):
    request = urllib.request.Request(
        f"{broker.management_url}/api/overview", headers={"Authorization": "Basic Z3Vlc3Q6Z3Vlc3Q="}
    )
    with urllib.request.urlopen(request, timeout=PATIENCE_SECONDS) as answer:
        return json.load(answer)


def test_management_on_a_free_port():
    with EmbeddedBroker.in_thread(management_port=0) as broker:
        assert overview_of(broker)["object_totals"]["queues"] == 0
        with urllib.request.urlopen(broker.management_url, timeout=PATIENCE_SECONDS) as page:
            assert b"<html" in page.read()


async def test_management_on_a_port_that_is_taken(broker):
    with pytest.raises(OSError, match=f"cannot serve management on port {broker.port}: "):
        await EmbeddedBroker(management_port=broker.port).start()
