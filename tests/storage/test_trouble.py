"""A full disk, a failing sync, a read-only directory: only messages on disk are confirmed, and all
operations that do not need the disk continue.
"""

import asyncio
import errno
import os
import random

import pytest

from leveret.storage.disk import unsynced_files
from leveret.storage.disk.disk import Disk, StoreError, failure
from leveret.storage.log import log
from leveret.storage.messages.message import Address, Message
from leveret.storage.messages.message_run import run_of
from leveret.storage.queue import pager
from leveret.storage.segments import ledger, segments
from tests.patience import until
from tests.storage.late_error_disk import LateErrorDisk
from tests.storage.machine import PERSISTENT, Machine
from tests.storage.reading import ready_entries

ADDRESS = Address("", "q", b"\0\1q")


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    for module in (ledger, segments):
        monkeypatch.setattr(module, "SEGMENT_POSITIONS", 64)
    for module in (log, pager):
        monkeypatch.setattr(module, "RETRY_SECONDS", 0.01)


class TroubledDisk(Disk):
    """A disk on which writes or syncs of some files fail on demand."""

    def __init__(self):
        super().__init__()
        self.full_suffix = None
        self.sync_error = None
        self.refused = 0

    def write(self, descriptor, path, data, offset):
        if path.suffix == self.full_suffix:
            self.refused += 1
            os.pwrite(descriptor, data[: len(data) // 2], offset)
            raise failure("write", path, OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), offset)
        super().write(descriptor, path, data, offset)

    def sync(self, descriptor, path):
        if self.sync_error is not None and path.suffix == ".log":
            raise failure("sync", path, OSError(self.sync_error, os.strerror(self.sync_error)))
        super().sync(descriptor, path)


class Confirmed(list):
    def confirm(self, first, holder):
        self.append(first)


def publish(queue, waiter, sequence, body=b"x" * 100):
    assert queue.publish(run_of([Message(ADDRESS, PERSISTENT, body)]), 0)
    queue.when_safe(waiter, sequence, "the test")


def machine_on(disk, directory):
    machine = Machine(directory, 1, disk)
    machine.start()
    machine.full = []
    machine.store.pressure.disk_filled = machine.full.append
    machine.failures = []
    machine.store.failed = machine.failures.append
    return machine


async def test_a_full_disk_confirms_nothing_until_there_is_room(tmp_path):
    disk, confirmed = TroubledDisk(), Confirmed()
    machine = machine_on(disk, tmp_path)
    publish(machine.queues[1], confirmed, 1)
    await until(lambda: confirmed == [1])
    disk.full_suffix = ".log"
    publish(machine.queues[1], confirmed, 2)
    await until(lambda: disk.refused > 3)
    assert confirmed == [1]
    assert machine.full == [True]
    disk.full_suffix = None
    await until(lambda: confirmed == [1, 2])
    assert machine.full == [True, False]
    await machine.store.close()
    machine.start()
    assert machine.queues[1].ready_count == 2
    await machine.store.close()


@pytest.mark.parametrize("suffix", [".segment", ".bodies"])
async def test_paging_waits_for_room(tmp_path, suffix):
    disk, confirmed = TroubledDisk(), Confirmed()
    machine = machine_on(disk, tmp_path)
    disk.full_suffix = suffix
    for sequence in range(600):
        publish(machine.queues[1], confirmed, sequence, b"y" * 1000)
    await machine.store.pager.note_all()
    await until(lambda: disk.refused > 3)
    assert machine.full == [True]
    await until(lambda: len(confirmed) == 600)
    disk.full_suffix = None
    await until(lambda: machine.full == [True, False])
    await until(lambda: machine.queues[1].delta.count)
    assert len(ready_entries(machine.queues[1])) == 600
    await machine.store.close()


async def test_a_queue_may_be_deleted_while_its_slice_waits_for_room(tmp_path):
    disk, confirmed = TroubledDisk(), Confirmed()
    machine = machine_on(disk, tmp_path)
    queue, store = machine.queues[1], machine.store
    for sequence in range(200):
        publish(queue, confirmed, sequence, b"y" * 1000)
    await store.log.sync()
    await store.pager.note_all()
    await until(lambda: queue.delta.count)
    disk.full_suffix = ".segment"
    for sequence in range(200, 400):
        publish(queue, confirmed, sequence, b"y" * 1000)
    await store.pager.note_all()
    await until(lambda: disk.refused)
    queue.delete()
    await until(lambda: not queue.writer.directory.exists())
    disk.full_suffix = None
    await until(lambda: machine.full == [True, False] or machine.failures)
    assert machine.failures == []
    assert not queue.writer.directory.exists()
    await store.close()


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC])
async def test_after_a_failed_sync_nothing_is_confirmed_ever(tmp_path, number):
    disk, confirmed = TroubledDisk(), Confirmed()
    machine = machine_on(disk, tmp_path)
    disk.sync_error = number
    publish(machine.queues[1], confirmed, 1)
    await until(lambda: machine.failures)
    assert "cannot sync" in str(machine.failures[0])
    disk.sync_error = None
    publish(machine.queues[1], confirmed, 2)
    await machine.store.pager.note_all()
    await asyncio.sleep(0.05)
    assert confirmed == []
    await machine.halt()


@pytest.mark.parametrize("files_max", [0, 1000], ids=["syncfs", "fdatasync"])
@pytest.mark.parametrize("suffix", [".segment", ".bodies"])
async def test_an_error_after_the_write_that_only_open_descriptors_get_stops_the_store(
    tmp_path, monkeypatch, suffix, files_max
):
    monkeypatch.setattr(unsynced_files, "SYNC_EACH_MAX", files_max)
    machine = machine_on(LateErrorDisk(suffix), tmp_path)
    # More than three log files, so that messages are moved from the oldest to segments.
    for batch in range(6):
        for sequence in range(30):
            publish(machine.queues[1], Confirmed(), 30 * batch + sequence, b"y" * 1000)
        await machine.store.log.sync()
    await until(lambda: machine.failures)
    assert "cannot sync" in str(machine.failures[0])
    await machine.halt()


async def test_an_input_error_while_writing_stops_the_store(tmp_path):
    class Broken(TroubledDisk):
        def write(self, descriptor, path, data, offset):
            if offset > 40 and path.suffix == ".log":
                raise failure("write", path, OSError(errno.EIO, os.strerror(errno.EIO)), offset)
            super().write(descriptor, path, data, offset)

    confirmed = Confirmed()
    machine = machine_on(Broken(), tmp_path)
    publish(machine.queues[1], confirmed, 1)
    await until(lambda: confirmed or machine.failures)
    publish(machine.queues[1], confirmed, 2)
    await until(lambda: machine.failures)
    assert "at offset" in str(machine.failures[0])
    assert 2 not in confirmed
    await machine.halt()


@pytest.mark.skipif(os.geteuid() == 0, reason="needs a user who is not root")
async def test_a_directory_that_cannot_be_written_is_named(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(StoreError, match=str(tmp_path)):
        Machine(tmp_path, random.randint(0, 1)).start()
