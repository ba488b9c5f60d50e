"""A disk that answers no sync: memory stays bounded, and only those wait who need the disk."""

import asyncio
import threading

import aiormq

from leveret.broker.declarations.values import PutBinding, PutQueue
from leveret.broker.runtime.names import QUEUE
from leveret.storage.disk.disk import Disk
from leveret.storage.log.log import PENDING_BYTES_HIGH
from leveret.storage.messages.message import ENTRY_BYTES
from tests.patience import until
from tests.stored_broker import StoredBroker

PUBLISHERS = 3
QUEUES, MESSAGES = 1500, 50
"""Entries of 20 MB, which is more than may wait for the disk."""
PERSISTENT = aiormq.spec.Basic.Properties(delivery_mode=2)
EMPTY, NO_TABLE = b"", bytes(4)
BODY = bytes(2000)
"""4,000 messages are more than may wait for the disk."""


class StalledDisk(Disk):
    """A disk whose syncs of files wait while `is_well` is not set."""

    def __init__(self):
        super().__init__()
        self.is_well = threading.Event()
        self.is_well.set()

    def sync(self, descriptor, path):
        self.is_well.wait()
        super().sync(descriptor, path)


async def channel_on(url, **options):
    connection = await aiormq.connect(url)
    return await connection.channel(**options)


async def flood(url, name, counts, is_over):
    """Publish persistent messages until it is over."""
    channel = await channel_on(url, publisher_confirms=False)
    counts[name] = 0
    while not is_over.is_set():
        await channel.basic_publish(BODY, routing_key=name, properties=PERSISTENT)
        counts[name] += 1
    await channel.connection.close()


async def test_a_disk_that_stands_still(tmp_path):
    disk = StalledDisk()
    async with StoredBroker(tmp_path, disk=disk) as node:
        broker, log = node.broker, node.broker._store.log
        names = [f"flood-{number}" for number in range(PUBLISHERS)]
        channel = await channel_on(node.url)
        for name in (*names, "confirmed"):
            await channel.queue_declare(name, durable=True)
        await channel.queue_declare("transient")
        disk.is_well.clear()
        confirm = asyncio.create_task(
            channel.basic_publish(b"safe", routing_key="confirmed", properties=PERSISTENT)
        )
        counts, is_over = {}, asyncio.Event()
        floods = [asyncio.create_task(flood(node.url, name, counts, is_over)) for name in names]
        await until(lambda: sum(c.publishing_state == "flow" for c in broker.connections) == 3)

        # Who needs no disk is served meanwhile.
        other = await channel_on(node.url)
        for _ in range(20):
            await other.basic_publish(b"quick", routing_key="transient")
            assert (await other.basic_get("transient", no_ack=True)).body == b"quick"
        assert log.pending_bytes < 2 * PENDING_BYTES_HIGH
        assert not confirm.done()

        disk.is_well.set()
        await confirm
        is_over.set()
        await asyncio.gather(*floods)
        queues = broker.services.vhosts["/"].queues
        await until(
            lambda: [queues[name].backing.ready_count for name in names] == list(counts.values())
        )
        await other.connection.close()
        await channel.connection.close()


async def test_many_messages_to_very_many_queues_while_the_disk_stands_still(tmp_path):
    disk = StalledDisk()
    async with StoredBroker(tmp_path, disk=disk) as node:
        broker = node.broker
        vhost, flow = broker.services.vhosts["/"], broker.services.flow
        names = [str(number) for number in range(QUEUES)]
        submit = broker.services.declarations.submit
        for name in names:
            submit(PutQueue("/", name, True, False, NO_TABLE))
            submit(PutBinding("/", "amq.fanout", name, "", QUEUE, NO_TABLE))
        channel = await channel_on(node.url)
        channels = [await channel.connection.channel() for _ in range(MESSAGES)]
        disk.is_well.clear()
        publishes = [
            asyncio.create_task(
                one.basic_publish(EMPTY, exchange="amq.fanout", properties=PERSISTENT)
            )
            for one in channels
        ]

        def published():
            return sum(vhost.queues[name].backing.ready_count for name in names)

        await until(lambda: flow.is_congested and not broker.services.turns.waiting)
        assert published() * ENTRY_BYTES < 1.1 * PENDING_BYTES_HIGH

        # Who waits does nothing meanwhile.
        before = broker.services.turns.rounds
        for _ in range(200):
            await asyncio.sleep(0)
        assert broker.services.turns.rounds < before + 20

        disk.is_well.set()
        await asyncio.gather(*publishes)
        assert published() == QUEUES * MESSAGES
        await channel.connection.close()
