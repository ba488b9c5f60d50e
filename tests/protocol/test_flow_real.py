"""Publishers that are faster than the disk are slowed down equally, and memory stays bounded."""

import asyncio
import threading

import aiormq

from leveret.broker.config import Config, Listener, TcpSettings
from leveret.broker.node.broker import Broker
from leveret.storage.disk.disk import Disk
from leveret.storage.log.log import PENDING_BYTES_HIGH
from leveret.storage.metadata.metadata import SqliteMetadata
from tests.patience import PATIENCE_SECONDS

PUBLISHERS = 3
BODY = bytes(20_000)
PERSISTENT = aiormq.spec.Basic.Properties(delivery_mode=2)


class SlowDisk(Disk):
    """A disk that is slower than publishers on any machine: it writes only while they are held."""

    def __init__(self):
        super().__init__()
        self.may_write = threading.Event()
        self.may_write.set()

    def write(self, descriptor, path, data, offset):
        self.may_write.wait(PATIENCE_SECONDS)
        super().write(descriptor, path, data, offset)


async def flood(url, number, all_are_ready, is_over):
    """Publish without confirms until it is over; returns the number of messages."""
    connection = await aiormq.connect(url)
    channel = await connection.channel(publisher_confirms=False)
    await channel.queue_declare(f"flood-{number}", durable=True)
    # One that came early would have published more.
    await all_are_ready.wait()
    count = 0
    while not is_over.is_set():
        await channel.basic_publish(BODY, routing_key=f"flood-{number}", properties=PERSISTENT)
        count += 1
        if not count % 10:
            await asyncio.sleep(0)
    await connection.close()
    return count


async def test_a_slow_disk_slows_publishers_evenly(tmp_path):
    config = Config(tcp=TcpSettings(listeners=(Listener("127.0.0.1", 0),)))
    metadata = SqliteMetadata(tmp_path / "metadata.sqlite")
    disk = SlowDisk()
    broker = Broker(config, metadata, data_dir=tmp_path, disk=disk)
    await broker.start()
    host, port = broker.listening_on[0]
    all_are_ready, is_over = asyncio.Barrier(PUBLISHERS + 1), asyncio.Event()
    url = f"amqp://guest:guest@{host}:{port}/"
    floods = [
        asyncio.create_task(flood(url, number, all_are_ready, is_over))
        for number in range(PUBLISHERS)
    ]
    queues = broker.services.vhosts["/"].queues
    log = broker._store.log
    seen_in_flow = set()
    highest_pending = 0
    async with asyncio.timeout(PATIENCE_SECONDS):
        await all_are_ready.wait()
        while (
            len(seen_in_flow) < PUBLISHERS
            or sum(q.counts.published for q in queues.values()) < 1500
        ):
            highest_pending = max(highest_pending, log.pending_bytes)
            seen_in_flow |= {c.name for c in broker.connections if c.publishing_state == "flow"}
            if log.is_congested:
                disk.may_write.set()
            else:
                disk.may_write.clear()
            await asyncio.sleep(0.001)
    counts = [queue.counts.published for queue in queues.values()]
    is_over.set()
    disk.may_write.set()
    await asyncio.wait(floods, timeout=PATIENCE_SECONDS)
    await broker.stop()
    assert highest_pending < 2 * PENDING_BYTES_HIGH
    assert min(counts) > max(counts) / 3
