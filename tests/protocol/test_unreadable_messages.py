"""What clients see of a queue whose messages the disk does not let the node read."""

import asyncio
import errno
import os

import aiormq
import pytest

from leveret.broker.config import Config, Listener, TcpSettings
from leveret.broker.node.broker import Broker
from leveret.broker.queues.delivery import failed_reads
from leveret.storage.disk.disk import Disk, failure
from leveret.storage.metadata.metadata import SqliteMetadata
from tests.patience import until

COUNT = 500
PERSISTENT = aiormq.spec.Basic.Properties(delivery_mode=2)
CONFIG = Config(tcp=TcpSettings(listeners=(Listener("127.0.0.1", 0),)))


class DiskWithoutHandles(Disk):
    """A disk on which no segment can be opened while `is_exhausted`."""

    is_exhausted = False

    def _open(self, path, flags):
        if self.is_exhausted and path.suffix == ".segment":
            raise failure("open", path, OSError(errno.EMFILE, os.strerror(errno.EMFILE)))
        return super()._open(path, flags)


async def started(directory, disk):
    metadata = SqliteMetadata(directory / "metadata.sqlite")
    broker = Broker(CONFIG, metadata, data_dir=directory, disk=disk)
    await broker.start()
    host, port = broker.listening_on[0]
    return broker, await aiormq.connect(f"amqp://guest:guest@{host}:{port}/")


async def all_on_disk(broker, queue):
    """Wait until no ready message is in memory, and no segment is open."""
    broker.store.pager.note(queue.backing)
    while queue.backing.delta.count < queue.backing.ready_count:
        await until(lambda: not queue.backing.waits_for_log)
        await broker.store.pager._write_slice_of(queue.backing)
        queue.backing.page_out(1 << 20)
    queue.backing.delta.close()


async def test_no_confirmed_message_is_forgotten_because_it_could_not_be_read(
    tmp_path, monkeypatch
):
    disk = DiskWithoutHandles()
    monkeypatch.setattr(failed_reads, "RETRY_MS", 5)
    monkeypatch.setattr(failed_reads, "CRASHED_RETRY_MS", 5)
    broker, connection = await started(tmp_path, disk)
    channel = await connection.channel()
    await channel.queue_declare("lazy", durable=True, arguments={"x-queue-mode": "lazy"})
    publishing = [
        channel.basic_publish(b"%d" % number, routing_key="lazy", properties=PERSISTENT)
        for number in range(COUNT)
    ]
    await asyncio.gather(*publishing)
    queue = broker.services.vhosts["/"].queues["lazy"]
    await all_on_disk(broker, queue)
    # A moment without file handles: the client waits a little longer.
    disk.is_exhausted = True
    getting = asyncio.create_task(channel.basic_get("lazy"))
    await until(lambda: queue.reads.is_failing)
    assert not getting.done()
    disk.is_exhausted = False
    assert (await getting).body == b"0"
    # It stays so: the queue has crashed, as in RabbitMQ.
    monkeypatch.setattr(failed_reads, "CRASHED_AFTER_MS", 20)
    await all_on_disk(broker, queue)
    disk.is_exhausted = True
    with pytest.raises(aiormq.exceptions.ChannelNotFoundEntity, match="has crashed and failed to"):
        await channel.basic_get("lazy")
    channel = await connection.channel()
    with pytest.raises(aiormq.exceptions.DeliveryError):
        await channel.basic_publish(b"refused", routing_key="lazy", properties=PERSISTENT)
    assert queue.figures.status().state == "crashed"
    await connection.close()
    await broker.stop()
    disk.is_exhausted = False
    broker, connection = await started(tmp_path, disk)
    channel = await connection.channel()
    found = await channel.queue_declare("lazy", passive=True)
    assert found.message_count == COUNT, "all, and the one that was delivered and not acknowledged"
    await connection.close()
    await broker.stop()
