"""Listing very many queues, and scraping them, does not hold up deliveries."""

import asyncio
import time

import aio_pika
import pytest

from tests.mgmt.node import ServedNode

QUEUES = 3000
STALL_MS_MAX = 60
"""20 ms is what is promised, and measured in docs/performance.md on a quiet machine; tests run
beside each other, and the generator here is a Python program that has pauses of its own."""


@pytest.fixture
def crowded(tmp_path):
    """A node with thousands of queues, from definitions."""
    served = ServedNode(tmp_path)
    plain = {"vhost": "/", "durable": True, "auto_delete": False, "arguments": {}}
    queues = [{"name": f"q{number}", **plain} for number in range(QUEUES)]
    began = time.monotonic()
    assert served.post("definitions", {"queues": queues}).status == 204
    assert time.monotonic() - began < 10
    yield served
    served.stop()


async def test_deliveries_go_on_while_everything_is_listed(crowded):
    connection = await aio_pika.connect(f"amqp://guest:guest@127.0.0.1:{crowded.port}/")
    async with connection:
        channel = await connection.channel()
        queue = await channel.declare_queue("watched", auto_delete=True)
        waits = []
        arrived = asyncio.Event()

        def take(message):
            waits.append((time.monotonic_ns() - int(message.body)) / 1e6)
            arrived.set()

        await queue.consume(take, no_ack=True)
        loop = asyncio.get_running_loop()
        listing = loop.run_in_executor(None, crowded.get, "queues")
        scraping = loop.run_in_executor(None, crowded.metrics, "/metrics/per-object")
        while not (listing.done() and scraping.done()):
            arrived.clear()
            body = str(time.monotonic_ns()).encode()
            await channel.default_exchange.publish(aio_pika.Message(body), "watched")
            await asyncio.wait_for(arrived.wait(), 5)
        assert len(await listing) == QUEUES + 1
        waits.sort()
        assert waits[int(len(waits) * 0.95)] < STALL_MS_MAX
