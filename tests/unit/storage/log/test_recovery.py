"""Reading the log at a restart (rules RV1 to RV3)."""

import pytest

from leveret.storage.disk.disk import Disk, StoreError
from leveret.storage.log.log_files import LogFiles, log_path
from leveret.storage.log.recovery import LogReader
from leveret.storage.messages.formats import (
    CLOSED,
    LOG_MAGIC,
    encode_file_header,
    encode_oldest,
    encode_record,
    named_head,
)
from tests.unit.storage.fakes import NOTE, NotesClient


def note(text):
    return encode_record(NOTE, named_head("notes", text))


def write(directory, number, *records, oldest=1, previous=0):
    header = encode_file_header(LOG_MAGIC, number, oldest, previous)
    log_path(directory, number).write_bytes(header + b"".join(records))


def read(directory):
    client = NotesClient(None)
    reader = LogReader(directory, Disk(), [client])
    reader.read()
    return reader, [text for _, text in client.recovered]


def test_an_empty_directory_has_no_log(tmp_path):
    reader, notes = read(tmp_path)
    assert (reader.next_number, reader.files, notes) == (1, [], [])


def test_r3_records_come_in_order_and_each_once(tmp_path):
    write(tmp_path, 2, note(b"c"), note(b"d"))
    write(tmp_path, 1, note(b"a"), note(b"b"))
    reader, notes = read(tmp_path)
    assert notes == [b"a", b"b", b"c", b"d"]
    assert reader.next_number == 3
    assert reader.problems == []


def test_r1_files_before_the_oldest_needed_one_are_stale(tmp_path):
    write(tmp_path, 1, note(b"a"))
    write(tmp_path, 2, note(b"b"))
    write(tmp_path, 3, note(b"c"), encode_oldest(2), note(b"d"))
    reader, notes = read(tmp_path)
    assert notes == [b"b", b"c", b"d"]
    assert reader.stale == [log_path(tmp_path, 1)]
    assert log_path(tmp_path, 1).exists(), "reading changes nothing"


def test_r1_without_an_oldest_record_the_header_counts(tmp_path):
    write(tmp_path, 1, note(b"a"))
    write(tmp_path, 2, note(b"b"), oldest=2)
    assert read(tmp_path)[1] == [b"b"]


@pytest.mark.parametrize("said", [4, 2**64 - 1])
def test_r1_a_file_cannot_say_that_it_is_not_needed_itself(tmp_path, said):
    write(tmp_path, 1, note(b"a"))
    write(tmp_path, 2, note(b"b"), encode_oldest(2), encode_oldest(said), oldest=said)
    reader, notes = read(tmp_path)
    assert notes == [b"b"]
    assert reader.stale == [log_path(tmp_path, 1)]


def test_r2_a_record_without_a_reader_names_its_feature(tmp_path):
    write(tmp_path, 1, note(b"a"), encode_record(130, named_head("raft", b"x")))
    with pytest.raises(StoreError, match=r"0000000001\.log .* kind 130 .* feature 'raft'"):
        read(tmp_path)


def test_r2_a_record_of_an_unknown_kind_without_a_name_stops_the_start(tmp_path):
    write(tmp_path, 1, encode_record(9, b""))
    with pytest.raises(StoreError, match="kind 9 .* start the version that wrote it"):
        read(tmp_path)


def test_the_torn_end_of_the_newest_file_is_not_damage(tmp_path):
    write(tmp_path, 1, note(b"a"), note(b"b")[:-1])
    reader, notes = read(tmp_path)
    assert notes == [b"a"]
    assert reader.problems == []
    assert reader.files[0].size == log_path(tmp_path, 1).stat().st_size - len(note(b"b")) + 1


def test_damage_elsewhere_is_reported_and_reading_goes_on(tmp_path):
    write(tmp_path, 1, note(b"a"), b"garbage", note(b"b"), encode_oldest(1))
    reader, notes = read(tmp_path)
    assert notes == [b"a", b"b"]
    assert "damaged from offset" in reader.problems[0]


def test_bytes_behind_what_was_synced_do_not_count(tmp_path):
    write(tmp_path, 1, note(b"a"), note(b"late"))
    write(tmp_path, 2, note(b"b"), previous=40 + len(note(b"a")))
    assert read(tmp_path)[1] == [b"a", b"b"]


def test_a_missing_file_is_reported(tmp_path):
    write(tmp_path, 1, note(b"a"))
    write(tmp_path, 3, note(b"c"))
    reader, notes = read(tmp_path)
    assert notes == [b"a", b"c"]
    assert "0000000002.log is missing" in reader.problems[0]


def test_very_many_missing_files_are_one_problem(tmp_path):
    write(tmp_path, 1, note(b"a"))
    write(tmp_path, 9_000_000_000, note(b"c"))
    reader, notes = read(tmp_path)
    assert notes == [b"a", b"c"]
    (problem,) = reader.problems
    assert "0000000002.log to " in problem
    assert "8999999999.log are missing" in problem


def torn(text):
    """A record whose last byte did not reach the disk."""
    return note(text)[:-1] + b"\0"


@pytest.mark.parametrize(
    "last_batch",
    [
        [note(b"b"), torn(b"lost"), note(b"c")],
        [bytes(30), note(b"b"), note(b"c"), b"\1\2\3"],
        [note(b"b"), note(b"bad")],
    ],
)
def test_a_torn_last_batch_is_no_loss_now_or_at_the_next_restart(tmp_path, caplog, last_batch):
    write(tmp_path, 1, encode_oldest(1), note(b"a"), encode_oldest(1), *last_batch)
    reader, notes = read(tmp_path)
    assert reader.problems == []
    assert [one for one in notes if one != b"bad"] in ([b"a", b"b", b"c"], [b"a", b"b"])
    assert "before anything in them was confirmed" in reader.torn[0]
    files = LogFiles(tmp_path, Disk())
    files.begin(reader.files, reader.next_number)
    files.close()
    assert read(tmp_path)[0].problems == []


def test_a_torn_first_batch_is_no_loss(tmp_path):
    write(tmp_path, 1, encode_oldest(1), note(b"a"))
    log_path(tmp_path, 2).write_bytes(bytes(20) + b"torn" + bytes(30) + note(b"b"))
    reader, notes = read(tmp_path)
    assert reader.problems == []
    assert notes == [b"a", b"b"]


def test_damage_before_the_last_batch_is_a_loss(tmp_path):
    write(tmp_path, 1, encode_oldest(1), note(b"a"), torn(b"lost"), encode_oldest(1), note(b"b"))
    reader, notes = read(tmp_path)
    assert notes == [b"a", b"b"]
    assert "0000000001.log is damaged from offset" in reader.problems[0]


def test_damage_in_a_log_that_was_closed_is_a_loss(tmp_path):
    write(tmp_path, 1, encode_oldest(1), torn(b"lost"), encode_record(CLOSED, b""))
    assert "is damaged from offset" in read(tmp_path)[0].problems[0]


def test_a_file_of_version_3_may_be_torn_after_its_last_record_only(tmp_path, monkeypatch):
    monkeypatch.setattr("leveret.storage.messages.formats.FORMAT_VERSION", 3)
    write(tmp_path, 1, encode_oldest(1), torn(b"lost"), note(b"a"), b"\1\2\3")
    monkeypatch.undo()
    reader, notes = read(tmp_path)
    assert notes == [b"a"]
    assert len(reader.problems) == 1


def test_what_a_client_reports_is_a_problem_of_the_file(tmp_path):
    write(tmp_path, 1, note(b"bad"), encode_oldest(1))
    assert read(tmp_path)[0].problems == [f"{log_path(tmp_path, 1)} has a bad note"]


@pytest.mark.parametrize(("records", "was_closed"), [([CLOSED], True), ([CLOSED, NOTE], False)])
def test_a_log_was_closed_if_that_is_its_last_record(tmp_path, records, was_closed):
    write(tmp_path, 1, *(encode_record(kind, named_head("notes", b"")) for kind in records))
    assert read(tmp_path)[0].was_closed is was_closed


def test_another_version_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("leveret.storage.messages.formats.FORMAT_VERSION", 99)
    write(tmp_path, 1, note(b"a"))
    monkeypatch.undo()
    with pytest.raises(StoreError, match="format version 99"):
        read(tmp_path)
