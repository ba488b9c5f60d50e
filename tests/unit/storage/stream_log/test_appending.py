"""Appending to a stream's log, and reading it: entries are chunks in segments."""

import pytest

from leveret.storage.contract.backing_queue import BeingRead
from leveret.storage.disk.file_reads import FileReads
from leveret.storage.stream_log.chunks import ChunkError, encode_chunk
from leveret.storage.stream_log.stored_chunks import ChunkDamaged
from leveret.storage.stream_log.stream_log import RECENT_BYTES, UNAPPLIED_BYTES
from tests.unit.storage.fakes import ManualWorker
from tests.unit.storage.stream_log.stream_under_test import DATA, StreamUnderTest, numbered


def names(directory):
    return sorted(path.name for path in directory.iterdir())


def test_messages_have_offsets_without_gaps(tmp_path):
    stream = StreamUnderTest(tmp_path)
    stream.start_term(1)
    stream.publish(b"m0", b"m1")
    stream.track()
    stream.publish(b"m2")
    assert stream.messages() == numbered(3)
    assert (stream.log.first_entry, stream.log.last_entry) == (1, 4)
    assert stream.runs() == [(1, 1, 1, 1), (2, 3, 1, 0)]


def test_what_is_not_written_is_read_from_memory(tmp_path):
    stream = StreamUnderTest(tmp_path)
    stream.publish(b"m0")
    stream.write()
    stream.publish(b"m1")
    assert stream.messages() == numbered(2)


def test_a_chunk_that_does_not_follow_is_refused(tmp_path):
    stream = StreamUnderTest(tmp_path)
    stream.publish(b"m0")
    with pytest.raises(ChunkError, match="for offset 5 where one for 1 follows"):
        stream.log.append(2, 1, DATA, [encode_chunk(0, 5, 1, 0, 0, 0, [])])


def test_a_full_segment_is_followed_by_another(tmp_path):
    stream = StreamUnderTest(tmp_path)
    stream.log.segment_bytes = 200
    for number in range(6):
        stream.publish(b"m%d" % number)
    stream.write()
    assert names(tmp_path) == [
        "00000000000000000000.index", "00000000000000000000.segment",
        "00000000000000000004.index", "00000000000000000004.segment",
    ]  # fmt: skip
    assert stream.messages() == numbered(6)


def test_a_segment_without_messages_is_not_ended(tmp_path):
    stream = StreamUnderTest(tmp_path)
    stream.log.segment_bytes = 1
    for term in (1, 2, 3):
        stream.start_term(term)
    stream.publish(b"m0", term=3)
    stream.publish(b"m1", term=3)
    assert [segment.count for segment in stream.log.segments] == [4, 1]


def in_memory(stream):
    log = stream.log
    return [entry for entry in range(1, log.last_entry + 1) if log.is_in_memory(entry)]


def test_chunks_stay_in_memory_until_they_were_applied_and_read(tmp_path):
    stream = StreamUnderTest(tmp_path)
    for _ in range(4):
        stream.publish(b"x" * (RECENT_BYTES // 2))
    stream.write()
    stream.log.applied(3)
    assert in_memory(stream) == [1, 2, 3, 4]
    stream.publish(b"x" * (RECENT_BYTES // 2))
    stream.log.applied(4)
    assert in_memory(stream) == [4, 5]
    stream.log._reads = FileReads(stream.disk, ManualWorker())
    assert len(stream.log.read(4, 4, 1)) == 1
    with pytest.raises(BeingRead):
        stream.log.read(1, 3, 1)


def test_chunks_that_are_not_applied_stay_in_memory_within_a_limit(tmp_path):
    stream = StreamUnderTest(tmp_path)
    for _ in range(3):
        stream.publish(b"x" * (UNAPPLIED_BYTES // 2))
    stream.write()
    assert in_memory(stream) == [3]


def test_reading_takes_as_many_bytes_as_are_wanted(tmp_path):
    stream = StreamUnderTest(tmp_path)
    for number in range(9):
        stream.publish(b"m%d" % number)
    stream.write()
    stream.restart()
    size = len(stream.log.read(1, 1, 0)[0])
    assert len(stream.log.read(1, 9, 0)) == 1
    assert len(stream.log.read(1, 9, 3 * size)) == 3
    assert len(stream.log.read(2, 4, 100 * size)) == 3


def test_an_entry_that_the_log_does_not_have(tmp_path):
    stream = StreamUnderTest(tmp_path)
    stream.publish(b"m0")
    for entry in (0, 2):
        with pytest.raises(KeyError):
            stream.log.read(entry, entry, 1)


def test_a_damaged_chunk_is_not_read(tmp_path):
    stream = StreamUnderTest(tmp_path)
    for number in range(3):
        stream.publish(b"m%d" % number)
        stream.write()
    path = stream.log.segments[0].paths.segment
    path.write_bytes(path.read_bytes().replace(b"m1", b"mX"))
    stream.restart()
    assert len(stream.log.read(1, 1, 0)) == 1
    with pytest.raises(ChunkDamaged, match="the CRC of its messages does not match"):
        stream.log.read(2, 2, 0)


def test_offsets_are_found_in_their_chunks(tmp_path):
    stream = StreamUnderTest(tmp_path)
    stream.log.segment_bytes = 300
    stream.start_term(1)
    for first in range(0, 30, 3):
        stream.publish(*(b"m%d" % number for number in range(first, first + 3)))
        stream.track()
    for _ in range(2):
        entries = [stream.log.entry_of_offset(offset) for offset in range(30)]
        assert entries == [2 + 2 * (offset // 3) for offset in range(30)]
        assert stream.log.entry_of_offset(1_000) == stream.log.last_entry
        stream.write()
        stream.restart()


def test_times_are_found(tmp_path):
    stream = StreamUnderTest(tmp_path)
    stream.log.segment_bytes = 200
    for number in range(12):
        stream.now_ms = 1_000 + 10 * number
        stream.publish(b"m%d" % number)
    for _ in range(2):
        found = [stream.log.entry_of_time(1_000 + ms) for ms in range(-5, 125, 5)]
        assert found == [1, *(1 + (ms + 5) // 10 for ms in range(0, 120, 5)), 13]
        stream.write()
        stream.restart()
