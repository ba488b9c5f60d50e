"""Removing the last entries of a stream's log, and replacing all of them."""

import pytest

from leveret.storage.stream_log.entry_runs import EntryRun
from leveret.storage.stream_log.segment_files import StreamFiles
from leveret.storage.stream_log.segment_heads import SegmentHead
from tests.unit.storage.stream_log.stream_under_test import StreamUnderTest, numbered


@pytest.fixture(params=["in memory", "in files", "after a restart"])
def stream(request, tmp_path):
    """A stream with ten chunks of a message each, in five segments."""
    stream = StreamUnderTest(tmp_path)
    stream.log.segment_bytes = 140
    for number in range(10):
        stream.publish(b"m%d" % number)
    assert len(stream.log.segments) == 5
    if request.param != "in memory":
        stream.write()
    if request.param == "after a restart":
        stream.restart().log.segment_bytes = 140
    return stream


@pytest.mark.parametrize("first", range(1, 12))
def test_entries_after_a_truncation_follow_those_before_it(stream, first):
    stream.log.truncate(first)
    assert stream.log.last_entry == first - 1
    assert stream.messages() == numbered(first - 1)
    stream.publish(b"m%d" % (first - 1), term=2)
    for _ in range(2):
        assert stream.messages() == numbered(first)
        assert stream.runs() == [(1, first - 1, 1, 0), (first, 1, 2, 0)][first == 1 :]
        stream.write()
        stream.restart()


def test_a_truncation_of_chunks_that_are_being_written(tmp_path):
    stream = StreamUnderTest(tmp_path)
    for number in range(4):
        stream.publish(b"old %d" % number)
    steps = stream.log.take_steps()
    stream.log.truncate(2)
    stream.publish(b"m1", term=2)
    StreamFiles(tmp_path, stream.disk).carry_out(steps)
    stream.log.written()
    assert stream.messages() == {0: b"old 0", 1: b"m1"}
    stream.write()
    assert stream.messages() == {0: b"old 0", 1: b"m1"}
    assert stream.restart().messages() == {0: b"old 0", 1: b"m1"}


def test_a_reset_replaces_everything(stream):
    stream.log.reset(SegmentHead(101, 5, 9_000, [EntryRun(90, 11, 7, 0)]))
    stream.publish(b"m5", term=8)
    for _ in range(2):
        assert stream.messages() == {5: b"m5"}
        assert (stream.log.first_entry, stream.log.last_entry) == (101, 101)
        stream.write()
        stream.restart()


def test_a_reset_to_the_name_of_an_old_segment(stream):
    stream.log.reset(SegmentHead(1, 0, 9_000, []))
    stream.publish(b"m0", term=2)
    stream.write()
    assert stream.restart().messages() == numbered(1)


def test_the_oldest_segments_are_removed(stream):
    stream.log.remove_segments(2)
    for _ in range(2):
        assert stream.messages() == numbered(5, 5)
        assert stream.log.first_offset == 5
        assert stream.runs() == [(6, 5, 1, 0)]
        stream.write()
        stream.restart()
