"""Checking files made by hand. See tests/storage/test_check.py for whole stores."""

import pytest

from leveret.storage.check.check import DeclaredIds, check_store
from leveret.storage.check.check_segments import UNNEEDED
from leveret.storage.messages.formats import (
    CLOSED,
    SEGMENT_MAGIC,
    encode_oldest,
    encode_progress,
    encode_record,
    encode_run,
)
from leveret.storage.messages.intervals import Intervals
from leveret.storage.queue.queue_keys import HEAD_IDS, LEVELS
from leveret.storage.segments.ledger import SEGMENT_POSITIONS
from tests.storage.files_by_hand import bodies, log, run, segment, state, stored, write

CLOSED_RECORD = encode_record(CLOSED, b"")


def problems(directory, declared=None):
    return check_store(directory, declared).problems


def gone(*positions):
    return encode_progress(256, 0, 0, Intervals((one, one + 1) for one in positions))


def test_intact_files_are_counted(tmp_path):
    messages = run(b"c")
    paths = [
        log(tmp_path, 1, run(b"a", b"b", position=1), state(1, messages), CLOSED_RECORD),
        segment(tmp_path, messages),
        bodies(tmp_path, 1, b"body"),
    ]
    report = check_store(tmp_path)
    assert report.problems == []
    assert [file.path for file in report.files] == paths
    in_log, in_segment, in_bodies = report.files
    assert in_log.counts == {"messages": 2, "states of queues": 1, "closed cleanly": 1}
    assert in_segment.counts == {"messages": 1}
    assert in_bodies.counts == {"bytes of bodies": 4}


# The log


def test_a_torn_end_is_a_problem_in_the_newest_log_file_only_if_it_was_synced(tmp_path):
    log(tmp_path, 1, encode_oldest(1), run(b"a"), b"damaged", run(b"b"), encode_oldest(1))
    log(tmp_path, 2, encode_oldest(1), run(b"c"), b"torn", run(b"d")[:-1] + b"?", b"torn")
    first, second = check_store(tmp_path).files
    assert len(first.problems) == 1
    assert second.problems == []
    assert second.counts["messages"] == 2


def test_what_was_written_after_the_synced_end_of_an_older_log_file_does_not_count(tmp_path):
    path = log(tmp_path, 1, encode_oldest(1), run(b"a"))
    size = len(path.read_bytes())
    path.write_bytes(path.read_bytes() + b"torn")
    log(tmp_path, 2, previous=size)
    assert problems(tmp_path) == []


def test_zeros_at_the_end_are_space_that_was_allocated(tmp_path):
    log(tmp_path, 1, run(b"a"), bytes(1000))
    assert problems(tmp_path) == []


def test_a_missing_log_file_is_a_problem(tmp_path):
    log(tmp_path, 1)
    log(tmp_path, 3)
    report = check_store(tmp_path).files[-1]
    assert report.path.name == "0000000002.log"
    assert "is missing" in report.problems[0]


def test_very_many_missing_log_files_are_one_problem(tmp_path):
    log(tmp_path, 1)
    log(tmp_path, 9_000_000_000)
    report = check_store(tmp_path).files[-1]
    assert report.path.name == "0000000002.log"
    assert "8999999999.log are missing" in report.problems[0]


def test_log_files_that_are_not_needed_may_be_back_or_gone_or_damaged(tmp_path):
    path = log(tmp_path, 1, b"damaged")
    log(tmp_path, 3, encode_oldest(3))
    stale, needed = check_store(tmp_path).files
    assert stale.counts == {UNNEEDED: path.stat().st_size}
    assert needed.problems == stale.problems == []


def test_a_log_that_cannot_be_read_is_the_only_problem(tmp_path, monkeypatch):
    monkeypatch.setattr("leveret.storage.messages.formats.FORMAT_VERSION", 99)
    log(tmp_path, 1, run(b"a"))
    monkeypatch.undo()
    segment(tmp_path, run(b"a"))
    (problem,) = problems(tmp_path)
    assert "it has format version 99" in problem


# Segments


def test_what_the_state_does_not_count_of_segments_does_not_matter(tmp_path):
    messages = run(b"a")
    log(tmp_path, 1, run(b"b", b"c", position=1), state(1, messages))
    segment(tmp_path, messages, run(b"b", position=1)[:-1], b"torn")
    write(tmp_path, "queues/256/0000000001.segment", b"", b"not even a header")
    assert problems(tmp_path) == []


def test_segments_without_a_state_do_not_matter_if_the_log_has_their_messages(tmp_path):
    log(tmp_path, 1, run(b"a"))
    segment(tmp_path, run(b"a"), b"torn")
    write(tmp_path, "queues/256/0000000001.segment", b"")
    assert problems(tmp_path) == []


@pytest.mark.parametrize("is_there", [True, False])
def test_segments_without_a_state_and_without_their_messages_in_the_log(tmp_path, is_there):
    if is_there:
        log(tmp_path, 1, run(b"a"))
    segment(tmp_path, run(b"a", b"b"))
    assert problems(tmp_path) == ["the log has lost the removals of messages of this queue"]


def test_a_segment_is_missing_only_if_a_message_in_it_is_not_gone(tmp_path):
    of_segment = SEGMENT_POSITIONS
    last = run(b"a", position=3 * of_segment)
    log(tmp_path, 1, state(3 * of_segment + 1, last, number=3, gone=[(0, 3 * of_segment - 2)]))
    segment(tmp_path, last, number=3)
    report = check_store(tmp_path).files[-1]
    assert report.path.name == "0000000002.segment"
    assert report.problems == ["it is missing: 2 messages are lost"]
    log(tmp_path, 1, state(3 * of_segment + 1, last, number=3, gone=[(0, 3 * of_segment)]))
    assert problems(tmp_path) == []


def test_the_files_of_a_queue_may_be_gone_if_it_may_have_moved_to_another_node(tmp_path):
    log(tmp_path, 1, state(5, b""))
    assert problems(tmp_path, DeclaredIds(here=[1]))
    assert problems(tmp_path, DeclaredIds(here=[], movable=[1])) == []


def test_a_message_that_should_be_in_a_segment_is_a_problem_unless_it_is_gone(tmp_path):
    there = run(b"a") + run(b"d", position=3)
    log(tmp_path, 1, state(4, there), gone(1))
    segment(tmp_path, there)
    assert problems(tmp_path) == ["1 of its messages are not in it"]
    log(tmp_path, 1, state(4, there), gone(1, 2))
    assert problems(tmp_path) == []


def test_damage_in_a_segment_is_a_problem_as_long_as_one_of_its_messages_is_not_gone(tmp_path):
    there = run(b"a") + b"damaged" + run(b"b", position=1)
    log(tmp_path, 1, state(2, there), gone(1))
    segment(tmp_path, there)
    assert "are not a whole record" in problems(tmp_path)[0]
    everything = Intervals([(0, SEGMENT_POSITIONS)])
    log(tmp_path, 1, state(SEGMENT_POSITIONS, there), encode_progress(256, 0, 0, everything))
    assert problems(tmp_path) == []


def test_a_damaged_message_is_a_problem_unless_it_is_gone(tmp_path):
    there = run(b"a", b"b")[:-1] + b"?"
    log(tmp_path, 1, state(2, there))
    segment(tmp_path, there)
    assert "1 of its messages: each has a damaged body" in problems(tmp_path)[0]
    log(tmp_path, 1, state(2, there), gone(1))
    assert problems(tmp_path) == []


def test_a_damaged_header_is_a_problem(tmp_path):
    messages = run(b"a")
    log(tmp_path, 1, state(1, messages))
    path = segment(tmp_path, messages)
    path.write_bytes(b"?" + path.read_bytes()[1:])
    assert len(problems(tmp_path)) == 1


@pytest.mark.parametrize("key", [256, 256 + 7, HEAD_IDS * LEVELS + 256])
def test_files_of_queues_that_are_not_declared_do_not_matter(tmp_path, key):
    messages = run(b"a", key=key) + b"damaged"
    log(tmp_path, 1, state(1, messages, key=key))
    write(tmp_path, f"queues/{key}/0000000000.segment", SEGMENT_MAGIC, messages)
    assert problems(tmp_path)
    assert problems(tmp_path, DeclaredIds(here=[1]))
    assert problems(tmp_path, DeclaredIds(here=[2])) == []


# Bodies


@pytest.mark.parametrize("place", [(1, 44), (2, 40)], ids=["freed", "removed"])
def test_only_the_body_of_a_message_that_is_not_gone_is_needed(tmp_path, place):
    bodies(tmp_path, 1, b"body" + bytes(4))
    messages = stored((1, 40, b"body"), (*place, b"gone"))
    segment(tmp_path, messages)
    log(tmp_path, 1, state(2, messages), gone(1))
    assert problems(tmp_path) == []
    log(tmp_path, 1, state(2, messages))
    (problem,) = problems(tmp_path)
    assert problem.startswith("1 of its messages: each ")
    assert f"{place[0]:010d}.bodies" in problem


def test_a_missing_file_of_bodies_is_one_problem_of_each_segment(tmp_path):
    messages = stored((1, 40, b"body"), (1, 44, b"more"))
    log(tmp_path, 1, state(2, messages))
    segment(tmp_path, messages)
    path = bodies(tmp_path, 1)
    path.unlink()
    assert problems(tmp_path) == [f"2 of its messages: each needs {path}, which is missing"]


def test_the_header_of_a_file_of_bodies_matters_if_one_of_them_is_needed(tmp_path):
    path = bodies(tmp_path, 1, b"body")
    path.write_bytes(b"?" + path.read_bytes()[1:])
    log(tmp_path, 1)
    assert problems(tmp_path) == []
    messages = stored((1, 40, b"body"))
    log(tmp_path, 1, state(1, messages))
    segment(tmp_path, messages)
    assert len(problems(tmp_path)) == 1


def test_messages_that_are_not_persistent_are_not_looked_for(tmp_path):
    messages = encode_run(0, 0, [(256, 0)], b"\1x\1k", b"", [b"a"]) + b"?"
    log(tmp_path, 1, state(1, messages))
    segment(tmp_path, messages)
    assert problems(tmp_path) == []


def test_progress_is_told(tmp_path):
    messages = run(b"a")
    log(tmp_path, 1, state(1, messages))
    segment(tmp_path, messages)
    seen = []
    check_store(tmp_path, None, lambda done, total: seen.append((done, total)))
    assert seen[-1][0] == seen[-1][1] > 0
