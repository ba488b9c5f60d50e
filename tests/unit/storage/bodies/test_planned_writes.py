"""Planned writes are written where they were planned (rules PW1 and PW2)."""

import pytest

from leveret.storage.bodies.planned_writes import PlannedWrite
from leveret.storage.disk.disk import DiskFull
from leveret.storage.messages.formats import FILE_HEADER_BYTES, SEGMENT_MAGIC, decode_file_header
from tests.unit.storage.fakes import RecordingDisk, write_out


def write(path, data, offset=FILE_HEADER_BYTES, is_new=False):
    return PlannedWrite(path, SEGMENT_MAGIC, 3, is_new, offset, [data])


@pytest.fixture
def disk():
    return RecordingDisk()


def test_a_new_file_gets_its_directory_and_header(tmp_path, disk):
    path = tmp_path / "256" / "3.segment"
    write_out(disk, [write(path, b"data", is_new=True)])
    data = path.read_bytes()
    assert decode_file_header(data, SEGMENT_MAGIC).number == 3
    assert data[FILE_HEADER_BYTES:] == b"data"


def test_p2_parts_are_written_in_the_order_of_their_plan(tmp_path, disk):
    path = tmp_path / "3.segment"
    end = FILE_HEADER_BYTES + 3
    write_out(disk, [write(path, b"one", is_new=True), write(path, b"two", end)])
    assert path.read_bytes()[FILE_HEADER_BYTES:] == b"onetwo"


def test_parts_that_found_the_disk_full_are_written_again(tmp_path, disk):
    path = tmp_path / "3.segment"
    writes = [write(path, b"one", is_new=True), write(path, b"two", FILE_HEADER_BYTES + 3)]
    disk.errors["write"] = DiskFull("cannot write")
    with pytest.raises(DiskFull):
        write_out(disk, writes)
    write_out(disk, writes)
    assert path.read_bytes()[FILE_HEADER_BYTES:] == b"onetwo"


def test_p1_a_new_file_begins_behind_its_header(tmp_path, disk):
    with pytest.raises(AssertionError, match="PW1"):
        write_out(disk, [write(tmp_path / "3.segment", b"one", offset=100, is_new=True)])
