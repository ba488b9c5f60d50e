"""What an embedded broker does for tests: time, trouble and records."""

import asyncio

import aio_pika
import pytest

from broker.testing import EmbeddedBroker

SECONDS_MAX = 10


@pytest.fixture
async def embedded():
    async with EmbeddedBroker(virtual_clock=True) as broker:
        yield broker


@pytest.fixture
async def connection(embedded):
    connection = await aio_pika.connect(embedded.url)
    yield connection
    await connection.close()


async def test_a_delayed_message_comes_when_time_is_moved(embedded, connection):
    channel = await connection.channel()
    exchange = await channel.declare_exchange(
        "later", "x-delayed-message", arguments={"x-delayed-type": "direct"}
    )
    queue = await channel.declare_queue("q")
    await queue.bind(exchange, "k")
    await exchange.publish(aio_pika.Message(b"x", headers={"x-delay": 60_000}), "k")
    assert embedded.queue_length("q") == 0
    embedded.advance(61)
    assert embedded.queue_length("q") == 1


async def test_confirms_are_held_and_released(embedded, connection):
    channel = await connection.channel()
    await channel.declare_queue("q")
    embedded.hold_confirms()
    publishing = asyncio.ensure_future(
        channel.default_exchange.publish(aio_pika.Message(b"x"), "q")
    )
    while not embedded.published:
        await asyncio.wait([publishing], timeout=0.01)
    assert not publishing.done()
    embedded.release_confirms()
    await asyncio.wait_for(publishing, SECONDS_MAX)


async def test_blocked_publishers_go_on_when_unblocked(embedded, connection):
    channel = await connection.channel()
    await channel.declare_queue("q")
    embedded.block_publishers()
    publishes = [
        asyncio.ensure_future(channel.default_exchange.publish(aio_pika.Message(b"x"), "q"))
        for _ in range(2)
    ]
    embedded.unblock_publishers()
    await asyncio.wait_for(asyncio.gather(*publishes), SECONDS_MAX)
    assert embedded.queue_length("q") == 2


async def test_a_connection_breaks_after_some_frames(embedded, connection):
    channel = await connection.channel()
    await channel.declare_queue("q")
    embedded.drop_after_frames(6)
    publish = channel.default_exchange.publish
    for _ in range(2):
        await publish(aio_pika.Message(b"x"), "q")
    with pytest.raises((aio_pika.exceptions.AMQPError, ConnectionError, asyncio.CancelledError)):
        await publish(aio_pika.Message(b"x"), "q")
    assert embedded.queue_length("q") == 2


async def test_what_was_published_and_delivered_is_on_record(embedded, connection):
    channel = await connection.channel()
    queue = await channel.declare_queue("q")
    message = aio_pika.Message(b"x", headers={"a": [1, {"b": "c"}]})
    await channel.default_exchange.publish(message, "q")
    await (await queue.get()).ack()
    (published,) = embedded.published
    (delivered,) = embedded.delivered
    assert (published.routing_key, published.queues, published.body) == ("q", ("q",), b"x")
    assert published.properties["headers"] == {"a": [1, {"b": "c"}]}
    assert (delivered.queues, delivered.redelivered) == (("q",), False)


async def test_a_broker_in_real_time_has_no_time_to_move():
    async with EmbeddedBroker() as broker:
        with pytest.raises(RuntimeError, match="virtual_clock=True"):
            broker.advance(1)
