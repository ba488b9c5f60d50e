"""aiormq, the library below aio-pika: what aio-pika does not show of it."""

import asyncio

import aiormq
import pytest
from aiormq.abc import DeliveredMessage
from pamqp import commands

from tests.patience import PATIENCE_SECONDS


@pytest.fixture
async def connection(embedded):
    connection = await aiormq.connect(embedded.url)
    yield connection
    await connection.close()


@pytest.fixture
async def channel(connection):
    return await connection.channel()


async def test_publishes_are_confirmed(channel):
    await channel.queue_declare("q")
    confirmation = await channel.basic_publish(b"hello", routing_key="q")
    assert isinstance(confirmation, commands.Basic.Ack)
    message = await channel.basic_get("q", no_ack=True)
    assert message.body == b"hello"
    assert message.message_count == 0


async def test_a_full_queue_refuses(channel):
    arguments = {"x-max-length": 1, "x-overflow": "reject-publish"}
    await channel.queue_declare("q", arguments=arguments)
    await channel.basic_publish(b"first", routing_key="q")
    with pytest.raises(aiormq.exceptions.DeliveryError):
        await channel.basic_publish(b"second", routing_key="q")


async def test_a_consumer_holds_no_more_than_its_prefetch_count(channel):
    await channel.queue_declare("q")
    await channel.basic_qos(prefetch_count=2)
    for number in range(5):
        await channel.basic_publish(b"%d" % number, routing_key="q")
    received: asyncio.Queue[DeliveredMessage] = asyncio.Queue()
    await channel.basic_consume("q", received.put)
    first, second = [await asyncio.wait_for(received.get(), PATIENCE_SECONDS) for _ in range(2)]
    declared = await channel.queue_declare("q", passive=True)
    assert declared.message_count == 3
    await channel.basic_ack(second.delivery_tag, multiple=True)
    rest = [await asyncio.wait_for(received.get(), PATIENCE_SECONDS) for _ in range(2)]
    assert [message.body for message in (first, second, *rest)] == [b"0", b"1", b"2", b"3"]


async def test_an_error_closes_its_channel_only(connection, channel):
    with pytest.raises(aiormq.exceptions.ChannelNotFoundEntity, match="no queue 'none' in vhost"):
        await channel.queue_declare("none", passive=True)
    assert channel.is_closed
    other = await connection.channel()
    await other.queue_declare("q")
