"""A message keeps its number in memory, on disk, in several queues, and over restarts.

The node may keep almost nothing in memory, so that queued messages are on disk only.
"""

import asyncio

import aio_pika
import pytest

from leveret.broker.config import Config, Listener, MemorySettings, TcpSettings
from leveret.broker.events.taps import Sink
from leveret.broker.node.broker import Broker
from leveret.storage.metadata.metadata import SqliteMetadata
from tests.patience import PATIENCE_SECONDS

CONFIG = Config(
    tcp=TcpSettings(listeners=(Listener("127.0.0.1", 0),)),
    memory=MemorySettings(paging_ratio=0.0001),
    message_log_file_bytes=100_000,
)
COUNT = 300


class Numbers(Sink):
    """The numbers of messages by their bodies: as published, and as delivered."""

    def __init__(self):
        self.published_as = {}
        self.delivered_as = {}
        self.letters = {}

    def published(self, channel, messages, routing_keys, queues, reason=""):
        self.published_as |= {message.body: message.number for message in messages}

    def delivered(self, channel, queue, consumer_tag, entries, first_tag, no_ack):
        numbers = self.delivered_as.setdefault(queue.name, {})
        numbers |= {entry.message.body: entry.message.number for entry in entries}

    def dead_lettered(self, queue, message, reason, letter, routing_keys, queues):
        self.letters[message.number] = letter.number


class Running:
    """A broker on a directory, a sink for its vhost, and a client."""

    def __init__(self, directory):
        self._directory = directory
        self.sink = Numbers()

    async def __aenter__(self):
        metadata = SqliteMetadata(self._directory / "metadata.sqlite")
        self.broker = Broker(CONFIG, metadata, data_dir=self._directory)
        await self.broker.start()
        self.broker.tracing.attach(self.broker.services.vhosts["/"], self.sink)
        port = self.broker.listening_on[0].port
        self._connection = await aio_pika.connect(f"amqp://guest:guest@127.0.0.1:{port}/")
        self.channel = await self._connection.channel()
        return self

    async def __aexit__(self, *_):
        await self._connection.close()
        await self.broker.stop()

    async def publish(self, exchange, bodies):
        # Some equal and some different, some small and some large enough for the message store.
        for place, body in enumerate(bodies):
            properties = {"delivery_mode": 2, "priority": place // 40 % 2}
            await exchange.publish(aio_pika.Message(body, **properties), "k")

    async def drain(self, queue):
        async with asyncio.timeout(PATIENCE_SECONDS):
            while (message := await queue.get(no_ack=True, fail=False)) is not None:
                assert message.body


def bodies():
    return [b"%d:" % place + bytes(10_000 if place % 7 == 0 else 100) for place in range(COUNT)]


@pytest.mark.parametrize("arguments", [{}, {"x-max-priority": 3}], ids=["plain", "priorities"])
async def test_over_restarts_and_from_disk(tmp_path, arguments):
    async with Running(tmp_path) as node:
        exchange = await node.channel.declare_exchange("x", "fanout", durable=True)
        for name in ("one", "two"):
            queue = await node.channel.declare_queue(name, durable=True, arguments=arguments)
            await queue.bind(exchange)
        await node.publish(exchange, bodies())
        published = node.sink.published_as
        assert len(set(published.values())) == COUNT
        await node.drain(await node.channel.get_queue("one"))
        assert node.sink.delivered_as["one"] == published
    for _ in range(2):
        async with Running(tmp_path) as node:
            queue = await node.channel.get_queue("two")
            message = await queue.get(no_ack=False)
            await message.reject(requeue=True)
            assert node.sink.delivered_as["two"][message.body] == published[message.body]
    async with Running(tmp_path) as node:
        await node.drain(await node.channel.get_queue("two"))
        assert node.sink.delivered_as["two"] == published
        assert node.broker.store.disk_reads, "they should have been on disk only"
        # New messages get higher numbers.
        await node.publish(node.channel.default_exchange, [b"new"])
        assert node.sink.published_as[b"new"] > max(published.values())


async def test_a_dead_letter_has_a_number_of_its_own_that_it_keeps(tmp_path):
    async with Running(tmp_path) as node:
        dead = await node.channel.declare_queue("dead", durable=True)
        await node.channel.declare_queue("k", durable=True, arguments={
            "x-max-length": 0, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead",
        })  # fmt: skip
        await node.publish(node.channel.default_exchange, [b"a", b"b"])
        before = node.sink
    letters = {body: before.letters[number] for body, number in before.published_as.items()}
    assert not set(letters.values()) & set(before.published_as.values())
    async with Running(tmp_path) as node:
        await node.drain(await node.channel.get_queue(dead.name))
        assert node.sink.delivered_as["dead"] == letters
