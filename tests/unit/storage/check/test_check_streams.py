"""What a check finds in the files of one stream: damage at any place, with its file and offset."""

import pytest

from leveret.storage.check.check_segments import UNNEEDED
from leveret.storage.check.check_streams import StreamCheck
from leveret.storage.disk.disk import Disk
from leveret.storage.stream_log.chunk_index import RECORD_BYTES
from tests.unit.storage.stream_log.stream_under_test import StreamUnderTest

IN_SEGMENT = 4
"""Chunks in the first segment. The last one has as many, and two more in its last batch."""


@pytest.fixture
def stream(tmp_path):
    """Two segments; each chunk but the last two was on disk before the next one was written."""
    stream = StreamUnderTest(tmp_path / "7")
    stream.start_term()
    for number in range(1, 2 * IN_SEGMENT):
        if number == IN_SEGMENT:
            stream.log.begin_segment(stream.now_ms)
        stream.publish(b"m%d" % number, b"another")
        stream.write()
    stream.publish(b"in the last batch")
    stream.publish(b"in the last batch")
    stream.write()
    return stream


def check(stream):
    return StreamCheck(Disk(), stream.directory)


def findings(stream):
    """The problems of each file, by its name."""
    return {file.path.name: file.problems for file in check(stream).files if file.problems}


def files(stream, number):
    paths = stream.log.segments[number].paths
    return paths.segment, paths.index


def change(path, place):
    data = bytearray(path.read_bytes())
    data[place] ^= 0x40
    path.write_bytes(data)


def cut(path, size):
    path.write_bytes(path.read_bytes()[:size])


def places(stream, number):
    """Where the chunks of a segment begin."""
    segment = stream.log.segments[number]
    read = segment.reads(stream.disk)
    return [read(position).place for position in range(segment.count)]


def test_a_whole_stream_has_no_problems(stream):
    found = check(stream)
    assert not found.has_problems
    assert sum(file.counts.get("messages", 0) for file in found.files) == 16


def test_a_changed_byte_anywhere_before_the_last_batch_is_found(stream):
    before_last_batch = places(stream, 1)[-2]
    for number in (0, 1):
        segment, index = files(stream, number)
        synced = before_last_batch if number else segment.stat().st_size
        records = stream.log.segments[number].count - 2 * number
        for path, size in ((segment, synced), (index, records * RECORD_BYTES)):
            whole = path.read_bytes()
            for place in range(number, size, 5):
                change(path, place)
                found = findings(stream)
                if path is segment or not is_unused(place):
                    assert path.name in found, (path.name, place)
                path.write_bytes(whole)
    assert findings(stream) == {}


def is_unused(place):
    """Whether the format leaves a byte of an index empty, or a change says another batch began."""
    return place % RECORD_BYTES >= RECORD_BYTES - 4


@pytest.mark.parametrize("part", ["magic", "messages", "trailer"])
def test_a_damaged_chunk_is_named_with_its_place_and_what_is_lost(stream, part):
    begin, end = places(stream, 0)[1:3]
    change(files(stream, 0)[0], {"magic": begin, "messages": begin + 50, "trailer": end - 1}[part])
    ((name, (problem,)),) = findings(stream).items()
    assert name == files(stream, 0)[0].name
    assert problem.startswith(f"bytes {begin} to {end} are not a whole chunk: the ")
    assert problem.endswith("the messages 0 to 1 are lost")


def test_several_damaged_chunks_are_named(stream):
    for begin in places(stream, 0)[1:3]:
        change(files(stream, 0)[0], begin)
    (problems,) = findings(stream).values()
    assert [problem.partition(": ")[0].split()[1] for problem in problems] == [
        str(begin) for begin in places(stream, 0)[1:3]
    ]


def test_a_damaged_head_is_named(stream):
    segment, _ = files(stream, 1)
    change(segment, 14)
    assert findings(stream) == {
        segment.name: [
            "its head at offset 0 cannot be used: the CRC of the segment's head does not match"
        ]
    }


def test_a_record_of_another_chunk_is_named(stream):
    segment, index = files(stream, 1)
    change(index, 2 * RECORD_BYTES + 20)
    assert findings(stream) == {
        index.name: [
            f"1 of its records are not those of their chunks, the first one at offset "
            f"{2 * RECORD_BYTES}"
        ]
    }
    assert segment.exists()


def test_an_index_that_ends_early_is_found(stream):
    _, index = files(stream, 0)
    cut(index, 3 * RECORD_BYTES)
    assert list(findings(stream)) == [index.name]


def test_an_index_of_the_last_segment_may_end_early_or_be_empty(stream):
    _, index = files(stream, 1)
    for size in (5 * RECORD_BYTES, RECORD_BYTES + 3, 0):
        cut(index, size)
        assert findings(stream) == {}
    index.write_bytes(bytes(5 * RECORD_BYTES))
    assert findings(stream) == {}
    index.unlink()
    assert findings(stream) == {}


def test_the_last_batch_may_be_cut_anywhere(stream):
    segment, _ = files(stream, 1)
    whole, begin = segment.read_bytes(), places(stream, 1)[-2]
    for size in range(begin, len(whole)):
        cut(segment, size)
        found = check(stream)
        assert not found.has_problems
        (last,) = [file for file in found.files if file.path == segment]
        assert last.counts.get(UNNEEDED, 0) == size - last_whole(stream, size)
        segment.write_bytes(whole)


def last_whole(stream, size):
    return max(place for place in [*places(stream, 1)] if place <= size)


def test_a_segment_that_ends_before_the_last_batch_is_found(stream):
    segment, _ = files(stream, 1)
    second, third = places(stream, 1)[1:3]
    for size in (second, second + 10, third):
        cut(segment, size)
        assert list(findings(stream)) == [segment.name]


def test_bytes_after_the_last_chunk_of_an_earlier_segment_are_found(stream):
    segment, _ = files(stream, 0)
    size = segment.stat().st_size
    segment.write_bytes(segment.read_bytes() + b"more")
    (problem,) = findings(stream)[segment.name]
    assert problem.startswith(f"bytes {size} to {size + 4} are not a whole chunk")


def test_a_missing_segment_is_found(stream):
    stream.log.begin_segment(stream.now_ms)
    stream.write()
    segment, index = files(stream, 1)
    segment.unlink()
    index.unlink()
    first = files(stream, 0)[0].name
    (problem,) = findings(stream)[first]
    assert "before entry 5 and message 6; the next segment begins with entry 11" in problem


def test_terms_that_go_back_are_found(stream):
    stream.publish(b"a later term", term=3)
    place = stream.log.segments[1].size_bytes
    stream.publish(b"an earlier one", term=2)
    stream.write()
    (problem,) = findings(stream)[files(stream, 1)[0].name]
    assert problem == f"the chunk at offset {place} has term 2 after 3"


def test_no_segment_at_all(stream):
    for path in [*files(stream, 0), *files(stream, 1)]:
        path.unlink()
    assert check(stream).damage.endswith("has no segment of a stream")


@pytest.mark.parametrize("name", ["00000000000000000005.begun", "00000000000000000005.reset"])
def test_a_change_that_was_cut_off_is_no_problem(stream, name):
    (stream.directory / name).write_bytes(b"LVSG\0\0\0\1")
    (stream.directory / "00000000000000000005.index").write_bytes(b"")
    assert findings(stream) == {}
