"""Parts of files that are sent to sockets: never a wait for the disk, nor a file that is gone."""

import os
import socket

import pytest

from leveret.storage.contract.backing_queue import BeingRead
from leveret.storage.disk.disk import Disk, StoreError
from leveret.storage.disk.file_parts import SENT_BYTES_MAX, FilePart, open_kept
from leveret.storage.disk.file_reads import FileReads
from tests.unit.storage.fakes import ManualWorker

DATA = bytes(range(256)) * 16


class ColdDisk(Disk):
    """A disk of which the system has in memory what was read."""

    def __init__(self):
        super().__init__()
        self.cached_to = 0

    def is_cached(self, descriptor, offset, size):
        return offset + size <= self.cached_to

    def read_from(self, descriptor, path, offset, size):
        data = super().read_from(descriptor, path, offset, size)
        self.cached_to = offset + len(data)
        return data


class Rig:
    """A file, and a socket that parts of it are sent to."""

    def __init__(self, directory):
        self.path = directory / "file"
        self.path.write_bytes(DATA)
        self.worker = ManualWorker()
        self.disk = ColdDisk()
        self.reads = FileReads(self.disk, self.worker)
        self.socket, self.peer = socket.socketpair()
        self.socket.setblocking(False)
        self.errors = []

    def part(self, offset, size):
        return FilePart(open_kept(self.path, self.disk, self.reads), offset, size)

    def send(self, part):
        """Send, or have it sent when the thread has read."""
        try:
            part.send(self.socket.fileno())
        except BeingRead as reading:
            reading.when_done(lambda: self.send(part))
        except (OSError, StoreError) as error:
            self.errors.append(error)

    def received(self):
        self.peer.setblocking(False)
        try:
            return self.peer.recv(1 << 20)
        except BlockingIOError:
            return b""


@pytest.fixture
def rig(tmp_path):
    rig = Rig(tmp_path)
    yield rig
    rig.socket.close()
    rig.peer.close()


def test_what_the_system_has_in_memory_is_sent_at_once(rig):
    rig.disk.cached_to = len(DATA)
    part = rig.part(100, 200)
    assert part.send(rig.socket.fileno()) == 200
    assert (rig.received(), part.size, rig.worker.jobs) == (DATA[100:300], 0, [])


def test_a_thread_reads_the_rest_first(rig):
    part = rig.part(100, 200)
    rig.send(part)
    assert (rig.received(), part.size) == (b"", 200)
    rig.worker.work()
    assert (rig.received(), part.size) == (DATA[100:300], 0)


def test_a_file_system_that_cannot_tell_is_read_by_the_thread(rig):
    rig.disk.is_cached = lambda *_: False
    rig.send(rig.part(0, 10))
    rig.worker.work()
    assert rig.received() == DATA[:10]


def test_a_part_is_sent_in_pieces(rig):
    rig.disk.is_cached = lambda *_: True
    os.truncate(rig.path, 2 * SENT_BYTES_MAX)
    part = rig.part(0, 2 * SENT_BYTES_MAX)
    sent = part.send(rig.socket.fileno())
    assert 0 < sent <= SENT_BYTES_MAX
    assert part.size == 2 * SENT_BYTES_MAX - sent


def test_a_full_socket_takes_nothing(rig):
    rig.disk.is_cached = lambda *_: True
    with pytest.raises(BlockingIOError):
        while True:
            rig.socket.send(DATA)
    part = rig.part(0, 10)
    with pytest.raises(BlockingIOError):
        part.send(rig.socket.fileno())
    assert part.size == 10


def test_a_removed_file_is_sent(rig):
    part = rig.part(0, 10)
    rig.path.unlink()
    rig.send(part)
    rig.worker.work()
    assert rig.received() == DATA[:10]


def test_a_file_that_ends_too_early_is_an_error(rig):
    part = rig.part(len(DATA), 10)
    rig.send(part)
    rig.worker.work()
    (error,) = rig.errors
    assert f"{rig.path} ends at offset {len(DATA)}" in str(error)


def test_a_closed_socket_is_an_error(rig):
    rig.disk.is_cached = lambda *_: True
    rig.peer.close()
    with pytest.raises(ConnectionError):
        rig.part(0, 10).send(rig.socket.fileno())


def test_a_file_is_closed_with_the_last_part(rig):
    file = open_kept(rig.path, rig.disk, rig.reads)
    parts = [FilePart(file, place, 1) for place in range(2)]
    descriptor = file.descriptor
    del file, parts[0]
    os.fstat(descriptor)
    parts.clear()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)
    assert rig.disk._kept_open == 0


def test_only_so_many_files_are_open(rig, monkeypatch):
    monkeypatch.setattr(rig.disk, "keep_open", os.close)
    assert open_kept(rig.path, rig.disk, rig.reads) is None


def test_the_system_tells_what_it_has_in_memory(tmp_path):
    disk, path = Disk(), tmp_path / "file"
    path.write_bytes(bytes(200_000))
    descriptor = disk.open(path)
    assert disk.read_cached(descriptor, 0, 1) is None or disk.is_cached(descriptor, 0, 200_000)
    assert not disk.is_cached(descriptor, 200_000, 1)
    disk.close(descriptor)
