"""A typical client program on a node that is repeatedly killed.

    python -m tests.crash.account --messages 1000000 --kills 10

It publishes thousands of messages at a time with aio-pika and confirms, while the node is killed
and restarted; unconfirmed messages are published again. Then it consumes all messages, and checks
that each one is there.
"""

import argparse
import asyncio
import contextlib
import logging
import tempfile
import time
from collections import Counter
from pathlib import Path

import aio_pika
import aiormq

from tests.crash.killed_node import Node

QUEUE = "accounts"
BATCH = 2000
LOST = (OSError, RuntimeError, aiormq.exceptions.AMQPError)


class Program:
    """The program, its confirmed messages and its statistics."""

    def __init__(self, node, messages):
        self.node = node
        self.messages = messages
        self.confirmed = bytearray(messages)
        self.attempts = 0
        self.restarts = []

    async def publish_all(self):
        """Publish until everything is confirmed, whatever happens to the node."""
        left = list(range(self.messages))
        while left:
            with contextlib.suppress(*LOST):
                await self._publish(left)
            left = [number for number in left if not self.confirmed[number]]

    async def _publish(self, numbers):
        connection = await aio_pika.connect(self.node.url)
        async with connection:
            channel = await connection.channel()
            await channel.declare_queue(QUEUE, durable=True)
            exchange = channel.default_exchange
            for start in range(0, len(numbers), BATCH):
                part = numbers[start : start + BATCH]
                await asyncio.gather(*[self._publish_one(exchange, number) for number in part])

    async def _publish_one(self, exchange, number):
        message = aio_pika.Message(
            b"message %d" % number, delivery_mode=aio_pika.DeliveryMode.PERSISTENT
        )
        self.attempts += 1
        await exchange.publish(message, QUEUE)
        self.confirmed[number] = 1

    async def kill_now_and_then(self, kills):
        """Kill and restart the node each time another share of the messages is confirmed."""
        for kill in range(1, kills + 1):
            wanted = self.messages * kill // (kills + 1)
            while sum(self.confirmed) < wanted:
                await asyncio.sleep(0.02)
            self.node.kill()
            await asyncio.to_thread(self.node.start)
            self.restarts.append(self.node.ready_seconds)

    async def consume_all(self):
        """Return how often each message was received."""
        found = Counter()
        connection = await aiormq.connect(self.node.url)
        channel = await connection.channel()
        declared = await channel.queue_declare(QUEUE, passive=True)
        everything = asyncio.Event()

        async def received(delivery):
            found[int(delivery.body.split()[1])] += 1
            if sum_of(found) >= declared.message_count:
                everything.set()

        counted = [0]

        def sum_of(_):
            counted[0] += 1
            return counted[0]

        await channel.basic_consume(QUEUE, received, no_ack=True)
        await everything.wait()
        await connection.close()
        return found


async def account(directory, messages, kills):
    """Run the program and return its results by name."""
    node = Node(directory)
    node.start()
    program = Program(node, messages)
    started_at = time.monotonic()
    killing = asyncio.create_task(program.kill_now_and_then(kills))
    await program.publish_all()
    await killing
    published_after = time.monotonic() - started_at
    found = await program.consume_all()
    node.stop()
    return {
        "messages": messages,
        "published, with attempts that failed": program.attempts,
        "confirmed": sum(program.confirmed),
        "confirmed and missing": sum(1 for number in range(messages) if not found[number]),
        "there more than once": sum(1 for count in found.values() if count > 1),
        "seconds to publish": round(published_after, 1),
        "seconds in all": round(time.monotonic() - started_at, 1),
        "slowest restart, seconds": round(max(program.restarts, default=0), 2),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--kills", type=int, default=10)
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    with tempfile.TemporaryDirectory() as directory:
        outcome = asyncio.run(account(Path(directory) / "data", options.messages, options.kills))
    for name, value in outcome.items():
        print(f"{name:40} {value:>12,}")
    raise SystemExit(bool(outcome["confirmed and missing"]))


if __name__ == "__main__":
    main()
