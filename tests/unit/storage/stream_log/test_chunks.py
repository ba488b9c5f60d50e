"""The form of a chunk: what is encoded is read back, and any damage is noticed."""

import pytest

from leveret.storage.stream_log.chunks import (
    COPIED_BYTES_MAX,
    HEAD_BYTES,
    USER,
    ChunkError,
    check_chunk,
    encode_chunk,
    entries_of,
    for_clients,
    read_head,
    tracking_of,
)

ENTRIES = b"\0\0\0\1a\0\0\0\2bc"
CHUNK = encode_chunk(USER, 7, 3, 1_700, 2, 2, [ENTRIES[:3], ENTRIES[3:]], b"\1" * 16, b"tracking")


def test_a_chunk_is_what_was_encoded():
    head = check_chunk(CHUNK)
    assert (head.kind, head.offset, head.term, head.time_ms) == (USER, 7, 3, 1_700)
    assert (head.entry_count, head.message_count, head.next_offset) == (2, 2, 9)
    assert head.size == len(CHUNK)
    assert entries_of(CHUNK, head) == ENTRIES
    assert tracking_of(CHUNK, head) == b"tracking"


def test_the_head_is_that_of_the_stream_protocol():
    chunk = encode_chunk(USER, 7, 3, 1_700, 1, 1, [b"\0\0\0\1a"])
    assert chunk[:HEAD_BYTES].hex(" ", 4) == (
        "50000001 00000001 00000000 000006a4 00000000 00000003 00000000 00000007 "
        "e58c9792 00000005 00000004 00000000"
    )


@pytest.mark.parametrize("entries_bytes", [5, COPIED_BYTES_MAX])
@pytest.mark.parametrize("filter_bits", [b"", b"\1" * 16])
def test_clients_get_a_chunk_without_its_filter_and_its_trailer(entries_bytes, filter_bits):
    entries = b"e" * entries_bytes
    chunk = encode_chunk(USER, 7, 3, 1_700, 1, 1, [entries], filter_bits, b"tracking")
    shown = for_clients(chunk, read_head(chunk))
    assert bytes(shown[HEAD_BYTES:]) == entries
    assert read_head(bytes(shown)) == read_head(chunk)._replace(filter_bytes=0)
    is_copied = entries_bytes < COPIED_BYTES_MAX or bool(filter_bits)
    assert isinstance(shown, bytes) == is_copied


def test_chunks_follow_each_other_in_one_string():
    assert read_head(b"before" + CHUNK + b"after", 6) == check_chunk(CHUNK)


@pytest.mark.parametrize("size", range(0, len(CHUNK), 7))
def test_a_chunk_that_is_cut_is_noticed(size):
    with pytest.raises(ChunkError):
        check_chunk(CHUNK[:size])


@pytest.mark.parametrize("place", range(len(CHUNK)))
def test_each_damaged_byte_is_noticed(place):
    damaged = bytearray(CHUNK)
    damaged[place] ^= 0x41
    with pytest.raises(ChunkError):
        check_chunk(bytes(damaged))
