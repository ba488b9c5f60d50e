"""The stream protocol with rstream, the client for Python, as programs use it."""

import asyncio

import pytest

pytest.importorskip("rstream", reason="the extra [test] is not fully installed")

from rstream import (
    AMQPMessage,
    CompressionType,
    Consumer,
    ConsumerOffsetSpecification,
    FilterConfiguration,
    OffsetNotFound,
    OffsetSpecification,
    OffsetType,
    Producer,
    RawMessage,
    RouteType,
    SuperStreamConsumer,
    SuperStreamCreationOption,
    SuperStreamProducer,
    amqp_decoder,
    exceptions,
)
from rstream.recovery import BackOffRecoveryStrategy

from leveret.broker.config import Config, Listener, StreamSettings
from leveret.testing import EmbeddedBroker
from tests.patience import PATIENCE_SECONDS, POLL_SECONDS
from tests.ports import free_port
from tests.stored_broker import StoredBroker


@pytest.fixture
async def client():
    """The arguments of producers and consumers of a broker."""
    async with EmbeddedBroker(streams=True) as broker:
        where = {"host": broker.host, "port": broker.stream_port}
        yield {**where, "username": "guest", "password": "guest"}


@pytest.fixture
async def producer(client):
    async with Producer(**client) as producer:
        await producer.create_stream("s")
        yield producer


class Received:
    """What a consumer gets, with the offset of each message."""

    def __init__(self):
        self.messages = []
        self._more = asyncio.Event()

    async def __call__(self, message, context):
        body = bytes(message.body if isinstance(message, AMQPMessage) else message)
        self.messages.append((context.offset, body))
        self._more.set()

    async def until(self, count):
        async with asyncio.timeout(PATIENCE_SECONDS):
            while len(self.messages) < count:
                self._more.clear()
                await self._more.wait()
        return self.messages


async def consumed(client, count, stream="s", **subscribing):
    """The messages that a new consumer gets."""
    received = Received()
    async with Consumer(**client) as consumer:
        await consumer.subscribe(stream, received, **subscribing)
        return await received.until(count)


def from_offset(kind, value=None):
    return {"offset_specification": ConsumerOffsetSpecification(kind, value)}


async def test_messages_of_a_publisher_without_a_name(client, producer):
    for number in range(3):
        await producer.send_wait("s", b"m%d" % number)
    expected = [(number, b"m%d" % number) for number in range(3)]
    assert await consumed(client, 3) == expected
    assert await consumed(client, 1, **from_offset(OffsetType.LAST)) == expected[2:]
    assert await consumed(client, 2, **from_offset(OffsetType.OFFSET, 1)) == expected[1:]
    assert await consumed(client, 3, **from_offset(OffsetType.TIMESTAMP, 1000)) == expected


async def test_a_consumer_of_what_comes_next(client, producer):
    await producer.send_wait("s", b"before")
    received = Received()
    async with Consumer(**client) as consumer:
        await consumer.subscribe("s", received, **from_offset(OffsetType.NEXT))
        await producer.send_wait("s", b"after")
        assert await received.until(1) == [(1, b"after")]


async def test_ten_thousand_messages_are_confirmed_and_in_order(client, producer):
    confirmed, is_done = [], asyncio.Event()

    async def note(status):
        assert status.is_confirmed
        confirmed.append(status.message_id)
        if len(confirmed) == 10_000:
            is_done.set()

    for first in range(0, 10_000, 500):
        batch = [AMQPMessage(body=b"%d" % number) for number in range(first, first + 500)]
        await producer.send_batch("s", batch, on_publish_confirm=note)
    await asyncio.wait_for(is_done.wait(), PATIENCE_SECONDS)
    found = await consumed(client, 10_000, decoder=amqp_decoder)
    assert found == [(number, b"%d" % number) for number in range(10_000)]


async def test_a_named_publisher_is_deduplicated(client):
    for _ in range(2):
        async with Producer(**client) as producer:
            await producer.create_stream("s", exists_ok=True)
            for number in range(1, 4):
                message = RawMessage(b"%d" % number, number)
                await producer.send_wait("s", message, publisher_name="orders")
    async with Producer(**client) as producer:
        await producer.send_wait("s", b"end")
    found = await consumed(client, 4)
    assert len(found) == 4
    assert found[3] == (3, b"end")


@pytest.mark.parametrize("compression", [CompressionType.No, CompressionType.Gzip])
async def test_batches(client, producer, compression):
    is_done = asyncio.Event()
    await producer.send_sub_entry(
        "s", [b"a", b"b", b"c"], compression, on_publish_confirm=lambda _: is_done.set()
    )
    await asyncio.wait_for(is_done.wait(), PATIENCE_SECONDS)
    assert await consumed(client, 3) == [(0, b"a"), (1, b"b"), (2, b"c")]


async def test_filters(client):
    async def region(message):
        return message.application_properties["region"]

    async with Producer(**client, filter_value_extractor=region) as producer:
        await producer.create_stream("s")
        for place in ("north", "south", "north"):
            properties = {"region": place}
            message = AMQPMessage(body=place.encode(), application_properties=properties)
            await producer.send_wait("s", message)
    wanted = FilterConfiguration(
        values_to_filter=["south"],
        predicate=lambda message: message.application_properties[b"region"] == b"south",
    )
    found = await consumed(client, 1, decoder=amqp_decoder, filter_input=wanted)
    assert [body for _, body in found] == [b"south"]


async def test_stored_offsets(client, producer):
    async with Consumer(**client) as consumer:
        with pytest.raises(OffsetNotFound):
            await consumer.query_offset("s", "app")
        await consumer.store_offset("s", "app", 17)
        assert await consumer.query_offset("s", "app") == 17


async def test_a_super_stream(client):
    async def key(message):
        return message.application_properties["id"]

    creation = SuperStreamCreationOption(n_partitions=3)
    async with SuperStreamProducer(
        **client, super_stream="orders", super_stream_creation_option=creation,
        routing_extractor=key, routing=RouteType.Hash,
    ) as producer:  # fmt: skip
        for number in range(30):
            properties = {"id": str(number)}
            await producer.send(AMQPMessage(body=b"%d" % number, application_properties=properties))
    received = Received()
    async with SuperStreamConsumer(**client, super_stream="orders") as consumer:
        await consumer.subscribe(received, decoder=amqp_decoder, **from_offset(OffsetType.FIRST))
        found = await received.until(30)
    assert sorted(int(body) for _, body in found) == list(range(30))


async def test_single_active_consumers(client, producer):
    for number in range(2):
        await producer.send_wait("s", b"m%d" % number)

    async def from_the_first(is_active, context):
        return OffsetSpecification(OffsetType.FIRST, 0)

    joined = {
        "properties": {"single-active-consumer": "true", "name": "app"},
        "subscriber_name": "app",
        "consumer_update_listener": from_the_first,
    }
    first, second = Received(), Received()
    async with Consumer(**client) as standby:
        async with Consumer(**client) as active:
            await active.subscribe("s", first, **joined)
            assert len(await first.until(2)) == 2
            await standby.subscribe("s", second, **joined)
        assert len(await second.until(2)) == 2


async def test_a_stream_that_is_deleted(client, producer):
    await producer.send_wait("s", b"m")
    await producer.delete_stream("s")
    assert not await producer.stream_exists("s")


def reconnecting():
    """Rstream's own way to reconnect, as producers have it and consumers can have it."""
    strategy = BackOffRecoveryStrategy(jitter=0)
    strategy.backoff_seconds = 0.1
    return {"recovery_strategy": strategy}


async def send_until_confirmed(producer, number):
    """Send a message with its number again and again until it is confirmed."""
    while True:
        try:
            await producer.send_wait("s", RawMessage(b"%d" % number, number), "orders")
        except (exceptions.ServerError, OSError, TimeoutError):
            await asyncio.sleep(POLL_SECONDS)
        else:
            return


async def test_a_producer_and_a_consumer_reconnect_to_a_node_that_restarts(tmp_path):
    """The producer is the program's to use again; the consumer goes on after its last chunk."""
    port = free_port()
    listener = Listener("127.0.0.1", port)
    config = Config(stream=StreamSettings(listeners=(listener,), advertised_host="127.0.0.1"))
    client = {"host": "127.0.0.1", "port": port, "username": "guest", "password": "guest"}
    received = Received()
    broker = StoredBroker(tmp_path, config=config)
    await broker.start()
    async with (
        Producer(**client, **reconnecting()) as producer,
        Consumer(**client, **reconnecting()) as consumer,
    ):
        await producer.create_stream("s")
        await consumer.subscribe("s", received)
        for number in range(1, 11):
            await send_until_confirmed(producer, number)
        await received.until(10)
        await broker.stop()
        broker = StoredBroker(tmp_path, config=config)
        await broker.start()
        # The last message is sent again, as by a program that did not get its confirm.
        for number in range(10, 21):
            await send_until_confirmed(producer, number)
        found = await received.until(20)
    await broker.stop()
    assert found == [(number - 1, b"%d" % number) for number in range(1, 21)]
