"""A read that fails says nothing about the message: it stays in its queue, and is read again."""

import errno
import os

import pytest

from leveret.storage.contract.backing_queue import Unreadable
from leveret.storage.disk.disk import Disk, failure
from tests.storage.machine import Machine, number_of
from tests.storage.reading import ready_entries
from tests.storage.test_damage import with_version
from tests.storage.test_trouble import Confirmed, publish, until

COUNT = 200


pytestmark = pytest.mark.usefixtures("small_segments")


class UnreadableDisk(Disk):
    """A disk on which opening or reading files of one kind fails on demand."""

    suffix = ""
    operation = ""
    number = 0

    def fails(self, operation, path):
        if operation == self.operation and path.suffix == self.suffix:
            raise failure(operation, path, OSError(self.number, os.strerror(self.number)))

    def _open(self, path, flags):
        self.fails("open", path)
        return super()._open(path, flags)

    def read(self, path, offset, size):
        self.fails("open", path)
        self.fails("read", path)
        return super().read(path, offset, size)

    def read_from(self, descriptor, path, offset, size):
        self.fails("read", path)
        return super().read_from(descriptor, path, offset, size)

    def read_all(self, path):
        self.fails("open", path)
        self.fails("read", path)
        return super().read_all(path)


async def on_disk_only(directory):
    """A store whose lazy queue has `COUNT` confirmed messages on disk, in segments and bodies."""
    machine = Machine(directory, 1, UnreadableDisk())
    machine.start()
    queue, confirmed = machine.queues[3], Confirmed()
    for number in range(COUNT):
        publish(queue, confirmed, number, b"%d:" % number + bytes(1000 if number % 2 else 10))
    await until(lambda: len(confirmed) == COUNT)
    machine.store.pager.note(queue)
    while queue.page_out(1 << 20) or queue.delta.count < COUNT:
        await machine.store.pager._write_slice_of(queue)
    return machine, queue


FAILURES = [
    (operation, number, suffix)
    for operation, number in (
        ("open", errno.EMFILE),
        ("open", errno.ENFILE),
        ("open", errno.EACCES),
        ("open", errno.ESTALE),
        ("read", errno.EIO),
    )
    for suffix in (".segment", ".bodies")
]


@pytest.mark.parametrize(("operation", "number", "suffix"), FAILURES)
async def test_a_read_that_fails_takes_nothing_from_the_queue(tmp_path, operation, number, suffix):
    machine, queue = await on_disk_only(tmp_path)
    disk = machine.disk
    disk.operation, disk.number, disk.suffix = operation, number, suffix
    entries = []
    with pytest.raises(Unreadable, match=os.strerror(number)):
        while queue.ready_count:
            entries += queue.fetch(30, True)
    for read in (queue.peek, queue.drop, lambda: queue.fetchable(10)):
        with pytest.raises(Unreadable, match=os.strerror(number)):
            read()
    disk.operation = ""
    while queue.ready_count:
        entries += queue.fetch(30, True)
    assert [number_of(entry) for entry in entries] == list(range(COUNT))
    queue.requeue(entries)
    await machine.stop()
    machine.start()
    assert machine.queues[3].ready_count == COUNT
    await machine.stop()


@pytest.mark.parametrize("suffix", [".segment", ".bodies"])
async def test_a_cursor_waits_at_the_message_that_cannot_be_read(tmp_path, suffix):
    machine, queue = await on_disk_only(tmp_path)
    disk = machine.disk
    cursor = queue.cursor()
    found = cursor.read(500)
    disk.operation, disk.number, disk.suffix = "read", errno.EIO, suffix
    with pytest.raises(Unreadable):
        while True:
            found += cursor.read(1 << 20)
    disk.operation = ""
    while entries := cursor.read(1 << 20):
        found += entries
    cursor.close()
    assert [number_of(entry) for entry in found] == list(range(COUNT))
    await machine.stop()


async def test_taking_from_the_middle_reads_nothing(tmp_path):
    machine, queue = await on_disk_only(tmp_path)
    disk = machine.disk
    found = ready_entries(queue)[2:8]
    disk.operation, disk.number, disk.suffix = "read", errno.EIO, ".segment"
    taken = queue.take(found)
    assert [number_of(entry) for entry in taken] == [2, 3, 4, 5, 6, 7]
    disk.operation = ""
    queue.requeue(taken)
    assert len(ready_entries(queue)) == COUNT
    await machine.stop()


async def test_a_segment_of_another_version_stays_in_the_queue(tmp_path):
    machine, queue = await on_disk_only(tmp_path)
    path = queue.writer.path(0)
    data = path.read_bytes()
    path.write_bytes(with_version(data, 99))
    with pytest.raises(Unreadable, match=path.name):
        queue.fetch(1, True)
    path.write_bytes(data)
    assert number_of(queue.fetch(1, True)[0]) == 0
    await machine.store.close()


@pytest.mark.parametrize("suffix", [".segment", ".bodies"])
async def test_messages_of_a_file_that_was_removed_are_lost_and_the_others_delivered(
    tmp_path, suffix, caplog
):
    machine, queue = await on_disk_only(tmp_path)
    path = sorted(tmp_path.rglob(f"*{suffix}"))[0]
    path.unlink()
    entries = []
    while queue.ready_count:
        entries += queue.fetch(30, True)
    assert 0 < len(entries) < COUNT
    assert path.name in caplog.text
    await machine.store.close()


async def test_a_directory_that_is_missing_is_no_reason_to_forget_its_messages(tmp_path):
    machine, queue = await on_disk_only(tmp_path)
    directory = queue.writer.directory
    aside = directory.with_name("unmounted")
    directory.rename(aside)
    with pytest.raises(Unreadable):
        queue.fetch(1, True)
    aside.rename(directory)
    assert number_of(queue.fetch(1, True)[0]) == 0
    await machine.store.close()


async def test_a_restart_that_cannot_read_a_segment_does_not_go_on(tmp_path, monkeypatch):
    machine, _ = await on_disk_only(tmp_path)
    await machine.stop()
    monkeypatch.setattr(machine.disk, "suffix", ".segment")
    (tmp_path / "log" / "0000000001.log").unlink()
    machine.disk.operation, machine.disk.number = "read", errno.EIO
    with pytest.raises(Exception, match="cannot read .*segment"):
        machine.start(is_damaged=True)
    machine.disk.operation = ""
    machine.start(is_damaged=True)
    assert machine.queues[3].ready_count == COUNT
    await machine.store.close()
