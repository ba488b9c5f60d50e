"""The records of streams in a trace log, for clients of AMQP 0-9-1 and of the stream protocol."""

import asyncio
import json

import aio_pika
import pytest

pytest.importorskip("rstream", reason="the extra [test] is not fully installed")

from rstream import Consumer, ConsumerOffsetSpecification, OffsetType, Producer

from leveret.broker.tracing.block_lines import RecordBlock
from leveret.broker.tracing.log_blocks import LogBlocks, LogOptions
from leveret.broker.tracing.log_sink import LogSink
from leveret.broker.tracing.pattern import TracePattern
from leveret.testing import EmbeddedBroker
from tests.patience import PATIENCE_SECONDS
from tests.unit.broker.tracing.stand_ins import KeptOutput


class Traced:
    """A broker whose vhost has a log with this pattern. records: written so far."""

    def __init__(self, broker, pattern="#"):
        self.broker = broker
        self._output, options = KeptOutput(), LogOptions("leveret@host", "/")
        clock = broker.broker.services.clock
        self._blocks = LogBlocks(self._output, clock, options)
        sink = LogSink(self._blocks, clock, TracePattern(pattern), options)
        broker.broker.tracing.attach(broker.broker.services.vhosts["/"], sink)

    @property
    def stream_client(self):
        where = {"host": self.broker.host, "port": self.broker.stream_port}
        return {**where, "username": "guest", "password": "guest"}

    @property
    def records(self):
        self._blocks.batches.flush()
        blocks = [RecordBlock(data) for _, data in self._output.batches]
        return [json.loads(line) for block in blocks for line in block.lines().splitlines()]

    def of(self, event):
        return [one for one in self.records if one["event"] == event]

    async def until(self, event, messages):
        """Wait for records of an event, for this number of messages in all."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while sum(one.get("messages", 1) for one in self.of(event)) < messages:
                await asyncio.sleep(0.01)
        return self.of(event)


@pytest.fixture
async def traced():
    async with EmbeddedBroker(streams=True) as broker:
        yield Traced(broker)


@pytest.fixture
async def channel(traced):
    connection = await aio_pika.connect(traced.broker.url)
    async with connection:
        yield await connection.channel()


async def declare(channel, **arguments):
    table = {key.replace("_", "-"): value for key, value in arguments.items()}
    arguments = {"x-queue-type": "stream", **table}
    return await channel.declare_queue("s", durable=True, arguments=arguments)


def spans(records):
    """The offsets of each record."""
    return [range(one["offset"], one["offset"] + one["messages"]) for one in records]


async def test_messages_of_amqp_are_published_to_a_stream_committed_and_read(traced, channel):
    stream = await declare(channel, x_max_age="1h", x_max_length_bytes=10**9)
    await channel.set_qos(10)
    for number in range(3):
        message = aio_pika.Message(b"%d" % number, message_id=f"id{number}")
        await channel.default_exchange.publish(message, "s")
    published = traced.of("publish")
    assert [one["properties"]["message_id"] for one in published] == ["id0", "id1", "id2"]
    assert all((one["queues"], one["streams"]) == ([], ["s"]) for one in published)
    committed = await traced.until("commit", 3)
    assert [offset for span in spans(committed) for offset in span] == [0, 1, 2]
    placed = await traced.until("place", 3)
    assert [(one["message"], one["queue"], one["offset"]) for one in placed] == [
        (one["message"], "s", offset) for offset, one in enumerate(published)
    ]
    last = committed[-1]
    assert last["published_us"] <= last["time_us"]
    assert (last["max_age_us"], last["max_bytes"]) == (3_600_000_000, 10**9)
    assert (last["first_offset"], last["queue"]) == (0, "s")
    taken = []

    async def take(message):
        await message.ack()
        taken.append(message)

    tag = await stream.consume(take, arguments={"x-stream-offset": 1})
    found = await traced.until("read", 2)
    assert [offset for span in spans(found) for offset in span] == [1, 2]
    assert {(one["consumer_tag"], one["user"]) for one in found} == {(tag, "guest")}
    assert (found[-1]["lag"], found[-1]["filtered"]) == (0, False)
    await stream.cancel(tag)
    [ended] = await traced.until("end_reading", 1)
    assert ended["consumer_tag"] == tag
    assert not traced.of("deliver")
    assert not traced.of("ack")


async def test_messages_of_the_stream_protocol(traced):
    client = traced.stream_client
    arrived = asyncio.Event()

    async def take(message, context):
        if context.offset == 4:
            await context.consumer.store_offset("s", "billing", 4)
            arrived.set()

    async with Producer(**client) as producer, Consumer(**client) as consumer:
        await producer.create_stream("s")
        for number in range(5):
            await producer.send_wait("s", b"m%d" % number, publisher_name="shop")
        start = ConsumerOffsetSpecification(OffsetType.FIRST, None)
        await consumer.subscribe("s", take, offset_specification=start)
        await asyncio.wait_for(arrived.wait(), PATIENCE_SECONDS)
        appended = await traced.until("append", 5)
        assert {(one["publisher"], one["queue"]) for one in appended} == {("shop", "s")}
        committed = await traced.until("commit", 5)
        assert [offset for span in spans(committed) for offset in span] == list(range(5))
        read = await traced.until("read", 5)
        assert [offset for span in spans(read) for offset in span] == list(range(5))
        assert read[0]["published_us"] == committed[0]["published_us"]
        [stored] = await traced.until("store_offset", 1)
        assert (stored["consumer_tag"], stored["offset"]) == ("billing", 4)
    [ended] = await traced.until("end_reading", 1)
    assert ended["consumer_tag"] == read[0]["consumer_tag"]
    assert ended["connection"] == read[0]["connection"]


async def test_retention_moves_the_first_offset(traced, channel):
    await declare(channel, x_max_length_bytes=20_000, x_stream_max_segment_size_bytes=5_000)
    for _ in range(60):
        await channel.default_exchange.publish(aio_pika.Message(bytes(1000)), "s")
    moved = await traced.until("retain", 1)
    offsets = [one["first_offset"] for one in moved]
    assert offsets == sorted(set(offsets))
    assert offsets[0] > 0
    assert (moved[0]["max_bytes"], moved[0]["segment_bytes"]) == (20_000, 5_000)


async def test_a_pattern_selects_records_by_event_and_stream(channel, traced):
    commits = Traced(traced.broker, "commit.s")
    await declare(channel)
    await channel.default_exchange.publish(aio_pika.Message(b"x"), "s")
    await commits.until("commit", 1)
    assert {one["event"] for one in commits.records} == {"commit"}
