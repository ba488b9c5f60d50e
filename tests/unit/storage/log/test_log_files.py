"""The row of log files (rules LF1 to LF3)."""

import pytest

from leveret.storage.disk.disk import DiskFull, Space
from leveret.storage.log.log_files import (
    LOW_FACTOR,
    LOW_SHARE,
    NEXT_FILE,
    RESERVED_BYTES,
    LogFile,
    LogFiles,
    log_numbers,
    log_path,
)
from leveret.storage.messages.formats import FILE_HEADER_BYTES, LOG_MAGIC, decode_file_header
from tests.unit.storage.fakes import RecordingDisk


@pytest.fixture
def disk():
    return RecordingDisk()


@pytest.fixture
def files(tmp_path, disk):
    files = LogFiles(tmp_path, disk, file_bytes_max=100)
    files.begin([], 1)
    yield files
    files.close()


def fill(files):
    """Write enough that the next batch gets a new file."""
    file, _ = files.to_write()
    files.write(file, [bytes(50), bytes(50)], 100)
    file.size += 100
    return file


def test_a_new_file_is_created_with_its_directory_synced(files, disk, tmp_path):
    assert disk.done == [
        ("create", "next"), ("write", "0000000001.log"), ("rename", "next"),
        ("sync", tmp_path.name), ("create", "next"),
    ]  # fmt: skip
    assert log_numbers(disk, tmp_path) == [1]


def test_f1_the_next_file_has_the_next_number(files, tmp_path):
    fill(files)
    file, is_new = files.to_write()
    assert (file.number, is_new) == (2, True)
    files.write(file, [b"data"], 4)
    header = decode_file_header(log_path(tmp_path, 2).read_bytes(), LOG_MAGIC)
    assert header.number == 2
    assert header.oldest == 1
    assert header.previous_bytes == FILE_HEADER_BYTES + 100


def test_f1_a_number_is_not_used_twice(files, tmp_path):
    with pytest.raises(AssertionError, match="LF1"):
        files.begin([LogFile(5, tmp_path / "5")], 5)


def test_f2_only_the_last_file_is_written(files):
    first = fill(files)
    files.to_write()
    with pytest.raises(AssertionError, match="LF2"):
        files.write(first, [b"more"], 4)


def test_f2_data_are_written_where_the_synced_bytes_end(files, tmp_path):
    file, _ = files.to_write()
    files.write(file, [b"one"], 3)
    files.write(file, [b"two"], 3)  # As when the first write found the disk full.
    assert files.read(1, FILE_HEADER_BYTES, 3) == b"two"


def test_f3_files_are_removed_from_the_oldest_on(files, tmp_path):
    first = fill(files)
    fill(files)
    with pytest.raises(AssertionError, match="LF3"):
        files.remove(first)
    assert files.forget_oldest() is first
    files.remove(first)
    assert not log_path(tmp_path, 1).exists()


def test_f3_the_file_that_is_written_to_stays(files):
    with pytest.raises(AssertionError, match="LF3"):
        files.forget_oldest()


def test_a_file_that_could_not_be_created_is_created_by_the_next_try(files, disk):
    fill(files)
    file, _ = files.to_write()
    disk.errors["write"] = DiskFull("cannot write")
    with pytest.raises(DiskFull):
        files.write(file, [b"data"], 4)
    assert file.descriptor == -1
    files.write(file, [b"data"], 4)
    assert files.read(2, FILE_HEADER_BYTES, 4) == b"data"


@pytest.mark.parametrize("counter", ["messages", "records"])
def test_many_small_messages_fill_a_file(files, counter):
    setattr(files.files[0], counter, 1_000_000)
    assert files.to_write()[1]


# Space that is allocated ahead


def append(files, size):
    file, _ = files.to_write()
    files.write(file, [bytes(size)], size)
    file.size += size
    return file


@pytest.fixture
def large(tmp_path, disk, monkeypatch):
    """Log files on a large disk, whose free space is RESERVED_BYTES * LOW_FACTOR."""
    disk.free_bytes = RESERVED_BYTES * LOW_FACTOR
    monkeypatch.setattr(disk, "space", lambda directory: Space(1 << 40, disk.free_bytes))
    files = LogFiles(tmp_path, disk)
    files.begin([], 1)
    yield files
    files.close()


def test_less_is_allocated_while_the_disk_has_little_room(large, disk):
    disk.free_bytes -= 1
    file = append(large, 100)
    assert file.path.stat().st_size == file.size + RESERVED_BYTES // LOW_SHARE
    disk.free_bytes += 1
    append(large, 100)
    assert file.path.stat().st_size == file.size + RESERVED_BYTES


def test_without_any_room_batches_use_allocated_files_and_others_are_not_begun(
    large, disk, monkeypatch
):
    file = append(large, 100)
    size = file.path.stat().st_size
    monkeypatch.setattr(disk, "reserve", lambda *place: False)
    disk.done.clear()
    with pytest.raises(DiskFull, match="cannot write .*make room"):
        large.write(file, [bytes(RESERVED_BYTES + 1)], RESERVED_BYTES + 1)
    assert disk.done == []
    append(large, RESERVED_BYTES)
    assert file.path.stat().st_size == size == file.size


def test_the_next_file_gets_the_room_of_what_was_allocated_for_the_one_before(large):
    first = append(large, 100)
    assert first.path.stat().st_size > first.size
    first.is_finished = True
    append(large, 100)
    assert first.path.stat().st_size == first.size


def test_without_any_room_a_file_is_begun_that_was_made_in_advance(large, disk, monkeypatch):
    """XFS has no room for a new name, and has it for another name of the same file."""
    append(large, 100).is_finished = True

    def create(path):
        raise DiskFull(f"cannot open {path}")

    monkeypatch.setattr(disk, "create", create)
    monkeypatch.setattr(disk, "reserve", lambda *place: False)
    second = append(large, 100)
    assert second.number == 2
    second.is_finished = True
    with pytest.raises(DiskFull, match="cannot open .*next"):
        append(large, 100)
    monkeypatch.undo()
    assert append(large, 100).number == 3


def test_the_file_that_was_made_in_advance_is_made_again_by_a_restart(large, tmp_path, disk):
    append(large, 100)
    assert (tmp_path / NEXT_FILE).exists()
    large.close()
    files = LogFiles(tmp_path, disk)
    files.begin([], 2)
    assert log_numbers(disk, tmp_path) == [1, 2]
    assert append(files, 100).number == 2
    files.close()


def test_a_restart_gives_back_what_was_allocated_and_not_used(tmp_path, disk):
    path = log_path(tmp_path, 1)
    path.write_bytes(bytes(1000))
    files = LogFiles(tmp_path, disk)
    files.begin([LogFile(1, path, 300)], 2)
    files.close()
    assert path.stat().st_size == 300
