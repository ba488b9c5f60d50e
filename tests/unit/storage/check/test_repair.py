"""Repairing files made by hand. See tests/storage/test_check.py for whole stores."""

import pytest

from leveret.storage.check.check import check_store
from leveret.storage.check.repair import repair_store
from leveret.storage.disk.disk import StoreError
from leveret.storage.messages.formats import (
    CLOSED,
    FILE_HEADER_BYTES,
    LOG_MAGIC,
    RUN,
    STATE,
    decode_file_header,
    decode_run,
    encode_oldest,
    encode_record,
    encode_run,
    read_records,
)
from tests.storage.files_by_hand import bodies, log, run, segment, state, stored

CLOSED_RECORD = encode_record(CLOSED, b"")


def problems(directory):
    return check_store(directory).problems


def kinds(path):
    return [record.kind for record in read_records(path.read_bytes(), FILE_HEADER_BYTES)]


def files(directory):
    return {path: path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def test_a_store_without_problems_is_not_changed(tmp_path):
    messages = stored((1, 40, b"body"), (7, 40, b"gone"))
    log(tmp_path, 1, state(2, messages, gone=[(1, 2)]))
    segment(tmp_path, messages, b"not counted")
    bodies(tmp_path, 1, b"body")
    before = files(tmp_path)
    assert repair_store(tmp_path).files == []
    assert files(tmp_path) == before


def test_intact_messages_and_a_copy_are_kept_and_the_loss_is_recorded(tmp_path):
    there = run(b"good") + b"garbage" + run(b"fine", position=2)
    log(tmp_path, 1, state(3, there), CLOSED_RECORD)
    path = segment(tmp_path, there)
    damaged = path.read_bytes()
    assert repair_store(tmp_path).files == [path]
    assert path.read_bytes()[40:] == run(b"good") + run(b"fine", position=2)
    copy = tmp_path / "damaged" / path.relative_to(tmp_path)
    assert copy.read_bytes() == damaged
    assert problems(tmp_path) == []
    # The node was stopped in order, and is not taken for one that was killed.
    assert kinds(tmp_path / "log" / "0000000002.log")[-2:] == [STATE, CLOSED]


def test_messages_whose_bodies_are_lost_are_left_out(tmp_path):
    messages = stored((1, 40, b"body"), (2, 40, b"lost"), (1, 44, b"more"))
    log(tmp_path, 1, state(3, messages))
    path = segment(tmp_path, messages)
    bodies(tmp_path, 1, b"bodymore")
    assert repair_store(tmp_path).files == [path]
    found = [decode_run(one.head) for one in read_records(path.read_bytes(), FILE_HEADER_BYTES)]
    assert [(one.targets, one.stored) for one in found] == [
        ([(256, 0)], (1, 40)),
        ([(256, 2)], (1, 44)),
    ]
    assert problems(tmp_path) == []


def test_a_missing_segment_is_recorded(tmp_path):
    log(tmp_path, 1, state(3, b""))
    assert problems(tmp_path)
    assert repair_store(tmp_path).files == []
    assert problems(tmp_path) == []


def test_a_state_that_is_lost_is_replaced_by_what_the_segments_have(tmp_path):
    messages = run(b"a", b"b")
    log(tmp_path, 1, state(2, messages)[:-1] + b"?", encode_oldest(1))
    path = segment(tmp_path, messages)
    repair_store(tmp_path)
    assert problems(tmp_path) == []
    assert path.read_bytes()[40:] == messages
    assert STATE in kinds(tmp_path / "log" / "0000000002.log")


def test_a_damaged_header_of_bodies_is_written_again(tmp_path):
    messages = stored((1, 40, b"body"))
    log(tmp_path, 1, state(1, messages))
    segment(tmp_path, messages)
    path = bodies(tmp_path, 1, b"body")
    before = path.read_bytes()
    path.write_bytes(before[:20] + b"?" + before[21:])
    assert repair_store(tmp_path).files == [path]
    assert problems(tmp_path) == []
    assert path.read_bytes()[40:] == b"body"


def test_a_repaired_log_file_is_not_said_to_be_longer(tmp_path):
    path = log(tmp_path, 1, b"garbage", run(b"a"))
    following = log(tmp_path, 2, run(b"b"), previous=path.stat().st_size)
    assert repair_store(tmp_path).files == [path]
    assert decode_file_header(following.read_bytes(), LOG_MAGIC).previous_bytes == 0
    assert problems(tmp_path) == []


def test_a_torn_end_of_the_log_stays_torn(tmp_path):
    """A STATE after a gap in the last batch does not count, and must not count after a repair."""
    last_batch = encode_oldest(1) + run(b"b")[:-9] + state(5, b"")
    path = log(tmp_path, 1, encode_oldest(1), b"garbage", run(b"a"), last_batch)
    assert repair_store(tmp_path).files == [path]
    assert path.read_bytes().endswith(run(b"a") + last_batch)
    assert problems(tmp_path) == []


def test_records_of_every_feature_survive_a_repair(tmp_path):
    record = encode_record(200, b"\4raft....")
    path = log(tmp_path, 1, b"garbage", record, encode_oldest(1))
    repair_store(tmp_path)
    found, _ = read_records(path.read_bytes(), 40)
    assert found.kind == 200


def test_a_message_lost_from_a_run_leaves_the_others_their_numbers(tmp_path):
    found = [b"first", b"second", b"third"]
    head = encode_run(0, 1, [(256, 10)], b"\1x\1k", b"\0\0", found, number=77)
    path = log(tmp_path, 1, head + b"firstSECONDthird" + encode_oldest(1))
    assert repair_store(tmp_path).files == [path]
    records = read_records(path.read_bytes(), FILE_HEADER_BYTES)
    runs = [decode_run(record.head) for record in records if record.kind == RUN]
    assert [(one.number, one.targets) for one in runs] == [(77, [(256, 10)]), (79, [(256, 12)])]


@pytest.mark.parametrize("make", [log, segment], ids=["log", "segment"])
def test_a_file_of_another_version_is_not_repaired(tmp_path, monkeypatch, make):
    messages = run(b"a")
    if make is segment:
        log(tmp_path, 1, state(1, messages))
    monkeypatch.setattr("leveret.storage.messages.formats.FORMAT_VERSION", 99)
    make(tmp_path, *([1] if make is log else []), messages)
    monkeypatch.undo()
    before = files(tmp_path)
    with pytest.raises(StoreError, match="it has format version 99"):
        repair_store(tmp_path)
    assert files(tmp_path) == before
