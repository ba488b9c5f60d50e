"""How fast the node's AMQP client publishes, and moves messages from one queue to another.

    python -m tests.bench.client_speed --messages 300000 --octets 1024 --with-aiormq

A broker runs in a process of its own. First the client publishes all messages with confirms. Then
it moves them to another queue of the broker, by two connections, as a shovel does: a message is
acknowledged when its publish is confirmed. Each line has the messages a second, and the processor
time that this process spent for a message.
"""

import argparse
import asyncio
import time

import aiormq
import uvloop
from pamqp import commands

from leveret.broker.moving.client.address import ServerAddress
from leveret.broker.moving.client.connection import ClientConnection
from leveret.compiled import build
from tests.bench.brokers import leveret

SOURCE, TARGET = "client-speed-from", "client-speed-to"
PERSISTENT = b"\x10\x00\x02"
PREFETCH = 1000
UNCONFIRMED_MAX = 2000


class Publisher:
    """Publishes a number of messages with at most UNCONFIRMED_MAX unconfirmed."""

    def __init__(self, channel, messages, body):
        self.done = asyncio.get_running_loop().create_future()
        self._channel, self._messages, self._body = channel, messages, body
        self._sent = self._confirmed = 0
        channel.on_confirmed = self._on_confirmed

    def publish(self):
        channel, body = self._channel, self._body
        while self._sent < self._messages and self._sent - self._confirmed < UNCONFIRMED_MAX:
            self._sent = channel.publish("", SOURCE, PERSISTENT, body)

    def _on_confirmed(self, tag, _multiple, is_ack):
        assert is_ack
        self._confirmed = max(self._confirmed, tag)
        if self._confirmed == self._messages:
            self.done.set_result(None)
        elif self._sent - self._confirmed < UNCONFIRMED_MAX // 2:
            self.publish()


class Mover:
    """Publishes what it takes and acknowledges what is confirmed; both count from 1."""

    def __init__(self, source, target, messages):
        self.done = asyncio.get_running_loop().create_future()
        self._source, self._target, self._messages = source, target, messages
        self._acked = 0
        target.on_confirmed = self._on_confirmed

    def take(self, deliveries):
        publish = self._target.publish
        for delivery in deliveries:
            publish("", TARGET, delivery.properties, delivery.body)

    def _on_confirmed(self, tag, multiple, is_ack):
        assert is_ack
        self._source.ack(tag, multiple)
        self._acked = self._acked + 1 if not multiple else tag
        if self._acked == self._messages:
            self.done.set_result(None)


class Stopwatch:
    """Time and processor time from now on."""

    def __init__(self):
        self._began, self._used = time.perf_counter(), time.process_time()

    def report(self, what, messages):
        seconds = time.perf_counter() - self._began
        used = time.process_time() - self._used
        print(f"{what}: {messages / seconds:,.0f} messages/s, {used / messages * 1e6:.1f} us each")


async def publish_and_move(port, messages, body):
    address = ServerAddress("127.0.0.1", port)
    first, second = [await ClientConnection.open(address, {}) for _ in range(2)]
    source, target = await first.open_channel(), await second.open_channel()
    for name in (SOURCE, TARGET):
        await source.call(commands.Queue.Declare, queue=name, durable=True)
    await target.confirm()
    stopwatch = Stopwatch()
    publisher = Publisher(target, messages, body)
    publisher.publish()
    await publisher.done
    stopwatch.report("published with confirms", messages)

    await target.close()
    target = await second.open_channel()
    await target.confirm()
    mover = Mover(source, target, messages)
    await source.call(commands.Basic.Qos, prefetch_count=PREFETCH)
    stopwatch = Stopwatch()
    await source.consume(SOURCE, mover.take)
    await mover.done
    stopwatch.report("moved with acks and confirms", messages)
    moved = await source.call(commands.Queue.Declare, queue=TARGET, passive=True)
    left = await source.call(commands.Queue.Declare, queue=SOURCE, passive=True)
    assert (moved.message_count, left.message_count) == (messages, 0)
    await first.close()
    await second.close()


async def publish_with_aiormq(port, messages, body):
    """The same publishes, as a program with aiormq makes them."""
    connection = await aiormq.connect(f"amqp://guest:guest@127.0.0.1:{port}/")
    channel = await connection.channel(publisher_confirms=True)
    await channel.queue_purge(SOURCE)
    properties = aiormq.spec.Basic.Properties(delivery_mode=2)
    room = asyncio.Semaphore(UNCONFIRMED_MAX)

    async def publish():
        async with room:
            await channel.basic_publish(body, routing_key=SOURCE, properties=properties)

    stopwatch = Stopwatch()
    await asyncio.gather(*(publish() for _ in range(messages)))
    stopwatch.report("published with confirms by aiormq", messages)
    await connection.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--messages", type=int, default=200_000)
    parser.add_argument("--octets", type=int, default=1024)
    parser.add_argument("--with-aiormq", action="store_true")
    chosen = parser.parse_args()
    body = bytes(chosen.octets)
    print(f"this process runs the build in {build()}")
    with leveret() as broker:
        uvloop.run(publish_and_move(broker.port, chosen.messages, body))
        if chosen.with_aiormq:
            uvloop.run(publish_with_aiormq(broker.port, chosen.messages // 10, body))


if __name__ == "__main__":
    main()
