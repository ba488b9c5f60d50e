"""Checking and repairing the file of retained messages."""

import sqlite3

import pytest

from leveret.storage.check.check_retained import check_retained, repair_retained
from leveret.storage.retained.retained_file import (
    RETAINED_FILE,
    RetainedFile,
    RetainedFileError,
)
from leveret.storage.retained.retained_rows import RetainedRow
from leveret.storage.retained.retained_transaction import Change, RetainedLimits, RetainedTotals
from leveret.storage.retained.topic_keys import key_of

FORGET_AFTER_MS = 1000
VHOST = b"/"
TOPICS = ("a", "b/c", "d")


def row(topic, time=1, **fields):
    return RetainedRow(VHOST, key_of(topic), time, "n@h", **{"is_message": True, **fields})


@pytest.fixture
def directory(tmp_path):
    """A data directory with three messages and a removal."""
    file = RetainedFile(tmp_path / RETAINED_FILE, FORGET_AFTER_MS)
    rows = [row(topic, payload=topic.encode()) for topic in TOPICS]
    rows.append(row("gone", is_message=False))
    file.apply([Change(one) for one in rows], RetainedLimits())
    file.close()
    return tmp_path


def change(directory, statement):
    connection = sqlite3.connect(directory / RETAINED_FILE)
    with connection:
        connection.execute(statement)
    connection.close()


def files(directory):
    return {
        path.relative_to(directory): path.read_bytes()
        for path in directory.rglob("*")
        if path.is_file()
    }


def contents(directory):
    file = RetainedFile(directory / RETAINED_FILE, FORGET_AFTER_MS)
    rows = [one for bucket in range(4096) for one in file.rows_but(bucket, [], 0).rows]
    sums = file.sums
    file.close()
    return {one.payload.decode() for one in rows if one.is_message}, len(rows), sums


def test_a_directory_without_the_file(tmp_path):
    assert check_retained(tmp_path) is None
    assert not repair_retained(tmp_path, FORGET_AFTER_MS)


def test_an_intact_file_is_not_changed(directory):
    before = files(directory)
    report = check_retained(directory)
    assert report.counts == {"retained messages": 3, "removals": 1}
    assert report.problems == []
    assert not repair_retained(directory, FORGET_AFTER_MS)
    assert files(directory) == before


def test_rows_in_the_log_of_sqlite_are_read(directory):
    file = RetainedFile(directory / RETAINED_FILE, FORGET_AFTER_MS)
    file.apply([Change(row("e", payload=b"e"))], RetainedLimits())
    copy = directory / "copy"
    copy.mkdir()
    for ending in ("", "-wal"):
        name = RETAINED_FILE + ending
        (copy / name).write_bytes((directory / name).read_bytes())
    file.close()
    before = files(copy)
    report = check_retained(copy)
    assert (report.counts["retained messages"], report.problems) == (4, [])
    assert files(copy) == before


def test_a_damaged_row_is_found_and_left_out(directory):
    change(directory, "UPDATE rows SET payload = x'00' WHERE payload = x'61'")
    before = (directory / RETAINED_FILE).read_bytes()
    assert check_retained(directory).problems == ["the row of topic 'a' is damaged"]
    assert repair_retained(directory, FORGET_AFTER_MS)
    assert (directory / "damaged" / RETAINED_FILE).read_bytes() == before
    assert check_retained(directory).problems == []
    kept, count, sums = contents(directory)
    assert (kept, count) == ({"b/c", "d"}, 3)
    assert sums.totals[VHOST] == RetainedTotals(
        2, sum(row(t, payload=t.encode()).size for t in TOPICS[1:])
    )


@pytest.mark.parametrize(
    ("statement", "problem"),
    [
        ("UPDATE totals SET messages = 9", "the sums of virtual host '/' are wrong"),
        ("DELETE FROM totals", "the sums of virtual host '/' are wrong"),
        ("UPDATE digests SET digest = 1", "the digests of 4 buckets are wrong"),
    ],
)
def test_wrong_sums_are_found_and_made_right(directory, statement, problem):
    change(directory, statement)
    assert check_retained(directory).problems == [problem]
    assert repair_retained(directory, FORGET_AFTER_MS)
    assert check_retained(directory).problems == []
    assert contents(directory)[0] == set(TOPICS)


def test_a_file_that_is_no_database(directory):
    (directory / RETAINED_FILE).write_bytes(4096 * b"x")
    assert "file is not a database" in check_retained(directory).problems[0]
    assert repair_retained(directory, FORGET_AFTER_MS)
    assert contents(directory)[:2] == (set(), 0)


def test_another_format_is_no_damage(directory):
    change(directory, "PRAGMA user_version = 7")
    with pytest.raises(RetainedFileError, match="has format 7"):
        repair_retained(directory, FORGET_AFTER_MS)
