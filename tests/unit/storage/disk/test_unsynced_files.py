"""Files that were written stay open until their sync (rules UF1 to UF3)."""

import os

import pytest

from leveret.storage.disk.disk import StoreError
from leveret.storage.disk.unsynced_files import SYNC_EACH_MAX, UnsyncedFiles
from tests.unit.storage.fakes import RecordingDisk


class OpeningDisk(RecordingDisk):
    """opened: the paths that were opened, in order."""

    def __init__(self):
        super().__init__()
        self.opened = []

    def _open(self, path, flags):
        self.opened.append(path)
        return super()._open(path, flags)


@pytest.fixture
def disk():
    return OpeningDisk()


@pytest.fixture
def files(tmp_path, disk):
    files = UnsyncedFiles(tmp_path, disk)
    yield files
    files.close()


def is_open(descriptor):
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


def write(files, path, is_new=True):
    """Write to a file. Returns the descriptor."""
    with files.opened(path, is_new) as descriptor:
        files.disk.write(descriptor, path, b"data", 0)
    return descriptor


def test_u1_a_file_is_open_from_its_first_write_to_its_sync(files, disk, tmp_path):
    descriptor = write(files, tmp_path / "a")
    assert write(files, tmp_path / "a", is_new=False) == descriptor
    assert is_open(descriptor)
    disk.done.clear()
    files.sync()
    assert disk.done[0] == ("sync", "a")
    assert ("sync", tmp_path.name) in disk.done
    assert not is_open(descriptor)


def test_u1_many_files_are_synced_through_a_root_that_was_open_before_them(files, disk, tmp_path):
    paths = [tmp_path / str(number) for number in range(SYNC_EACH_MAX + 2)]
    descriptors = [write(files, path) for path in paths]
    assert not any(map(is_open, descriptors[:SYNC_EACH_MAX]))
    disk.done.clear()
    files.sync()
    assert disk.done == [("sync", tmp_path.name)]
    assert disk.opened == [tmp_path, *paths]


def test_u2_as_many_files_are_open_as_are_synced_one_by_one(files, tmp_path):
    paths = [tmp_path / str(number) for number in range(SYNC_EACH_MAX)]
    assert all(map(is_open, [write(files, path) for path in paths]))


def test_u2_a_removed_file_is_closed_and_needs_no_sync(files, disk, tmp_path):
    kept, removed = write(files, tmp_path / "kept"), write(files, tmp_path / "removed")
    disk.remove(tmp_path / "removed")
    files.give_up_removed()
    assert (is_open(kept), is_open(removed)) == (True, False)
    disk.done.clear()
    files.sync()
    assert ("sync", "kept") in disk.done
    assert ("sync", "removed") not in disk.done


def test_u3_a_sync_that_failed_is_not_tried_again(files, disk, tmp_path):
    descriptor = write(files, tmp_path / "a")
    disk.errors["sync"] = StoreError("cannot sync")
    with pytest.raises(StoreError, match="cannot sync"):
        files.sync()
    assert not is_open(descriptor)
    disk.done.clear()
    with pytest.raises(StoreError, match="an earlier sync failed"):
        files.sync()
    assert disk.done == []


def test_nothing_is_synced_if_nothing_was_written(files, disk, tmp_path):
    files.sync()
    write(files, tmp_path / "a")
    files.sync()
    disk.done.clear()
    files.sync()
    assert disk.done == []
