"""The entries of a publish."""

import struct

import pytest

from leveret.broker.protocols.stream.published import numbers_of, read_published
from leveret.broker.protocols.stream.requests import FrameError


def string(text):
    return struct.pack(">h", len(text)) + text.encode()


def entry(body):
    return struct.pack(">i", len(body)) + body


def numbered(number, body):
    return struct.pack(">Q", number) + body


def read(data, count, version):
    return read_published(data, 0, len(data), count, version)


BATCH = struct.pack(">BHII", 0x90, 3, 15, 4) + b"gzip"


def test_the_entries_of_a_publish_have_the_form_of_a_chunk():
    data = b"head" + numbered(4, entry(b"a")) + numbered(2**63, entry(b"")) + numbered(7, BATCH)
    published = read_published(data + b"tail", 4, len(data), 3, 1)
    assert published.numbers == (4, 2**63, 7)
    assert published.entries == [entry(b"a"), entry(b""), BATCH]
    assert published.message_count == 5
    assert published.filter_values == []
    assert not published.are_increasing


def test_entries_with_filter_values():
    data = numbered(1, string("red") + entry(b"a")) + numbered(2, b"\xff\xff" + entry(b"b"))
    published = read(data, 2, 2)
    assert published.filter_values == [b"red", b""]
    assert published.entries == [entry(b"a"), entry(b"b")]
    assert published.are_increasing


@pytest.mark.parametrize("version", [1, 2])
def test_entries_that_do_not_fill_the_frame_are_refused(version):
    value = string("red") if version == 2 else b""
    data = numbered(1, value + entry(b"abc")) + numbered(2, value + BATCH)
    assert read(data, 2, version).message_count == 4
    for size in range(len(data)):
        with pytest.raises(FrameError, match="does not fill its frame"):
            read(data[:size], 2, version)
        with pytest.raises(FrameError, match="does not fill its frame"):
            read_published(data, 0, size, 2, version)
    for count in (0, 1, 3, 2**32 - 1):
        with pytest.raises(FrameError, match="does not fill its frame"):
            read(data, count, version)


def test_a_batch_without_messages_is_refused():
    data = numbered(1, struct.pack(">BHII", 0x80, 0, 0, 0))
    with pytest.raises(FrameError, match="a batch without messages"):
        read(data, 1, 1)


def test_entries_in_the_order_of_their_ids():
    ids = [5, 4, 7, 2**63 + 1, 7, 2**63, 2**64 - 1]
    data = b"".join(numbered(number, BATCH if number == 7 else entry(b"a")) for number in ids)
    published = read(data, len(ids), 1)
    assert published.numbers == tuple(ids)
    assert numbers_of(published.put_in_order()) == (4, 7, 2**63)
    assert published.numbers == (5, 7, 2**63 + 1, 2**64 - 1)
    assert published.message_count == 6


def test_parts():
    data = numbered(1, entry(b"a")) + numbered(2, BATCH) + numbered(3, entry(b"c"))
    first, second = read(data, 3, 1).parts(2)
    assert (first.numbers, first.message_count, first.entries) == ((1, 2), 4, [entry(b"a"), BATCH])
    assert (second.numbers, second.message_count, second.entries) == ((3,), 1, [entry(b"c")])
