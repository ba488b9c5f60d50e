"""What a start finds of a stream that was cut off anywhere."""

import pytest

from leveret.storage.stream_log.chunk_index import RECORD_BYTES
from leveret.storage.stream_log.recovery import StreamDamaged
from tests.unit.storage.fakes import RecordingDisk
from tests.unit.storage.stream_log.stream_under_test import StreamUnderTest, numbered

TORN, SYNCED = 3, 2
"""The number of messages in the last batch, and before it."""


@pytest.fixture
def stream(tmp_path):
    """Two batches of a chunk each, and one of three chunks, in one segment."""
    stream = StreamUnderTest(tmp_path)
    for number in range(SYNCED):
        stream.publish(b"m%d" % number)
        stream.write()
    for number in range(SYNCED, SYNCED + TORN):
        stream.publish(b"m%d" % number)
    stream.write()
    return stream


def files(stream):
    paths = stream.log.segments[-1].paths
    return paths.segment, paths.index


def cut(path, size):
    path.write_bytes(path.read_bytes()[:size])


def zero(path, begin, end):
    data = bytearray(path.read_bytes())
    data[begin:end] = bytes(end - begin)
    path.write_bytes(data)


def whole_chunks(stream, size):
    """How many chunks are in the first bytes of the only segment."""
    places = [stream.log.segments[0].head_bytes]
    for chunk in stream.chunks():
        places.append(places[-1] + len(chunk))
    return sum(place <= size for place in places) - 1


@pytest.mark.parametrize("missing", range(0, 180, 9))
def test_a_segment_that_ends_in_the_last_batch(stream, missing):
    segment, index = files(stream)
    size = segment.stat().st_size - missing
    left = whole_chunks(stream, size)
    assert left >= SYNCED
    cut(segment, size)
    for _ in range(2):
        stream.restart()
        assert stream.messages() == numbered(left)
        assert index.stat().st_size == left * RECORD_BYTES
        stream.write()
    stream.publish(b"m%d" % left, term=2)
    stream.write()
    assert stream.restart().messages() == numbered(left + 1)


def test_a_segment_that_ends_before_the_last_batch_is_damaged(stream):
    segment, _ = files(stream)
    cut(segment, segment.stat().st_size - 200)
    with pytest.raises(StreamDamaged, match=r"\.segment ends before offset \d+"):
        stream.restart()


@pytest.mark.parametrize("lost", range(TORN))
def test_a_hole_in_the_last_batch_ends_the_log(stream, lost):
    segment, _ = files(stream)
    size = len(stream.chunks()[-1])
    begin = segment.stat().st_size - (lost + 1) * size
    zero(segment, begin + 10, begin + 20)
    assert stream.restart().messages() == numbered(SYNCED + TORN - lost - 1)


@pytest.mark.parametrize("missing", range(0, 5 * RECORD_BYTES + 1, 8))
def test_records_that_are_missing_are_made_again(stream, missing):
    _, index = files(stream)
    whole = index.read_bytes()
    cut(index, len(whole) - missing)
    assert stream.restart().messages() == numbered(SYNCED + TORN)
    assert len(index.read_bytes()) == len(whole)
    assert stream.log.entry_of_offset(3) == 4


@pytest.mark.parametrize("number", range(SYNCED + TORN))
def test_records_that_a_power_cut_has_left_as_zeros_are_made_again(stream, number):
    _, index = files(stream)
    zero(index, number * RECORD_BYTES, len(index.read_bytes()))
    assert stream.restart().messages() == numbered(SYNCED + TORN)
    assert stream.log.entry_of_offset(3) == 4


def test_no_index_at_all(stream):
    _, index = files(stream)
    index.unlink()
    assert stream.restart().messages() == numbered(SYNCED + TORN)


def test_the_index_of_an_earlier_segment_is_made_again(stream):
    _, index = files(stream)
    stream.log.begin_segment(stream.now_ms)
    stream.publish(b"m5")
    stream.write()
    cut(index, 40)
    assert stream.restart().messages() == numbered(6)
    assert len(index.read_bytes()) == 5 * RECORD_BYTES


def test_an_earlier_segment_that_lacks_a_chunk_is_damaged(stream):
    segment, index = files(stream)
    stream.log.begin_segment(stream.now_ms)
    stream.write()
    cut(segment, segment.stat().st_size - 1)
    cut(index, 40)
    with pytest.raises(StreamDamaged, match=r"has 4 undamaged .* next segment begins after 5"):
        stream.restart()


def test_a_segment_with_a_damaged_head_is_damaged(stream):
    segment, _ = files(stream)
    zero(segment, 14, 18)
    with pytest.raises(StreamDamaged, match="CRC of the segment's head"):
        stream.restart()


def test_a_segment_of_a_newer_version(stream):
    segment, _ = files(stream)
    data = segment.read_bytes()
    segment.write_bytes(data[:4] + b"\0\0\0\2" + data[8:])
    with pytest.raises(StreamDamaged, match="has version 2 of its form"):
        stream.restart()


def test_a_directory_without_segments(stream):
    for path in files(stream):
        path.unlink()
    with pytest.raises(StreamDamaged, match="has no segment of a stream"):
        stream.restart()


@pytest.mark.parametrize("name", ["00000000000000000005.begun", "00000000000000000005.reset"])
def test_a_change_that_was_cut_off_is_undone(stream, tmp_path, name):
    (tmp_path / name).write_bytes(b"LVSG\0\0\0\1")
    (tmp_path / "00000000000000000005.index").write_bytes(b"")
    assert stream.restart().messages() == numbered(5)
    assert len(list(tmp_path.iterdir())) == 2


def test_what_a_start_has_found_is_synced(stream):
    disk = RecordingDisk()
    stream.use(disk)
    segment, index = files(stream)
    assert disk.done[-4:-2] == [("sync", segment.name), ("sync", index.name)]


def test_only_the_end_of_the_last_segment_is_read(tmp_path):
    stream = StreamUnderTest(tmp_path)
    for number in range(20):
        stream.publish(bytes(100_000))
        stream.write()
        if number % 5 == 4:
            stream.log.begin_segment(stream.now_ms)
    stream.publish(b"last")
    stream.write()
    before = stream.disk.counts.read_bytes
    stream.restart()
    assert stream.disk.counts.read_bytes - before < 10_000
