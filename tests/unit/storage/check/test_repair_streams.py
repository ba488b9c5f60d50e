"""Repairing the files of one stream: what is mended, and what other members have to replace."""

import pytest

from leveret.storage.check.check_streams import StreamCheck
from leveret.storage.check.kept_originals import KeptOriginals
from leveret.storage.check.repair_streams import StreamRepair
from leveret.storage.disk.disk import Disk
from leveret.storage.stream_log.chunk_index import RECORD_BYTES
from tests.unit.storage.check.test_check_streams import change, cut, files, findings, places
from tests.unit.storage.stream_log.stream_under_test import StreamUnderTest, numbered


@pytest.fixture
def stream(tmp_path):
    """Two segments of four chunks of a message each, all on disk; the last one is a batch."""
    stream = StreamUnderTest(tmp_path / "7")
    for number in range(8):
        if number == 4:
            stream.log.begin_segment(stream.now_ms)
        stream.publish(b"m%d" % number)
        stream.write()
    return stream


def repair(stream, *, has_one_member=True, snapshot_index=0):
    originals = KeptOriginals(stream.directory.parent, Disk())
    StreamRepair(
        originals, StreamCheck(Disk(), stream.directory), has_one_member=has_one_member,
        snapshot_index=snapshot_index,
    ).run()  # fmt: skip
    return originals.repaired


def after(stream):
    """The messages that a start finds after the repair, by their offsets."""
    assert findings(stream) == {}
    found = stream.restart().messages()
    stream.publish(b"one more", term=2)
    stream.write()
    assert stream.restart().messages() == {**found, stream.log.next_offset - 1: b"one more"}
    return found


@pytest.mark.parametrize("number", range(7))
def test_a_damaged_chunk_becomes_one_without_messages(stream, number):
    """All others keep their offsets."""
    segment, index = files(stream, number // 4)
    change(segment, places(stream, number // 4)[number % 4] + 50)
    damaged = segment.read_bytes()
    assert repair(stream) == [segment, index]
    copy = stream.directory.parent / "damaged" / segment.relative_to(stream.directory.parent)
    assert copy.read_bytes() == damaged
    left = numbered(8)
    del left[number]
    assert after(stream) == left


def test_damaged_chunks_beside_each_other(stream):
    segment, _ = files(stream, 0)
    for place in places(stream, 0)[1:]:
        change(segment, place)
    repair(stream)
    assert after(stream) == {number: b"m%d" % number for number in (0, 4, 5, 6, 7)}


def test_an_earlier_segment_that_was_cut(stream):
    segment, _ = files(stream, 0)
    cut(segment, places(stream, 0)[2] + 5)
    repair(stream)
    assert after(stream) == {number: b"m%d" % number for number in (0, 1, 4, 5, 6, 7)}


@pytest.mark.parametrize("size", [0, 10])
def test_the_end_of_the_last_segment_is_cut_off(stream, size):
    segment, _ = files(stream, 1)
    cut(segment, places(stream, 1)[1] + size)
    assert findings(stream)
    repair(stream)
    assert after(stream) == numbered(5)


def test_an_end_that_the_snapshot_covers_is_not_cut_off(stream):
    segment, _ = files(stream, 1)
    cut(segment, places(stream, 1)[1] + 10)
    assert repair(stream, snapshot_index=6) == []
    assert findings(stream)


@pytest.mark.parametrize("has_one_member", [False, True])
def test_an_index_is_made_again(stream, has_one_member):
    for number in (0, 1):
        change(files(stream, number)[1], RECORD_BYTES + 20)
    assert len(repair(stream, has_one_member=has_one_member)) == 2
    assert after(stream) == numbered(8)


def test_bytes_after_the_last_chunk_of_an_earlier_segment_are_cut_off(stream):
    segment, _ = files(stream, 0)
    segment.write_bytes(segment.read_bytes() + b"more")
    assert repair(stream, has_one_member=False) == [segment]
    assert after(stream) == numbered(8)


@pytest.mark.parametrize("number", [0, 1])
def test_a_stream_with_other_members_keeps_its_damage(stream, number):
    segment, _ = files(stream, number)
    change(segment, places(stream, number)[1])
    before = segment.read_bytes()
    assert repair(stream, has_one_member=False) == []
    assert segment.read_bytes() == before


def test_a_damaged_entry_of_the_group_stays(stream):
    stream.start_term(term=2)
    stream.write()
    stream.publish(b"after it", term=2)
    stream.write()
    change(files(stream, 1)[0], places(stream, 1)[4])
    assert repair(stream) == []
    ((problem,),) = findings(stream).values()
    assert problem.endswith("an entry of the group is lost")
