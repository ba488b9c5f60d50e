"""Chunks that are sent from their files: large ones only, and checked the first time."""

import os

import pytest

from leveret.storage.stream_log.chunks import HEAD_BYTES, check_chunk, for_clients, read_head
from leveret.storage.stream_log.stored_chunks import (
    SENT_BYTES_MAX,
    SENT_CHUNK_BYTES_MIN,
    ChunkDamaged,
    StoredChunk,
)
from tests.unit.storage.stream_log.stream_under_test import StreamUnderTest

LARGE = bytes(SENT_CHUNK_BYTES_MIN)
READ_BYTES = 100_000


def stored(tmp_path, *bodies):
    """A stream with a chunk for each body, all of them in the file only."""
    stream = StreamUnderTest(tmp_path)
    for body in bodies:
        stream.publish(body)
    stream.write()
    stream.log._recent.clear()
    return stream


def found(stream, first=1):
    return stream.log.find(first, stream.log.last_entry, READ_BYTES)


def content(part):
    """The bytes of a part of a file."""
    return os.pread(part._file.descriptor, part.size, part._offset)


def test_large_chunks_are_found_in_their_file(tmp_path):
    stream = stored(tmp_path, LARGE, LARGE + b"1", LARGE + b"2")
    chunks = found(stream)
    expected = [for_clients(chunk, read_head(chunk)) for chunk in stream.chunks()]
    assert [one.head_for_clients + content(one.entries()) for one in chunks] == expected
    assert [one.head.offset for one in chunks] == [0, 1, 2]
    assert found(stream, 3)[0].head.offset == 2


def test_more_is_found_than_is_read(tmp_path):
    stream = stored(tmp_path, *[LARGE] * 100)
    assert len(stream.log.read(1, 100, READ_BYTES)) == 1
    assert len(found(stream)) == SENT_BYTES_MAX // len(stream.chunks()[0])


def test_small_chunks_are_read(tmp_path):
    stream = stored(tmp_path, b"small", *[LARGE[:-100]] * 5)
    assert found(stream) == stream.log.read(1, 6, READ_BYTES)


def test_chunks_in_memory_are_given(tmp_path):
    stream = StreamUnderTest(tmp_path)
    stream.publish(LARGE)
    stream.write()
    assert found(stream) == stream.chunks()


def test_chunks_are_read_when_too_many_files_are_open(tmp_path, monkeypatch):
    stream = stored(tmp_path, LARGE)
    monkeypatch.setattr(stream.disk, "keep_open", os.close)
    assert found(stream) == stream.chunks()


def test_a_filter_is_not_sent(tmp_path):
    stream = StreamUnderTest(tmp_path)
    chunk = stream.chunk(LARGE, filter_bits=b"\x81" * 16)
    stream.log.append(1, 1, 0, [chunk])
    stream.write()
    stream.log._recent.clear()
    (one,) = found(stream)
    assert one.filter_bits == b"\x81" * 16
    assert one.head_for_clients + content(one.entries()) == for_clients(chunk, read_head(chunk))


def test_a_damaged_chunk_is_not_sent(tmp_path):
    stream = stored(tmp_path, LARGE, LARGE)
    damage(stream)
    with pytest.raises(ChunkDamaged, match="the CRC of its messages does not match"):
        found(stream)


def damage(stream):
    """Change the last byte of the entries of the last chunk."""
    segment = stream.log.segments[0]
    head = read_head(stream.chunks()[-1])
    with open(segment.paths.segment, "r+b") as file:
        file.seek(-head.trailer_bytes - 1, os.SEEK_END)
        file.write(b"\xff")


def test_a_chunk_is_checked_once(tmp_path):
    stream = stored(tmp_path, LARGE, LARGE, LARGE)
    before = stream.disk.counts.read_bytes
    found(stream, 2)
    assert bytes(stream.log.segments[0].checked) == b"\0\1\1"
    first = stream.disk.counts.read_bytes - before
    assert first > 2 * len(LARGE)
    found(stream, 2)
    assert stream.disk.counts.read_bytes - before - first < 2 * (HEAD_BYTES + 255) + 200


def test_what_follows_a_truncation_is_checked_again(tmp_path):
    stream = stored(tmp_path, LARGE, LARGE)
    found(stream)
    stream.log.truncate(2)
    stream.publish(LARGE + b"other", term=2)
    stream.write()
    stream.log._recent.clear()
    assert bytes(stream.log.segments[0].checked) == b"\1"
    assert check_chunk(stream.chunks()[1]).term == 2
    one = found(stream, 2)[0]
    assert isinstance(one, StoredChunk)
    assert one.head.term == 2
