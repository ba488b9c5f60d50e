"""Checking and repairing files made by hand. See tests/storage/test_check.py for whole stores."""

import pytest

from leveret.storage.check import TORN, check_store, repair_store, store_files
from leveret.storage.disk import StoreError
from leveret.storage.formats import (
    BODIES_MAGIC,
    CLOSED,
    LOG_MAGIC,
    SEGMENT_MAGIC,
    State,
    decode_file_header,
    encode_file_header,
    encode_oldest,
    encode_record,
    encode_run,
    encode_state,
    encode_stored_run,
    read_records,
)
from leveret.storage.intervals import Intervals

STATE = encode_state(State(256, 0, 0, 0, 0, 0, False, [], Intervals()))


def run(*bodies, position=0):
    return encode_run(0, 1, [(256, position)], b"\1x\1k", b"", list(bodies)) + b"".join(bodies)


def write(directory, name, magic, *records, previous=0):
    path = directory / name
    path.parent.mkdir(parents=True, exist_ok=True)
    header = encode_file_header(magic, int(path.stem), 1, previous)
    path.write_bytes(header + b"".join(records))
    return path


def log(directory, number, *records, previous=0):
    return write(directory, f"log/{number:010d}.log", LOG_MAGIC, *records, previous=previous)


def segment(directory, *records):
    return write(directory, "queues/256/0000000000.segment", SEGMENT_MAGIC, *records)


def problems(directory):
    return [problem for report in check_store(directory) for problem in report.problems]


def test_intact_files_are_counted(tmp_path):
    paths = [
        log(tmp_path, 1, run(b"a", b"b"), STATE, encode_record(CLOSED, b"")),
        segment(tmp_path, run(b"c")),
        write(tmp_path, "bodies/0000000001.bodies", BODIES_MAGIC, b"body"),
    ]
    assert store_files(tmp_path) == paths
    in_log, in_segment, in_bodies = check_store(tmp_path)
    assert in_log.counts == {"messages": 2, "states of queues": 1, "closed cleanly": 1}
    assert in_segment.counts == {"messages": 1}
    assert in_bodies.counts == {"bytes of bodies": 4}
    assert problems(tmp_path) == []


def test_a_torn_end_is_a_problem_in_the_newest_log_file_only_if_it_was_synced(tmp_path):
    log(tmp_path, 1, encode_oldest(1), run(b"a"), b"damaged", run(b"b"), encode_oldest(1))
    log(tmp_path, 2, encode_oldest(1), run(b"c"), b"torn", run(b"d")[:-1] + b"?", b"torn")
    first, second = check_store(tmp_path)
    assert len(first.problems) == 1
    assert second.problems == []
    assert second.counts["messages"] == 2
    assert second.counts[TORN] == 2 * len(b"torn") + len(run(b"d"))


def test_what_was_written_after_the_synced_end_of_an_older_log_file_does_not_count(tmp_path):
    path = log(tmp_path, 1, encode_oldest(1), run(b"a"))
    size = len(path.read_bytes())
    path.write_bytes(path.read_bytes() + b"torn")
    log(tmp_path, 2, previous=size)
    first, _ = check_store(tmp_path)
    assert first.problems == []
    assert first.counts[TORN] == len(b"torn")


def test_zeros_at_the_end_are_space_that_was_allocated(tmp_path):
    log(tmp_path, 1, run(b"a"), bytes(1000))
    assert problems(tmp_path) == []


def test_a_missing_log_file_is_a_problem(tmp_path):
    log(tmp_path, 1)
    log(tmp_path, 3)
    report = check_store(tmp_path)[-1]
    assert (report.path.name, report.problems) == ("0000000002.log", ["it is missing"])


def test_very_many_missing_log_files_are_one_problem(tmp_path):
    log(tmp_path, 1)
    log(tmp_path, 9_000_000_000)
    report = check_store(tmp_path)[-1]
    assert report.path.name == "0000000002.log"
    assert report.problems == ["it is missing, and so are all up to 8999999999.log"]


def test_bodies_that_a_segment_refers_to_are_checked(tmp_path):
    write(tmp_path, "bodies/0000000001.bodies", BODIES_MAGIC, b"body" + bytes(4))
    freed = encode_stored_run(0, 1, (256, 0), b"\1x\1k", b"", [(1, 44, 4, 12345)])
    segment(tmp_path, freed)
    assert problems(tmp_path) == [], "freed space reads as zeros"
    damaged = encode_stored_run(0, 1, (256, 0), b"\1x\1k", b"", [(1, 40, 4, 12345)])
    segment(tmp_path, damaged)
    assert "a body of 4 bytes at offset 40" in problems(tmp_path)[0]
    gone = encode_stored_run(0, 1, (256, 0), b"\1x\1k", b"", [(2, 40, 4, 12345)])
    segment(tmp_path, gone)
    assert "cannot be read" in problems(tmp_path)[0]


def test_a_repair_keeps_the_intact_messages_and_a_copy(tmp_path):
    path = segment(tmp_path, run(b"good"), b"garbage", run(b"fine", position=1))
    damaged = path.read_bytes()
    assert repair_store(tmp_path) == [path]
    assert path.read_bytes()[40:] == run(b"good") + run(b"fine", position=1)
    copy = tmp_path / "damaged" / path.relative_to(tmp_path)
    assert copy.read_bytes() == damaged
    assert problems(tmp_path) == []


def test_a_repaired_log_file_is_not_said_to_be_longer(tmp_path):
    path = log(tmp_path, 1, b"garbage", run(b"a"))
    following = log(tmp_path, 2, run(b"b"), previous=path.stat().st_size)
    assert repair_store(tmp_path) == [path]
    assert decode_file_header(following.read_bytes(), LOG_MAGIC).previous_bytes == 0


def test_records_of_every_feature_survive_a_repair(tmp_path):
    record = encode_record(200, b"\4raft....")
    path = log(tmp_path, 1, b"garbage", record, encode_oldest(1))
    repair_store(tmp_path)
    found, _ = read_records(path.read_bytes(), 40)
    assert found.kind == 200


def test_a_file_of_another_version_is_not_repaired(tmp_path, monkeypatch):
    monkeypatch.setattr("leveret.storage.formats.FORMAT_VERSION", 99)
    path = log(tmp_path, 1, run(b"a"))
    monkeypatch.undo()
    before = path.read_bytes()
    with pytest.raises(StoreError, match="is not damaged: it has format version 99"):
        repair_store(tmp_path)
    assert path.read_bytes() == before
