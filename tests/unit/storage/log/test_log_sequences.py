"""Sequences of entries in the log (rules SQ1 to SQ3); also tests/storage/test_log_clients.py."""

import asyncio

import pytest

from leveret.storage.disk.disk import Disk, StoreError
from leveret.storage.log.log_sequences import LogSequences
from leveret.storage.log.recovery import LogReader
from leveret.storage.log.sequence_records import ENTRY, SequenceItem, encode_items
from leveret.storage.messages.formats import (
    FILE_HEADER_BYTES,
    OLDEST,
    FormatError,
    ScannedRecord,
    encode_oldest,
    read_record,
    read_records,
)
from tests.unit.storage.fakes import LogUnderTest

KIND = 120


class Compactor:
    """Discards what it is asked to compact."""

    def __init__(self):
        self.asked = []

    async def compact(self, sequence, through):
        await asyncio.sleep(0)
        self.asked.append((sequence, through))
        self.sequences.discard(sequence, through)


@pytest.fixture
async def rig(tmp_path):
    rig = LogUnderTest(tmp_path, file_bytes_max=200)
    attach(rig)
    return rig


def attach(rig):
    rig.compactor = Compactor()
    rig.sequences = LogSequences(rig.log, rig.files, "raft", KIND, rig.compactor)
    rig.compactor.sequences = rig.sequences
    rig.log.register(rig.sequences)


def recovered(rig):
    """What a restart of the log hands out."""
    rig.log.clients.remove(rig.sequences)
    attach(rig)
    reader = LogReader(rig.directory, Disk(), rig.log.clients)
    reader.read()
    rig.problems = reader.problems
    return [(entry.sequence, entry.data) for entry in rig.sequences.take_recovered()]


async def test_n1_numbers_are_consecutive_through_all_sequences(rig):
    assert [rig.sequences.append(1, b"a"), rig.sequences.append(2, b"b")] == [1, 2]
    await rig.write()
    assert recovered(rig) == [(1, b"a"), (2, b"b")]
    assert rig.sequences.append(1, b"c") == 3


async def test_all_operations_of_a_batch_are_one_record(rig):
    rig.sequences.append(1, b"a")
    rig.sequences.append(2, b"b")
    rig.sequences.truncate(1, 1)
    await rig.write()
    found = read_records(rig.files.files[0].path.read_bytes(), FILE_HEADER_BYTES)
    assert [record.kind for record in found if isinstance(record, ScannedRecord)] == [OLDEST, KIND]


async def test_a_truncation_voids_what_was_before_and_not_what_comes_after(rig):
    for data in (b"a", b"b", b"c"):
        rig.sequences.append(1, data)
    rig.sequences.append(2, b"x")
    await rig.write()
    rig.sequences.truncate(1, 2)
    rig.sequences.append(1, b"d")
    assert rig.sequences.numbers(1) == [1, 6]
    await rig.write()
    assert recovered(rig) == [(1, b"a"), (1, b"d"), (2, b"x")]
    assert rig.sequences.numbers(1) == [1, 6]


async def test_records_truncated_before_they_are_written_do_not_come_back(rig):
    rig.sequences.append(1, b"a")
    rig.sequences.truncate(1, 1)
    await rig.write()
    assert recovered(rig) == []


async def test_an_entry_is_read_from_memory_and_then_from_the_log(rig):
    number = rig.sequences.append(1, b"data")
    assert rig.sequences.read(1, number) == b"data"
    await rig.write()
    assert rig.sequences.read(1, number) == b"data"
    with pytest.raises(KeyError):
        rig.sequences.read(1, number + 1)


async def test_a_damaged_entry_is_not_read(rig):
    number = rig.sequences.append(1, b"data")
    await rig.write()
    path = rig.files.files[0].path
    path.write_bytes(path.read_bytes().replace(b"data", b"dada"))
    with pytest.raises(StoreError, match="entry 1 of sequence 1 of 'raft' cannot be read"):
        rig.sequences.read(1, number)


async def test_n1_what_follows_a_gap_is_left_out_until_numbers_go_on_before_it(rig):
    record, _ = encode_items(KIND, "raft", [SequenceItem(ENTRY, 1, 5, b"late")])
    file = rig.files.files[0]
    rig.sequences.append(1, b"a")
    await rig.write()
    # Another batch follows, so the record with a gap before it was synced.
    record += encode_oldest(1)
    rig.files.write(file, [record], len(record))
    file.size += len(record)
    assert recovered(rig) == [(1, b"a")]
    assert "entries 5 to 5 of 'raft'" in rig.problems[0]
    rig.sequences.append(1, b"b")
    await rig.write()
    assert recovered(rig) == [(1, b"a"), (1, b"b")]


async def test_left_out_entries_do_not_come_back_when_what_was_before_them_is_removed(rig):
    late, _ = encode_items(KIND, "raft", [SequenceItem(ENTRY, 1, 5, b"late")])
    again, _ = encode_items(KIND, "raft", [SequenceItem(ENTRY, 1, 4, b"again")])
    file = rig.files.files[0]
    rig.files.write(file, [late + again], len(late + again))
    assert recovered(rig) == [(1, b"again")]


async def test_n3_a_file_is_needed_while_it_has_an_entry_that_is_needed(rig):
    assert rig.sequences.oldest_needed() is None
    number = rig.sequences.append(1, b"a" * 200)
    assert rig.sequences.oldest_needed() is None, "it is not in a file yet"
    await rig.write()
    rig.sequences.append(2, b"b")
    await rig.write()
    assert rig.sequences.oldest_needed() == 1
    rig.sequences.discard(1, number)
    assert rig.sequences.oldest_needed() == 2


async def test_n3_moving_on_compacts_each_sequence_and_keeps_the_next_number(rig):
    rig.sequences.append(1, b"a")
    rig.sequences.append(7, b"b" * 200)
    await rig.write()
    await rig.sequences.move_on(rig.files.files[0])
    assert rig.compactor.asked == [(1, 1), (7, 2)]
    assert rig.sequences.oldest_needed() is None
    await rig.write()
    assert rig.sequences.oldest_needed() == 2


async def test_a_record_of_another_feature_is_refused(rig):
    data, _ = encode_items(KIND, "streams", [SequenceItem(ENTRY, 1, 1, b"a")])
    record = read_record(data, 0)
    assert isinstance(record, ScannedRecord)
    with pytest.raises(FormatError, match="not a record of 'raft'"):
        rig.sequences.recover(rig.files.files[0], data, record)
