"""Streams of a broker without files: read from any offset, cut by retention, with dead letters."""

import aio_pika
import pytest

from leveret.broker.declarations.values import Policy, PutPolicy
from leveret.broker.policies.parameters import POLICY
from leveret.testing import EmbeddedBroker
from tests.patience import until


@pytest.fixture
async def embedded():
    async with EmbeddedBroker() as embedded:
        yield embedded


@pytest.fixture
async def channel(embedded):
    connection = await aio_pika.connect(embedded.url)
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


async def test_dead_letters_go_to_a_stream_by_policy(embedded, channel):
    stream = await declared(channel)
    definition = {"dead-letter-exchange": "", "dead-letter-routing-key": "s"}
    policy = Policy("/", "dead", "^source$", "queues", definition, 0)
    embedded.broker.services.declarations.submit(PutPolicy(POLICY, policy)).result()
    await channel.declare_queue("source")
    message = aio_pika.Message(b"a", headers={"own": "x"}, expiration=0)
    await channel.default_exchange.publish(message, "source")
    await channel.set_qos(prefetch_count=1)
    async with stream.iterator(arguments={"x-stream-offset": "first"}) as letters:
        letter = await anext(letters)
        await letter.ack()
    assert (letter.body, letter.routing_key) == (b"a", "s")
    assert letter.headers == {
        "own": "x", "x-stream-offset": 0, "x-first-death-queue": "source",
        "x-first-death-reason": "expired", "x-first-death-exchange": "",
    }  # fmt: skip
    again = await channel.declare_queue("source", passive=True)
    assert again.declaration_result.message_count == 0
