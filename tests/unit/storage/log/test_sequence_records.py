"""The record of entries: what is encoded is decoded, and each entry's data can be read alone."""

import pytest

from leveret.storage.log.sequence_records import (
    ENTRY,
    SequenceItem,
    decode_items,
    encode_items,
    truncation,
    void_from,
)
from leveret.storage.messages.formats import FormatError, feature_of, read_record

ITEMS = [
    SequenceItem(ENTRY, 3, 10, b"first"),
    truncation(3, 11, 10),
    SequenceItem(ENTRY, 1 << 63, 12, b""),
]


def test_items_come_back_as_they_were():
    data, offsets = encode_items(200, "raft", ITEMS)
    record = read_record(data, 0)
    assert record.kind == 200
    assert feature_of(record) == "raft"
    assert decode_items(record.head, "raft") == (ITEMS, offsets)


def test_offsets_are_those_of_the_data_in_the_record():
    data, offsets = encode_items(200, "raft", ITEMS)
    assert data[offsets[0] :].startswith(b"first")


def test_a_truncation_has_the_lowest_number_that_it_voids():
    assert void_from(ITEMS[1]) == 10


def test_a_damaged_record_is_none():
    data, _ = encode_items(200, "raft", ITEMS)
    assert read_record(data.replace(b"first", b"worst"), 0) is None


def test_a_record_of_another_feature_is_refused():
    data, _ = encode_items(200, "raft", ITEMS)
    with pytest.raises(FormatError, match="'streams'"):
        decode_items(read_record(data, 0).head, "streams")


@pytest.mark.parametrize("size", range(5, 14))
def test_a_head_without_an_entry_is_refused(size):
    head = read_record(encode_items(200, "raft", ITEMS)[0], 0).head
    with pytest.raises(FormatError, match="no entries"):
        decode_items(head[:size], "raft")


@pytest.mark.parametrize("change", [b"\0", b"\3", b"\2"], ids=["none", "unknown", "not a number"])
def test_an_entry_of_another_sort_is_refused(change):
    head = read_record(encode_items(200, "raft", ITEMS)[0], 0).head
    what_at = len("raft") + 1 + 8
    with pytest.raises(FormatError, match="no whole entry"):
        decode_items(head[:what_at] + change + head[what_at + 1 :], "raft")


def test_an_entry_that_is_cut_off_is_refused():
    head = read_record(encode_items(200, "raft", ITEMS[:2])[0], 0).head
    with pytest.raises(FormatError, match="no whole entry"):
        decode_items(head[:-1], "raft")
