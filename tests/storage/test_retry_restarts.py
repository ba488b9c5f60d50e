"""Messages that wait for their retry, over restarts and power cuts: none is lost or forgotten.

A model of the queue runs beside it. After a clean stop each message is in the queue once, with its
count. After a power cut each message that was confirmed and not acked is there at least once: a
message may be doubled that was being put aside, like one whose ack the disk does not have.
"""

import asyncio
import os
import random

import pytest

from leveret.broker.amqp.content_header import header_with, read_stored
from leveret.broker.queues.classic.classic_queue import ClassicQueue
from leveret.broker.queues.contract.publication import publication_of
from leveret.storage.messages.message import Message
from leveret.storage.metadata.metadata import NoMetadata
from leveret.storage.store.store import Store
from tests.patience import PATIENCE_SECONDS
from tests.storage.machine import ADDRESSES, Machine
from tests.storage.power_cut_disk import PowerCutDisk, PowerIsOff
from tests.turns_by_hand import TurnsByHand
from tests.unit.broker.queues.fakes import FakeVhost, got, specified

SEEDS = range(max(3, int(os.environ.get("LEVERET_STORE_SEEDS", "15")) // 5))
ARGUMENTS = {
    "x-delayed-retry-type": ("S", "returned"),
    "x-delayed-retry-min": ("I", 1000),
    "x-delayed-retry-multiplier": ("d", 3.0),
    "x-delivery-limit": ("I", 3),
}


class NotedDeaths:
    """The dead-lettering of a queue. gone: the numbers of messages above the delivery limit."""

    def __init__(self, deaths, gone):
        self._deaths = deaths
        self._gone = gone

    def let_die(self, entries, reason):
        self._gone.update(int(entry.message.body) for entry in entries)
        self._deaths.let_die(entries, reason)


class Node:
    """A store with one durable queue. confirmed: what the log has. gone: what was acked or died."""

    def __init__(self, directory, chance):
        self.directory = directory
        self.chance = chance
        self.vhost = FakeVhost()
        self.clock = self.vhost.clock
        self.published = 0
        self.confirmed = set()
        self.gone = set()

    def start(self, disk):
        self.disk = disk
        self.vhost.turns = self.turns = TurnsByHand()
        self.store = store = Store(
            self.directory, NoMetadata(), read_stored, disk=disk, log_file_bytes=20_000
        )
        store.open()
        # Reads wait for the disk, so that each step has its result at once.
        store.reads.worker = None
        backing = store.queue(1, 0, "q", True, False)
        store.all_restored()
        store.pager.set_budget(30_000)
        self.queue = ClassicQueue(self.vhost, specified(ARGUMENTS, durable=True), backing)
        self.queue.retries._deaths = NotedDeaths(self.queue._deaths, self.gone)
        self.turns.run()

    def hold(self, first, count, holder):
        """Nothing to do: the message counts as confirmed when `confirm` is called."""

    def confirm(self, first, holder):
        self.confirmed.add(first)

    async def work(self, steps):
        for _ in range(steps):
            self.chance.choice((self.publish, self.publish, self.take))()
            if self.chance.random() < 0.3:
                self.clock.advance(self.chance.choice((0.01, 0.5, 5)))
                self.turns.run()
                await asyncio.sleep(0)
            if self.store.log.failure is not None:
                return

    def publish(self):
        number, self.published = self.published, self.published + 1
        message = Message(ADDRESSES[0], header_with(delivery_mode=2), b"%d" % number)
        self.queue.publish(publication_of([message], None, self, number))

    def take(self):
        entry = got(self.queue)
        if entry is None:
            return
        if self.chance.random() < 0.3:
            self.gone.add(int(entry.message.body))
            self.queue.ack([entry])
        else:
            self.queue.requeue([entry])
        self.turns.run()

    def waiting(self):
        """How often each waiting message was returned, and until when it waits."""
        return {
            position: one.entry.message.header.mark for position, one in self.queue.retries.waiting
        }

    async def finds(self, waiting):
        """The messages that wait are found, also those on disk."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while self.waiting() != waiting:
                self.turns.run()
                await asyncio.sleep(0.001)

    async def drained(self):
        """The numbers of all messages, as consumers get them in the end."""
        numbers = []
        async with asyncio.timeout(PATIENCE_SECONDS):
            while self.queue.figures.counts().messages:
                self.clock.advance(30)
                self.turns.run()
                while (entry := got(self.queue)) is not None:
                    numbers.append(int(entry.message.body))
                    self.queue.ack([entry])
                await asyncio.sleep(0.001)
        return numbers

    async def cut(self):
        self.queue.close()
        self.disk.is_off = True
        await Machine.halt(self)
        self.disk.cut()


@pytest.mark.parametrize("seed", SEEDS)
async def test_a_restart_keeps_each_message_once_with_its_count(tmp_path, seed):
    node = Node(tmp_path, random.Random(seed))
    for _ in range(3):
        node.start(PowerCutDisk(node.chance, None))
        await node.work(150)
        before = node.waiting()
        node.queue.close()
        await node.store.close()
        node.start(PowerCutDisk(node.chance, None))
        await node.finds(before)
        node.queue.close()
        await node.store.close()
    node.start(PowerCutDisk(node.chance, None))
    found = await node.drained()
    assert sorted(found) == sorted(set(range(node.published)) - node.gone)
    await node.store.close()


@pytest.mark.parametrize("point", ["log.written", "log.synced"])
@pytest.mark.parametrize("seed", SEEDS)
async def test_a_power_cut_loses_no_waiting_message(tmp_path, seed, point):
    node = Node(tmp_path, random.Random(seed))
    for _ in range(4):
        node.start(PowerCutDisk(node.chance, (point, node.chance.choice((1, 2, 5, 9)))))
        try:
            await node.work(node.chance.randint(10, 300))
            await asyncio.sleep(0.005)
        except PowerIsOff:
            pass
        await node.cut()
    node.start(PowerCutDisk(node.chance, None))
    found = await node.drained()
    assert node.confirmed - node.gone <= set(found)
    await node.store.close()
