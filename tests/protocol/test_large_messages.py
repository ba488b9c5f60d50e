"""Large messages go to the disk and come back while other clients are served."""

import os
import threading

from leveret.storage.disk.disk import Disk
from leveret.storage.log.large_records import LARGE_BODIES_BYTES
from leveret.storage.segments import segments
from tests.protocol.test_unreadable_messages import PERSISTENT, all_on_disk, started, until

LAZY = {"x-queue-mode": "lazy"}


class WatchedDisk(Disk):
    """large: which thread did what with more than LARGE_BODIES_BYTES."""

    def __init__(self):
        super().__init__()
        self.large = set()

    def note(self, what, size):
        if size >= LARGE_BODIES_BYTES:
            self.large.add((what, threading.current_thread().name))

    def read_from(self, descriptor, path, offset, size):
        self.note("read", size)
        return super().read_from(descriptor, path, offset, size)

    def write(self, descriptor, path, data, offset):
        self.note("write", len(data))
        super().write(descriptor, path, data, offset)


def watch_checksums(disk, monkeypatch):
    for module in ("segments.segments", "bodies.message_store", "messages.formats"):
        monkeypatch.setattr(f"leveret.storage.{module}.crc32", noting(disk))


def noting(disk):
    checksum = segments.crc32

    def noted(data, *start):
        disk.note("checksum", len(data))
        return checksum(data, *start)

    return noted


async def test_they_are_written_and_read_by_threads(tmp_path, monkeypatch):
    disk = WatchedDisk()
    watch_checksums(disk, monkeypatch)
    bodies = [os.urandom(LARGE_BODIES_BYTES + number) for number in range(3)]
    broker, connection = await started(tmp_path, disk)
    channel = await connection.channel()
    for name in ("q", "copies"):
        await channel.queue_declare(name, durable=True, arguments=LAZY)
        await channel.queue_bind(name, "amq.fanout")
    for body in bodies:
        await channel.basic_publish(body, exchange="amq.fanout", properties=PERSISTENT)
    queues = broker.services.vhosts["/"].queues
    for name in ("q", "copies"):
        await all_on_disk(broker, queues[name])

    got = await channel.basic_get("q", no_ack=True)
    assert (got.body, got.message_count) == (bodies[0], 2)
    received = []

    async def receive(message):
        received.append(message.body)

    for name in ("q", "copies"):
        await channel.basic_consume(name, receive, no_ack=True)
    await until(lambda: len(received) == 5)
    assert sorted(received) == sorted(bodies[1:] + bodies)
    assert disk.large == {
        ("checksum", "leveret-log"), ("write", "leveret-log"), ("checksum", "leveret-pager"),
        ("write", "leveret-pager"), ("checksum", "leveret-reader"), ("read", "leveret-reader"),
    }  # fmt: skip
    await connection.close()
    await broker.stop()
