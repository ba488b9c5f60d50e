"""Returned messages, and dead letters of the strategy at-least-once, outlive power cuts."""

import asyncio
import os
import random

import pytest

from leveret.broker.amqp.content import encode_address
from leveret.broker.amqp.content_header import read_header
from leveret.broker.amqp.properties import encode_properties
from leveret.broker.queues.classic.classic_factory import ClassicFactory
from leveret.broker.queues.contract.publication import publication_of
from leveret.broker.queues.dead_letters.header import EXPIRED
from leveret.broker.queues.quorum.quorum_queue import QuorumQueue
from leveret.broker.queues.quorum_kind import QUORUM_QUEUE
from leveret.broker.runtime.virtual_clock import VirtualClock
from leveret.broker.vhost.virtual_host import VirtualHost
from leveret.storage.messages.message import Address, Message
from leveret.storage.metadata.metadata import NoMetadata
from leveret.storage.store.store import Store
from tests.patience import PATIENCE_SECONDS
from tests.storage.machine import Machine, make_header, number_of
from tests.storage.power_cut_disk import PowerCutDisk, PowerIsOff
from tests.storage.reading import ready_entries
from tests.turns_by_hand import TurnsByHand
from tests.unit.broker.queues.fakes import got

SEEDS = range(int(os.environ.get("LEVERET_STORE_SEEDS", "15")) // 5)
STORAGE_IDS = {"source": 1, "classic": 2, "quorum": 3}
TARGETS = ("classic", "quorum")
ARGUMENTS = {
    "source": {
        "x-queue-type": ("S", "quorum"), "x-dead-letter-exchange": ("S", ""),
        "x-dead-letter-strategy": ("S", "at-least-once"), "x-overflow": ("S", "reject-publish"),
    },
    "classic": {},
    "quorum": {"x-queue-type": ("S", "quorum")},
}  # fmt: skip
# A message died in the source under these keys: its letter goes to both targets.
ADDRESS = Address("", "classic", encode_address("", "classic"))
COPIED = {"CC": ("A", [("S", "quorum")])}
HEADER = read_header(encode_properties({"headers": COPIED}))


class Node:
    """A vhost with a source and two targets. It is the publisher of what is published."""

    def __init__(self, directory, chance):
        self.directory = directory
        self.chance = chance
        self.published_count = 0
        self.confirmed = set()

    def start(self, disk):
        self.disk = disk
        self.clock, self.turns = VirtualClock(), TurnsByHand()
        self.store = Store(
            self.directory, NoMetadata(), make_header, disk=disk, log_file_bytes=20_000
        )
        # Readers wait for the disk: a get is answered at once.
        self.store.reads.worker = None
        self.store.open()
        self.vhost = VirtualHost("/", self.turns, self.clock, None, self.store)
        self.vhost.kinds.add(ClassicFactory(QUORUM_QUEUE, QuorumQueue))
        for name, storage_id in STORAGE_IDS.items():
            self.vhost.add_queue(
                self.vhost.kinds.specify(
                    "/", name, ARGUMENTS[name], durable=True, storage_id=storage_id
                )
            )
        self.queues = self.vhost.queues
        self.source = self.queues["source"]
        self.store.all_restored()
        self.store.pager.set_budget(30_000)
        self.turns.run()

    def hold(self, first, count, holder):
        """Nothing to do: the message counts as confirmed when `confirm` is called."""

    def confirm(self, first, holder):
        self.confirmed.add(first)

    def publish(self, size, ttl_ms):
        number, self.published_count = self.published_count, self.published_count + 1
        body = b"%d:" % number + bytes(size)
        self.source.publish(publication_of([Message(ADDRESS, HEADER, body)], ttl_ms, self, number))

    async def work(self, steps):
        for _ in range(steps):
            ttl_ms = 0 if self.chance.random() < 0.5 else None
            self.publish(self.chance.choice((0, 100, 5000)), ttl_ms)
            if self.chance.random() < 0.3 and (entry := got(self.source)) is not None:
                self.chance.choice((self.source.discard, self.source.requeue))([entry])
            if self.chance.random() < 0.3:
                self.turns.run()
                await asyncio.sleep(0)
            if self.store.log.failure is not None:
                return

    async def cut(self):
        self.vhost.close()
        self.disk.is_off = True
        await Machine.halt(self)
        self.disk.cut()

    def found(self, name):
        return set(map(number_of, ready_entries(self.queues[name].backing)))

    async def publish_letters(self):
        """Wait until every message that died is safe in the targets."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while self.source.figures.counts().dlx:
                self.turns.run()
                await asyncio.sleep(0.001)


@pytest.mark.parametrize("point", ["log.written", "log.synced"])
@pytest.mark.parametrize("seed", SEEDS)
async def test_a_power_cut_loses_no_message_that_dies(tmp_path, seed, point):
    chance = random.Random(seed)
    node = Node(tmp_path, chance)
    # However early the power is cut, there is one letter before.
    node.start(PowerCutDisk(chance, None))
    node.publish(100, 0)
    await node.publish_letters()
    await node.cut()
    for _ in range(4):
        node.start(PowerCutDisk(chance, (point, chance.choice((1, 2, 5, 9)))))
        try:
            await node.work(chance.randint(10, 200))
            await asyncio.sleep(0.005)
        except PowerIsOff:
            pass
        await node.cut()
    node.start(PowerCutDisk(chance, None))
    await node.publish_letters()
    left = node.found("source")
    assert 0 in node.confirmed
    for name in TARGETS:
        assert node.confirmed <= left | node.found(name), name
        reasons = {
            entry.message.header.headers["x-first-death-reason"][1]
            for entry in ready_entries(node.queues[name].backing)
        }
        assert EXPIRED in reasons
    node.vhost.close()
    await node.store.close()
