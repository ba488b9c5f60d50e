"""Delayed messages outlive power cuts, while they wait, move between buckets and are released."""

import asyncio
import os
import random

import pytest

from leveret.broker.queues.contract.publication import publication_of
from leveret.broker.runtime.virtual_clock import VirtualClock
from leveret.broker.vhost import delayed_messages
from leveret.broker.vhost.delayed_messages import BUCKETS, DelayedMessages
from leveret.storage.messages.message import Message
from leveret.storage.messages.message_run import run_of
from leveret.storage.metadata.metadata import NoMetadata
from leveret.storage.store.store import Store
from tests.patience import PATIENCE_SECONDS
from tests.storage.machine import ADDRESSES, PERSISTENT, Machine, make_header, number_of
from tests.storage.power_cut_disk import PowerCutDisk, PowerIsOff
from tests.storage.reading import ready_entries
from tests.turns_by_hand import TurnsByHand

SEEDS = range(int(os.environ.get("LEVERET_STORE_SEEDS", "15")) // 5)
DELAYED_ID, QUEUE_ID = 1, 2


class Node:
    """A store with one delaying exchange, which releases to one durable queue."""

    def __init__(self, directory, chance):
        self.directory = directory
        self.chance = chance
        self.clock = VirtualClock()
        self.due_ms = {}
        self.confirmed = set()

    def start(self, disk):
        self.disk = disk
        self.turns = TurnsByHand()
        self.store = store = Store(
            self.directory, NoMetadata(), make_header, disk=disk, log_file_bytes=20_000
        )
        store.open()
        self.queue = store.queue(QUEUE_ID, 0, "q", True, False)
        self.delayed = DelayedMessages(
            self.clock, self.turns, lambda level: store.queue(DELAYED_ID, level, "e", True, False),
            store.levels_of(DELAYED_ID, BUCKETS - 1), self._release,
        )  # fmt: skip
        store.all_restored()
        store.pager.set_budget(30_000)

    def _release(self, message, publisher):
        assert self.clock.now_ms() >= self.due_ms[int(message.body)]
        assert self.queue.publish(run_of([message]), 0)
        publisher.hold(0, 1, self.queue)
        self.queue.when_safe(publisher, 0, self.queue)

    # What a publisher is for a queue

    def hold(self, first, count, holder):
        """Nothing to do: the message counts as confirmed when `confirm` is called."""

    def confirm(self, first, holder):
        self.confirmed.add(first)

    async def work(self, steps):
        for _ in range(steps):
            number = len(self.due_ms)
            delay_ms = self.chance.choice((10, 300, 5000, 70_000)) + self.chance.randrange(100)
            self.due_ms[number] = self.clock.now_ms() + delay_ms
            message = Message(ADDRESSES[0], PERSISTENT, b"%d" % number)
            self.delayed.add(publication_of([message], None, self, number), delay_ms)
            if self.chance.random() < 0.3:
                self.advance(self.chance.choice((0.01, 0.5, 5)))
                await asyncio.sleep(0)
            if self.store.log.failure is not None:
                return

    def advance(self, seconds):
        self.clock.advance(seconds)
        self.turns.run()

    async def cut(self):
        self.delayed.close()
        self.disk.is_off = True
        await Machine.halt(self)
        self.disk.cut()

    async def release_all(self):
        async with asyncio.timeout(PATIENCE_SECONDS):
            while self.delayed.count:
                self.advance(10)
                await asyncio.sleep(0.001)


@pytest.mark.parametrize("point", ["log.written", "log.synced"])
@pytest.mark.parametrize("seed", SEEDS)
async def test_a_power_cut_loses_no_delayed_message(tmp_path, monkeypatch, seed, point):
    monkeypatch.setattr(delayed_messages, "LOADED_MESSAGES_MAX", 5)
    chance = random.Random(seed)
    node = Node(tmp_path, chance)
    for _ in range(4):
        dies_at = (point, chance.choice((1, 2, 5, 9)))
        node.start(PowerCutDisk(chance, dies_at))
        try:
            await node.work(chance.randint(10, 300))
            await asyncio.sleep(0.005)
        except PowerIsOff:
            pass
        await node.cut()
    node.start(PowerCutDisk(chance, None))
    await node.release_all()
    # Who looks at the result waits for the disk.
    node.store.reads.worker = None
    assert node.confirmed <= set(map(number_of, ready_entries(node.queue)))
    await node.store.close()
