"""Streams as programs with pika and aio-pika use them, over a restart of the node."""

import asyncio
import datetime

import aio_pika
import pika
import pytest

from leveret.broker.config import Config
from leveret.testing import EmbeddedBroker
from tests.patience import PATIENCE_SECONDS
from tests.stored_broker import started

COUNT = 1_000
OF_4 = Config(compat="4.0")
"""When pika ends a consumer it rejects what it has not handed over: RabbitMQ 3 refuses that."""
STREAM = {"x-queue-type": "stream"}


def body_of(number):
    return b"%06d" % number + b"." * 100


@pytest.fixture
def broker(tmp_path):
    broker = started(tmp_path, config=OF_4)
    yield broker
    broker.stop()


def published(url, stream, begin, end):
    """Publish messages with pika, each with its number in a header."""
    with pika.BlockingConnection(pika.URLParameters(url)) as connection:
        channel = connection.channel()
        channel.queue_declare(stream, durable=True, arguments=STREAM)
        for number in range(begin, end - 1):
            properties = pika.BasicProperties(headers={"number": number})
            channel.basic_publish("", stream, body_of(number), properties)
        # pika waits for each confirm: only the last message is confirmed.
        channel.confirm_delivery()
        channel.basic_publish("", stream, body_of(end - 1))


def read(url, stream, offset, count, prefetch=100):
    """The numbers of messages that a consumer of pika gets, by their offsets."""
    found = {}
    with pika.BlockingConnection(pika.URLParameters(url)) as connection:
        channel = connection.channel()
        channel.basic_qos(prefetch_count=prefetch)

        def take(channel, method, properties, body):
            assert not method.redelivered
            channel.basic_ack(method.delivery_tag)
            if len(found) < count:
                found[properties.headers["x-stream-offset"]] = int(body[:6])

        channel.basic_consume(stream, take, arguments={"x-stream-offset": offset})
        while len(found) < count:
            connection.process_data_events(PATIENCE_SECONDS)
    return found


def test_pika_reads_from_any_offset_over_a_restart(broker, tmp_path):
    published(broker.url, "s", 0, COUNT)
    assert read(broker.url, "s", "first", COUNT) == {n: n for n in range(COUNT)}
    broker.stop()
    again = started(tmp_path, config=OF_4)
    try:
        published(again.url, "s", COUNT, COUNT + 10)
        total = COUNT + 10
        assert read(again.url, "s", 0, total) == {n: n for n in range(total)}
        assert read(again.url, "s", 500, 20) == {n: n for n in range(500, 520)}
        assert read(again.url, "s", total - 1, 1, prefetch=1) == {total - 1: total - 1}
        old = datetime.datetime.fromtimestamp(0, datetime.UTC)
        assert read(again.url, "s", old, 5) == {n: n for n in range(5)}
        with pika.BlockingConnection(pika.URLParameters(again.url)) as connection:
            declared = connection.channel().queue_declare("s", passive=True)
            assert declared.method.message_count == total
    finally:
        again.stop()


async def consumed(connection, stream, offset, count):
    """The numbers of messages that a consumer of aio-pika gets, by their offsets."""
    channel = await connection.channel()
    await channel.set_qos(prefetch_count=200)
    queue = await channel.get_queue(stream, ensure=False)
    found = {}
    is_done = asyncio.Event()

    async def take(message):
        found[message.headers["x-stream-offset"]] = int(message.body[:6])
        await message.ack()
        if len(found) == count:
            is_done.set()

    await queue.consume(take, arguments={"x-stream-offset": offset})
    async with asyncio.timeout(PATIENCE_SECONDS):
        await is_done.wait()
    return found


async def test_aio_pika_publishes_with_confirms_and_several_consumers_read_for_themselves():
    async with EmbeddedBroker() as embedded, await aio_pika.connect(embedded.url) as connection:
        channel = await connection.channel()
        await channel.declare_queue("s", durable=True, arguments=STREAM)
        for begin in range(0, COUNT, 500):
            await asyncio.gather(
                *[
                    channel.default_exchange.publish(aio_pika.Message(body_of(number)), "s")
                    for number in range(begin, begin + 500)
                ]
            )
        found = await asyncio.gather(
            consumed(connection, "s", "first", COUNT), consumed(connection, "s", 600, COUNT - 600)
        )
        assert found == [{n: n for n in range(COUNT)}, {n: n for n in range(600, COUNT)}]
