"""Streams of a broker without files: read from any offset, and cut by retention."""

import aio_pika
import pytest

from leveret.testing import EmbeddedBroker
from tests.patience import until


@pytest.fixture
async def channel():
    async with EmbeddedBroker() as broker:
        connection = await aio_pika.connect(broker.url)
        yield await connection.channel()
        await connection.close()


async def declared(channel, **arguments):
    arguments = {key.replace("_", "-"): value for key, value in arguments.items()}
    table = {"x-queue-type": "stream", **arguments}
    return await channel.declare_queue("s", durable=True, arguments=table)


async def published(channel, bodies):
    for body in bodies:
        await channel.default_exchange.publish(aio_pika.Message(body), "s")


async def offsets_from(channel, queue, start, last):
    """The offsets of the messages from here to the last one."""
    found = []

    async def take(message):
        found.append(message.headers["x-stream-offset"])
        await message.ack()

    await channel.set_qos(prefetch_count=50)
    await queue.consume(take, arguments={"x-stream-offset": start})
    await until(lambda: found and found[-1] == last)
    return found


async def test_messages_stay_and_are_read_from_any_offset(channel):
    queue = await declared(channel)
    await published(channel, [b"%d" % number for number in range(200)])
    assert await offsets_from(channel, queue, "first", 199) == list(range(200))
    assert await offsets_from(channel, queue, 150, 199) == list(range(150, 200))


async def test_a_stream_that_is_too_large_loses_its_oldest_segments(channel):
    queue = await declared(
        channel, x_max_length_bytes=40_000, x_stream_max_segment_size_bytes=10_000
    )
    await published(channel, [b"%d " % number + bytes(1000) for number in range(200)])
    found = await offsets_from(channel, queue, "first", 199)
    assert 120 < found[0] < 180
    assert found == list(range(found[0], 200))
