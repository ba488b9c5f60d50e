"""Publishers and consumers that work until their node dies, and the record of what they saw.

The record is kept outside the broker. `problems` compares it with what a restarted node delivers:

- a message that was confirmed, persistent, and not acked by a consumer is there;
- every message was published, is intact, is there once, and in its publisher's order;
- every message is marked as redelivered, since it may have been delivered before;
- transient messages are gone;
- the node delivers as many messages as it reports.
"""

import asyncio
import contextlib
import random
import subprocess
import zlib
from collections import defaultdict

import aiormq

from tests.patience import PATIENCE_SECONDS

QUEUES = {
    "plain": {},
    "prio": {"x-max-priority": 3},
    "lazy": {"x-queue-mode": "lazy"},
    "fan-1": {},
    "fan-2": {},
}
CONSUMED = ("plain", "fan-1", "prio", "lazy")
SHORT_LIVED = "short-lived"
FANOUT = "crash.fanout"
OPEN_CONFIRMS = 100
LOST = (OSError, RuntimeError, asyncio.CancelledError, aiormq.exceptions.AMQPError)


def body_of(publisher, sequence, chance):
    size = chance.choice((0, 30, 300, 1000, 5000, 20_000 if chance.random() < 0.2 else 100))
    filling = chance.randbytes(min(size, 64)) * (size // 64)
    return b"%d:%d:%d:" % (publisher, sequence, zlib.crc32(filling)) + filling


def read_body(body):
    """Return (publisher, sequence) of an intact body."""
    publisher, sequence, crc, filling = body.split(b":", 3)
    assert zlib.crc32(filling) == int(crc), "the body is damaged"
    return int(publisher), int(sequence)


class Record:
    """What was done with messages, by queue. A message is (publisher, sequence)."""

    def __init__(self):
        self.published = defaultdict(dict)
        self.confirmed = defaultdict(set)
        self.delivered = defaultdict(set)
        self.acked = defaultdict(set)
        self.priority = {}

    def problems(self, queue, told_count, drained):
        """Return what is wrong with a queue's contents: (message, redelivered) pairs in order."""
        messages = [message for message, _ in drained]
        present = set(messages)
        published = self.published[queue]
        wanted = {
            message for message in self.confirmed[queue] - self.acked[queue] if published[message]
        }
        if missing := wanted - present:
            yield f"{queue}: confirmed and missing: {sorted(missing)[:20]} ({len(missing)})"
        if len(messages) != len(present):
            yield f"{queue}: some are there more than once"
        if strange := present - published.keys():
            yield f"{queue}: never published: {sorted(strange)[:20]}"
        if transient := [message for message in present if published.get(message) is False]:
            yield f"{queue}: not persistent and still there: {transient[:20]}"
        flagged = {message for message, redelivered in drained if redelivered}
        if unmarked := present - flagged:
            yield f"{queue}: not marked as redelivered: {sorted(unmarked)[:20]}"
        if told_count != len(messages):
            yield f"{queue}: says it has {told_count}, has {len(messages)}"
        by_source = defaultdict(list)
        for message in messages:
            by_source[message[0], self.priority.get(message, 0)].append(message[1])
        if any(sequences != sorted(sequences) for sequences in by_source.values()):
            yield f"{queue}: out of order"

    def go_on_with(self, queue, drained):
        """Continue with the found messages."""
        present = {message for message, _ in drained}
        self.published[queue] = dict.fromkeys(present, True)
        self.confirmed[queue] &= present
        self.delivered[queue] = set(present)
        self.acked[queue] = set()


class Traffic:
    """Clients of a node."""

    def __init__(self, url, seed):
        self.url = url
        self.chance = random.Random(seed)
        self.record = Record()
        self.sequences = defaultdict(int)

    async def declare(self):
        connection = await aiormq.connect(self.url)
        channel = await connection.channel()
        await channel.exchange_declare(exchange=FANOUT, exchange_type="fanout", durable=True)
        for queue, arguments in QUEUES.items():
            await channel.queue_declare(queue, durable=True, arguments=arguments)
            if queue.startswith("fan"):
                await channel.queue_bind(queue, FANOUT)
        await connection.close()

    async def run(self, seconds):
        """Work for a number of seconds, or until the node dies."""
        tasks = self._start()
        await asyncio.wait(tasks, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        return tasks

    async def run_until_killed(self, process, seconds):
        """Work until the node's process has ended, but not for more than a number of seconds.

        A client that is cut off says less: that happens a moment before the process has ended.
        """
        tasks = self._start()
        with contextlib.suppress(subprocess.TimeoutExpired):
            await asyncio.to_thread(process.wait, seconds)
        return tasks

    def _start(self):
        workers = [self._publish(publisher) for publisher in range(3)]
        workers += [self._consume(queue) for queue in CONSUMED]
        workers.append(self._declare_and_delete())
        return [asyncio.create_task(worker) for worker in workers]

    @staticmethod
    async def end(tasks):
        """The node is dead, so its clients have ended."""
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _declare_and_delete(self):
        """Durable queues come and go: each declaration and deletion is synced."""
        with contextlib.suppress(*LOST):
            connection = await aiormq.connect(self.url)
            channel = await connection.channel()
            while not connection.is_closed:
                await channel.queue_declare(SHORT_LIVED, durable=True)
                await channel.queue_delete(SHORT_LIVED)

    async def _publish(self, publisher):
        with contextlib.suppress(*LOST):
            connection = await aiormq.connect(self.url)
            channel = await connection.channel(publisher_confirms=True)
            open_confirms = asyncio.Semaphore(OPEN_CONFIRMS)
            while not connection.is_closed:
                await open_confirms.acquire()
                task = asyncio.ensure_future(self._publish_one(channel, publisher))
                task.add_done_callback(lambda done: (done.exception(), open_confirms.release()))
                await asyncio.sleep(0)

    async def _publish_one(self, channel, publisher):
        message = (publisher, self.sequences[publisher])
        self.sequences[publisher] += 1
        is_persistent = self.chance.random() < 0.9
        priority = self.chance.randint(0, 3)
        key = self.chance.choice(("plain", "prio", "lazy", ""))
        queues = [key] if key else ["fan-1", "fan-2"]
        for queue in queues:
            self.record.published[queue][message] = is_persistent
        if key == "prio":
            self.record.priority[message] = priority
        properties = aiormq.spec.Basic.Properties(
            delivery_mode=2 if is_persistent else 1, priority=priority
        )
        body = body_of(*message, self.chance)
        with contextlib.suppress(*LOST):
            await channel.basic_publish(
                body, exchange="" if key else FANOUT, routing_key=key, properties=properties
            )
            for queue in queues:
                self.record.confirmed[queue].add(message)

    async def _consume(self, queue):
        record = self.record
        with contextlib.suppress(*LOST):
            connection = await aiormq.connect(self.url)
            channel = await connection.channel()
            await channel.basic_qos(prefetch_count=self.chance.choice((1, 20, 200)))

            async def received(delivery):
                message = read_body(delivery.body)
                record.delivered[queue].add(message)
                with contextlib.suppress(*LOST):
                    fate = self.chance.random()
                    if fate < 0.7:
                        record.acked[queue].add(message)
                        await channel.basic_ack(delivery.delivery_tag)
                    elif fate < 0.75:
                        await channel.basic_nack(delivery.delivery_tag, requeue=True)

            await channel.basic_consume(queue, received)
            await connection.closing

    async def check(self):
        """Return what is wrong with the node's messages. All of them are requeued."""
        connection = await aiormq.connect(self.url)
        problems = []
        for queue in QUEUES:
            channel = await connection.channel()
            declared = await channel.queue_declare(queue, passive=True)
            drained = await self._drain(channel, queue, declared.message_count)
            problems += self.record.problems(queue, declared.message_count, drained)
            self.record.go_on_with(queue, drained)
            await channel.close()
        await connection.close()
        return problems

    @staticmethod
    async def _drain(channel, queue, count):
        drained = []
        everything = asyncio.Event()

        async def received(delivery):
            drained.append((read_body(delivery.body), delivery.delivery.redelivered))
            if len(drained) >= count:
                everything.set()

        if count:
            consumed = await channel.basic_consume(queue, received)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(everything.wait(), PATIENCE_SECONDS)
            await channel.basic_cancel(consumed.consumer_tag)
        left = await channel.basic_get(queue)
        if getattr(left, "body", None):
            drained.append((read_body(left.body), left.delivery.redelivered))
        return drained
