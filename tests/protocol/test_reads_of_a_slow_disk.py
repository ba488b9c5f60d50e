"""Messages come back from a disk that does not answer: only those wait who want these messages."""

import asyncio
import threading

import aiormq
import pytest

from leveret.broker.queues.classic.inspection import Inspection
from leveret.broker.queues.delivery.reading import read_on
from leveret.storage.disk.disk import Disk
from tests.protocol.test_unreadable_messages import PERSISTENT, all_on_disk, until
from tests.stored_broker import StoredBroker

COUNT = 100
LAZY = {"x-queue-mode": "lazy"}
LOOP = threading.main_thread().name
IN_SEGMENTS, IN_BODIES, LARGE = 100, 8 * 1024, 1 << 20


class SlowDisk(Disk):
    """Nothing of segments and bodies is in the system's memory; reads wait for `is_well`.

    readers: the threads that read. The event loop's does not wait, to end a test that fails.
    """

    def __init__(self):
        super().__init__()
        self.is_well = threading.Event()
        self.readers = set()

    def read_cached(self, descriptor, offset, size):
        return None

    def read_from(self, descriptor, path, offset, size):
        if path.suffix in (".segment", ".bodies"):
            name = threading.current_thread().name
            self.readers.add(name)
            if name != LOOP:
                self.is_well.wait()
        return super().read_from(descriptor, path, offset, size)


def body(number, size):
    return b"%d " % number + bytes(size)


async def on_disk(node, disk, size, count=COUNT):
    """A channel, and the queue `lazy` with messages that are on disk only."""
    channel = await (await aiormq.connect(node.url)).channel()
    await channel.queue_declare("lazy", durable=True, arguments=LAZY)
    await asyncio.gather(
        *(
            channel.basic_publish(body(number, size), routing_key="lazy", properties=PERSISTENT)
            for number in range(count)
        )
    )
    queue = node.broker.services.vhosts["/"].queues["lazy"]
    await all_on_disk(node.broker, queue)
    disk.readers.clear()
    return channel, queue


async def serves_others(node):
    """Another client publishes and gets messages."""
    channel = await (await aiormq.connect(node.url)).channel()
    await channel.queue_declare("transient")
    for _ in range(20):
        await channel.basic_publish(b"quick", routing_key="transient")
        assert (await channel.basic_get("transient", no_ack=True)).body == b"quick"
    await channel.connection.close()


@pytest.mark.parametrize("size", [IN_SEGMENTS, IN_BODIES])
async def test_a_consumer_waits_and_gets_all_in_order(tmp_path, size):
    disk = SlowDisk()
    async with StoredBroker(tmp_path, disk=disk) as node:
        channel, _ = await on_disk(node, disk, size)
        received = []

        async def receive(message):
            received.append(message.body)

        await channel.basic_consume("lazy", receive, no_ack=True)
        await until(lambda: disk.readers)
        await serves_others(node)
        assert received == []
        disk.is_well.set()
        await until(lambda: len(received) == COUNT)
        assert received == [body(number, size) for number in range(COUNT)]
        assert LOOP not in disk.readers
        await channel.connection.close()


async def test_requests_to_the_queue_meanwhile_are_answered_in_order(tmp_path):
    disk = SlowDisk()
    async with StoredBroker(tmp_path, disk=disk) as node:
        channel, _ = await on_disk(node, disk, IN_BODIES)
        getting = [asyncio.create_task(channel.basic_get("lazy", no_ack=True)) for _ in range(3)]
        await until(lambda: disk.readers)
        other = await (await aiormq.connect(node.url)).channel()
        await other.basic_publish(b"late", routing_key="lazy", properties=PERSISTENT)
        assert not any(task.done() for task in getting)
        disk.is_well.set()
        got = [(await task).body for task in getting]
        assert got == [body(number, IN_BODIES) for number in range(3)]
        assert (await other.queue_purge("lazy")).message_count == COUNT - 3 + 1
        await other.connection.close()
        await channel.connection.close()


async def test_a_purge_and_a_deletion_do_not_wait_for_the_read(tmp_path):
    disk = SlowDisk()
    async with StoredBroker(tmp_path, disk=disk) as node:
        channel, queue = await on_disk(node, disk, IN_SEGMENTS)
        other = await (await aiormq.connect(node.url)).channel()
        getting = asyncio.create_task(channel.basic_get("lazy"))
        await until(lambda: disk.readers)
        assert (await other.queue_purge("lazy")).message_count == COUNT
        await other.basic_publish(b"after", routing_key="lazy", properties=PERSISTENT)
        disk.is_well.set()
        assert (await getting).body == b"after"
        assert queue.backing.ready_count == 0
        await other.connection.close()
        await channel.connection.close()


@pytest.mark.parametrize("size", [IN_SEGMENTS, IN_BODIES, LARGE])
async def test_management_waits_for_what_it_browses(tmp_path, size):
    disk = SlowDisk()
    count = 3 if size == LARGE else COUNT
    async with StoredBroker(tmp_path, disk=disk) as node:
        channel, queue = await on_disk(node, disk, size, count)
        inspection = Inspection(queue)
        cursor = inspection.cursor()
        browsing = asyncio.create_task(read_on(cursor, 1 << 20))
        await until(lambda: disk.readers)
        await serves_others(node)
        assert not browsing.done()
        disk.is_well.set()
        found = await browsing
        while entries := await read_on(cursor, 1 << 20):
            found += entries
        cursor.close()
        assert [entry.message.body for entry in found] == [body(n, size) for n in range(count)]
        taken = inspection.take(found[1:])
        assert [entry.message.body for entry in taken] == [body(n, size) for n in range(1, count)]
        assert LOOP not in disk.readers
        await channel.connection.close()


@pytest.mark.parametrize("size", [IN_SEGMENTS, IN_BODIES, LARGE])
async def test_publishers_wait_until_identifiers_are_read(tmp_path, size):
    disk = SlowDisk()
    async with StoredBroker(tmp_path, disk=disk) as node:
        channel, queue = await on_disk(node, disk, size, 3 if size == LARGE else COUNT)
        queue.apply(queue.options._replace(deduplicates=True))
        publishing = asyncio.create_task(
            channel.basic_publish(b"late", routing_key="lazy", properties=PERSISTENT)
        )
        await until(lambda: disk.readers)
        await serves_others(node)
        assert not publishing.done()
        disk.is_well.set()
        await publishing
        assert LOOP not in disk.readers
        await channel.connection.close()
