"""Reads for the event loop: at once from the system's memory, else by a thread (rules LR1, LR2)."""

import pytest

from leveret.storage.contract.backing_queue import BeingRead
from leveret.storage.disk.disk import Disk, StoreError
from leveret.storage.disk.file_reads import FileReads
from tests.unit.storage.fakes import ManualWorker


class ColdDisk(Disk):
    """opened: how often a file was. is_cold: nothing is in the system's memory."""

    def __init__(self):
        super().__init__()
        self.opened = 0
        self.is_cold = True

    def _open(self, path, flags):
        self.opened += 1
        return super()._open(path, flags)

    def read_cached(self, descriptor, offset, size):
        return None if self.is_cold else super().read_cached(descriptor, offset, size)


class Rig:
    """Reads of one file. found: what those got who asked again."""

    def __init__(self, directory):
        self.path = directory / "FILE"
        self.path.write_bytes(b"0123456789")
        self.worker = ManualWorker()
        self.disk = ColdDisk()
        self.reads = FileReads(self.disk, self.worker)
        self.found = []

    def ask(self, descriptor=-1):
        return self.reads.read(self.path, descriptor, 2, 4)

    def ask_again(self):
        self.found.append(self.ask())


@pytest.fixture
def rig(tmp_path):
    return Rig(tmp_path)


def test_it_is_read_once_for_all_waiting_reads(rig):
    for _ in range(2):
        with pytest.raises(BeingRead, match="FILE, from offset 2, is being read") as raised:
            rig.ask()
        raised.value.when_done(rig.ask_again)
    rig.worker.work()
    assert (rig.found, rig.disk.opened) == ([b"2345", b"2345"], 1)


def test_one_that_fails_is_reported_and_the_others_are_called(rig, caplog):
    for callback in (lambda: 1 / 0, rig.ask_again):
        with pytest.raises(BeingRead) as raised:
            rig.ask()
        raised.value.when_done(callback)
    rig.worker.work()
    assert rig.found == [b"2345"]
    assert "ZeroDivisionError" in caplog.text


def test_it_is_not_kept_for_later_reads(rig):
    for _ in range(2):
        with pytest.raises(BeingRead):
            rig.ask()
        rig.worker.work()
    assert rig.disk.opened == 2


def test_a_read_that_fails_fails_for_all_waiting_reads(rig):
    with pytest.raises(BeingRead) as raised:
        rig.ask()

    def ask_again():
        with pytest.raises(StoreError, match="cannot open .*FILE"):
            rig.ask()
        rig.found.append("failed")

    raised.value.when_done(ask_again)
    rig.path.unlink()
    rig.worker.work()
    assert rig.found == ["failed"]
    with pytest.raises(BeingRead):
        rig.ask()


def test_the_thread_reads_the_parts_of_an_open_file_that_are_not_in_memory(rig):
    descriptor = rig.disk.open(rig.path)
    with pytest.raises(BeingRead):
        rig.ask(descriptor)
    rig.disk.close(descriptor)


def test_a_caller_that_waits_reads_at_once(rig):
    rig.reads = FileReads(rig.disk)
    assert rig.ask() == b"2345"
    descriptor = rig.disk.open(rig.path)
    assert rig.ask(descriptor) == b"2345"
    rig.disk.close(descriptor)


def test_what_the_system_has_in_memory_is_read_at_once(rig):
    """A file system that cannot tell what is in memory has the thread read everything."""
    rig.disk.is_cold = False
    descriptor = rig.disk.open(rig.path)
    found = rig.disk.read_cached(descriptor, 2, 4)
    assert found in (b"2345", None)
    assert rig.disk.read_cached(descriptor, 8, 4) is None
    if found is not None:
        assert rig.ask(descriptor) == b"2345"
    rig.disk.close(descriptor)
