"""Segments: where entries are written, and reading them back (rules SG1 to SG3)."""

import os

import pytest

from leveret.storage.disk import disk as disk_module
from leveret.storage.disk.disk import KEPT_OPEN_SHARE, Disk
from leveret.storage.disk.file_reads import FileReads
from leveret.storage.messages.formats import FILE_HEADER_BYTES, RUN, decode_run, read_records
from leveret.storage.messages.message import Entry, Message
from leveret.storage.segments import segments
from leveret.storage.segments.segments import Lost, SegmentReader, SegmentWriter, segment_numbers
from tests.unit.storage.fakes import ADDRESS, PERSISTENT_HEADER, write_out

pytestmark = pytest.mark.usefixtures("tiny_segments")


@pytest.fixture
def disk():
    return Disk()


def entries(start, end):
    return [
        Entry(Message(ADDRESS, PERSISTENT_HEADER, b"body %d" % position), position)
        for position in range(start, end)
    ]


def write(writer, disk, *ranges):
    for start, end in ranges:
        found = entries(start, end)
        write_out(disk, writer.plan(found, [0] * len(found), 256))


def read(directory, disk, number, size, first=0):
    """All bodies of a segment from a position on, and what is lost."""
    reader = SegmentReader(disk, FileReads(disk))
    reader.open(directory, number, size)
    found = []
    while (run := reader.next_run(first)) is not None:
        if isinstance(run, Lost):
            found.append(run)
            continue
        found += reader.bodies(run, 0, len(run.sizes))
        reader.pass_over()
    reader.close()
    return found


def test_written_records_are_read_back_in_order(tmp_path, disk):
    writer = SegmentWriter(tmp_path)
    write(writer, disk, (0, 3), (3, 5))
    assert read(tmp_path, disk, 0, writer.tail_bytes) == [b"body %d" % n for n in range(5)]


def test_g2_a_record_stays_within_one_segment(tmp_path, disk):
    writer = SegmentWriter(tmp_path)
    write(writer, disk, (5, 20))
    assert segment_numbers(disk, tmp_path) == [0, 1, 2]
    assert writer.numbers == {0, 1, 2}
    for number in writer.numbers:
        for record in read_records(writer.path(number).read_bytes(), FILE_HEADER_BYTES):
            assert record.kind == RUN
            run = decode_run(record.head)
            first = run.targets[0][1]
            assert first // 8 == (first + len(run.sizes) - 1) // 8 == number


def test_g1_a_segment_is_not_begun_again(tmp_path, disk):
    writer = SegmentWriter(tmp_path)
    write(writer, disk, (0, 20))
    with pytest.raises(AssertionError, match="SG1"):
        write(writer, disk, (0, 1))


def test_g1_a_segment_is_appended_to(tmp_path, disk):
    writer = SegmentWriter(tmp_path)
    write(writer, disk, (0, 2))
    before = writer.path(0).read_bytes()
    write(writer, disk, (4, 6))
    assert writer.path(0).read_bytes().startswith(before)


def test_g3_bytes_behind_the_counted_ones_are_not_read(tmp_path, disk):
    writer = SegmentWriter(tmp_path)
    write(writer, disk, (0, 2))
    size = writer.tail_bytes
    write(writer, disk, (2, 4))
    assert read(tmp_path, disk, 0, size) == [b"body 0", b"body 1"]


def test_reading_starts_at_the_run_with_the_wanted_position(tmp_path, disk):
    writer = SegmentWriter(tmp_path)
    write(writer, disk, (0, 2), (2, 4))
    assert read(tmp_path, disk, 0, writer.tail_bytes, first=2) == [b"body 2", b"body 3"]


def test_a_damaged_part_is_skipped_and_returned(tmp_path, disk):
    writer = SegmentWriter(tmp_path)
    write(writer, disk, (0, 1), (1, 2))
    path = writer.path(0)
    data = bytearray(path.read_bytes())
    data[FILE_HEADER_BYTES + 6] ^= 255
    path.write_bytes(data)
    lost, body = read(tmp_path, disk, 0, writer.tail_bytes)
    assert lost.offset == FILE_HEADER_BYTES
    assert body == b"body 1"


def test_a_damaged_body_is_none(tmp_path, disk):
    writer = SegmentWriter(tmp_path)
    write(writer, disk, (0, 3))
    path = writer.path(0)
    path.write_bytes(path.read_bytes().replace(b"body 1", b"BODY 1"))
    assert read(tmp_path, disk, 0, writer.tail_bytes) == [b"body 0", None, b"body 2"]


def test_a_few_of_many_readers_keep_their_file_open(tmp_path, disk, monkeypatch):
    writer = SegmentWriter(tmp_path)
    write(writer, disk, (0, 5))
    monkeypatch.setattr(disk_module.resource, "getrlimit", lambda which: (2 * KEPT_OPEN_SHARE, 0))
    kept, closed = [], []
    monkeypatch.setattr(disk, "close", lambda descriptor: closed.append(os.close(descriptor)))
    readers = [SegmentReader(disk, FileReads(disk)) for _ in range(5)]
    for reader in readers:
        reader.open(tmp_path, 0, writer.tail_bytes)
        kept.append(reader._descriptor >= 0)
    assert kept == [True, True, False, False, False]
    assert len(closed) == 3
    for reader in readers:
        run = reader.next_run(0)
        assert reader.bodies(run, 0, 5) == [b"body %d" % n for n in range(5)]
        reader.close()
    reader = readers[-1]
    reader.open(tmp_path, 0, writer.tail_bytes)
    assert reader._descriptor >= 0
    reader.close()


def test_damage_is_skipped_by_a_reader_whose_file_is_not_kept_open(tmp_path, disk, monkeypatch):
    monkeypatch.setattr(disk_module, "KEPT_OPEN_SHARE", 1 << 40)
    writer = SegmentWriter(tmp_path)
    write(writer, disk, (0, 2), (2, 4))
    path = segments.segment_path(tmp_path, 0)
    data = bytearray(path.read_bytes())
    data[FILE_HEADER_BYTES] ^= 255
    path.write_bytes(data)
    lost, *found = read(tmp_path, disk, 0, writer.tail_bytes)
    assert isinstance(lost, Lost)
    assert found == [b"body 2", b"body 3"]
