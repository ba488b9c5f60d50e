"""The record of entries: what is encoded is decoded, and each entry's data can be read alone."""

import pytest

from leveret.storage.formats import FormatError, feature_of, read_record
from leveret.storage.sequence_records import (
    ENTRY,
    Item,
    decode_items,
    encode_items,
    truncation,
    void_from,
)

ITEMS = [Item(ENTRY, 3, 10, b"first"), truncation(3, 11, 10), Item(ENTRY, 1 << 63, 12, b"")]


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
