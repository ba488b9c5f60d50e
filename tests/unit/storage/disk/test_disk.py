"""File operations and their errors."""

import errno
import os

import pytest

from leveret.storage.disk import disk as disk_module
from leveret.storage.disk.disk import Disk, DiskFull, StoreError, failure
from tests.unit.storage.fakes import RecordingDisk


@pytest.fixture
def disk():
    return Disk()


@pytest.fixture
def opened(disk, tmp_path):
    path = tmp_path / "file"
    descriptor = disk.create(path)
    yield path, descriptor
    disk.close(descriptor)


def test_written_bytes_are_read(disk, opened):
    path, descriptor = opened
    disk.write(descriptor, path, b"hello", 0)
    disk.write(descriptor, path, b"p!", 3)
    assert disk.read_all(path) == b"help!"
    assert disk.read(path, 1, 2) == b"el"
    assert disk.read_from(descriptor, path, 3, 100) == b"p!"
    assert disk.size(path) == 5


def test_operations_are_counted(disk, opened):
    path, descriptor = opened
    disk.write(descriptor, path, b"hello", 0)
    disk.sync(descriptor, path)
    disk.read_all(path)
    counts = disk.counts
    assert (counts.writes, counts.write_bytes, counts.syncs) == (1, 5, 1)
    assert (counts.reads, counts.read_bytes) == (1, 5)


@pytest.mark.parametrize("number", sorted(disk_module.NO_SPACE))
def test_a_full_disk_is_told_from_other_errors(tmp_path, number):
    error = failure("write", tmp_path, OSError(number, os.strerror(number)), 7)
    assert isinstance(error, DiskFull)
    assert str(tmp_path) in str(error)
    assert "at offset 7" in str(error)
    other = failure("write", tmp_path, OSError(errno.EIO, os.strerror(errno.EIO)))
    assert not isinstance(other, DiskFull)


def test_a_write_that_fails_is_cut_off(disk, opened, monkeypatch):
    path, descriptor = opened
    disk.write(descriptor, path, b"kept", 0)

    def half(descriptor, data, offset):
        if offset > 4:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return os.writev(descriptor, [data[:1]]) if os.lseek(descriptor, offset, 0) >= 0 else 0

    monkeypatch.setattr(disk_module.os, "pwrite", half)
    with pytest.raises(DiskFull, match="cannot write .* make room"):
        disk.write(descriptor, path, b"lost", 4)
    assert path.read_bytes() == b"kept"


@pytest.mark.parametrize("operation", ["read_all", "open", "truncate"])
def test_errors_name_the_file(disk, tmp_path, operation):
    arguments = (tmp_path / "none", 0) if operation == "truncate" else (tmp_path / "none",)
    with pytest.raises(StoreError, match="none.*: No such file"):
        getattr(disk, operation)(*arguments)


def test_a_missing_file_is_empty(disk, tmp_path):
    assert disk.size(tmp_path / "none") == 0
    assert disk.names_in(tmp_path / "none") == []
    disk.remove(tmp_path / "none")
    disk.remove_tree(tmp_path / "none")


def test_names_are_sorted_and_trees_are_removed(disk, tmp_path):
    for name in ("b", "a"):
        disk.make_directory(tmp_path / "tree" / name / "deep")
        (tmp_path / "tree" / name / "file").write_bytes(b"")
    assert disk.names_in(tmp_path / "tree") == ["a", "b"]
    disk.remove_tree(tmp_path / "tree")
    assert not (tmp_path / "tree").exists()


def test_files_are_synced_and_then_their_directories(tmp_path):
    disk = RecordingDisk()
    directory = tmp_path / "queues" / "256"
    directory.mkdir(parents=True)
    paths = [directory / name for name in "ab"]
    for path in paths:
        path.write_bytes(b"data")
    disk.sync_paths(paths)
    assert disk.done == [("sync", name) for name in ("a", "b", "256", "queues")]


def test_points_are_passed_to_the_test(tmp_path):
    passed = []
    Disk(passed.append).passed("log.written")
    assert passed == ["log.written"]
