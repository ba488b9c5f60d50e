"""The file of retained messages: the newest versions, limits, expiry, damage, and restarts."""

import sqlite3
from collections.abc import Iterable
from pathlib import Path

import pytest

from leveret.storage.retained.retained_file import (
    RETAINED_FILE,
    RetainedFile,
    RetainedFileError,
)
from leveret.storage.retained.retained_rows import COUNTER_BITS, RetainedRow, RetainedVersion
from leveret.storage.retained.retained_transaction import (
    Change,
    RetainedLimits,
    RetainedOutcome,
    RetainedTotals,
)
from leveret.storage.retained.topic_keys import TopicFilter, key_of, topic_of

FORGET_MS = 1000
UNLIMITED = RetainedLimits()


def message(topic: str, time: int, payload: bytes = b"x", **fields: object) -> RetainedRow:
    """A message of the vhost /. time: in milliseconds."""
    made = {"node": "n", "is_message": True, "payload": payload} | fields
    return RetainedRow(b"/", key_of(topic), time << COUNTER_BITS, **made)  # type: ignore[arg-type]


def removal(topic: str, time: int) -> RetainedRow:
    """The removal of a topic's message; of all messages without a topic."""
    return RetainedRow(b"/", key_of(topic), time << COUNTER_BITS, "n")


def store(
    file: RetainedFile,
    *rows: RetainedRow,
    limits: RetainedLimits = UNLIMITED,
    is_local: bool = True,
) -> list[RetainedOutcome]:
    """Store rows in one transaction."""
    return file.apply([Change(row, is_local) for row in rows], limits)


def topics(file: RetainedFile, topic_filter: str = "#", now_ms: int = 0) -> list[str]:
    """The topics that a filter finds, of all pages."""
    wanted, found = TopicFilter(topic_filter), []
    start: bytes | None = wanted.start
    while start is not None:
        page = file.find(b"/", wanted, start, now_ms)
        found += [topic_of(row.key) for row in page.rows]
        start = page.start
    return found


def digests(rows: Iterable[RetainedRow]) -> list[int]:
    """The digests of a file that these rows are stored in."""
    file = RetainedFile(None, FORGET_MS)
    store(file, *rows)
    return file.sums.digests


@pytest.fixture
def file() -> RetainedFile:
    """A file in memory."""
    return RetainedFile(None, FORGET_MS)


def test_the_newest_version_is_kept_in_any_order(file: RetainedFile) -> None:
    assert store(file, message("a", 2, b"new"), message("a", 1, b"old")) == [
        RetainedOutcome.STORED, RetainedOutcome.OUTDATED,
    ]  # fmt: skip
    assert store(file, message("a", 2, b"other", node="o")) == [RetainedOutcome.STORED]
    assert store(file, message("a", 2, b"new")) == [RetainedOutcome.OUTDATED]
    (row,) = file.find(b"/", TopicFilter("a"), b"a", 0).rows
    assert row.payload == b"other"


def test_a_removal_is_newer_than_what_it_removes(file: RetainedFile) -> None:
    store(file, message("a", 1), removal("a", 2))
    assert topics(file) == []
    assert store(file, message("a", 1)) == [RetainedOutcome.OUTDATED]
    assert file.sums.totals[b"/"] == RetainedTotals()


def test_a_removal_of_all_removes_older_messages_only(file: RetainedFile) -> None:
    store(file, message("a", 1), message("b", 3), removal("", 2))
    assert topics(file) == ["b"]
    assert store(file, message("c", 1)) == [RetainedOutcome.OUTDATED]
    assert file.sums.totals[b"/"] == RetainedTotals(1, 2)
    assert file.sums.digests == digests([removal("", 2), message("b", 3)])


def test_limits_refuse_messages_of_this_node_only(file: RetainedFile) -> None:
    limits = RetainedLimits(messages=1, bytes=3)
    assert store(file, message("a", 1), message("b", 1), limits=limits) == [
        RetainedOutcome.STORED, RetainedOutcome.REFUSED,
    ]  # fmt: skip
    assert store(file, message("a", 2, b"too long"), limits=limits) == [RetainedOutcome.REFUSED]
    assert store(file, message("a", 2, b"ok"), limits=limits) == [RetainedOutcome.STORED]
    assert store(file, message("b", 1), limits=limits, is_local=False) == [RetainedOutcome.STORED]
    assert store(file, removal("b", 2), limits=limits) == [RetainedOutcome.STORED]


def test_an_expired_message_is_not_found_and_becomes_a_removal(file: RetainedFile) -> None:
    store(file, message("a", 1, expires_ms=10))
    before = file.sums.digests
    assert topics(file, now_ms=9) == ["a"]
    assert topics(file, now_ms=10) == []
    assert file.sweep(10) == (1, 10 + FORGET_MS)
    assert file.sums.totals[b"/"] == RetainedTotals()
    assert file.sums.digests == before
    assert store(file, message("a", 0)) == [RetainedOutcome.OUTDATED]


def test_removals_are_forgotten(file: RetainedFile) -> None:
    store(file, removal("", 1), removal("a", 2))
    assert file.sweep(1 + FORGET_MS) == (1, 2 + FORGET_MS)
    assert file.sweep(2 + FORGET_MS) == (1, 0)
    assert file.sums.digests == digests([])
    assert store(file, message("a", 0)) == [RetainedOutcome.STORED]


def test_long_searches_have_several_pages(file: RetainedFile) -> None:
    names = [f"{number:04}/x" for number in range(500)]
    store(file, *(message(name, 1, bytes(2000)) for name in names))
    page = file.find(b"/", TopicFilter("+/x"), b"", 0)
    assert 0 < len(page.rows) <= 100
    assert topics(file, "+/x") == names


def test_rows_that_the_other_node_lacks_are_found_by_their_versions(file: RetainedFile) -> None:
    row = message("a", 1)
    store(file, row)
    bucket = next(number for number, digest in enumerate(file.sums.digests) if digest)
    assert file.versions(bucket) == [row.version]
    assert file.rows_but(bucket, [row.version], 0).rows == []
    page = file.rows_but(bucket, [RetainedVersion(5, "n")], 0)
    assert page.rows == [row]
    assert file.rows_but(bucket, [], page.last).rows == []


def test_everything_is_there_after_a_restart(tmp_path: Path) -> None:
    path = tmp_path / RETAINED_FILE
    file = RetainedFile(path, FORGET_MS)
    store(file, message("a/b", 1), removal("", 0), message("c", 2), removal("c", 3))
    sums = file.sums
    # As after `kill -9`: the file is not closed.
    copied = tmp_path / "copy"
    for ending in ("", "-wal"):
        copied.with_name(copied.name + ending).write_bytes(Path(f"{path}{ending}").read_bytes())
    again = RetainedFile(copied, FORGET_MS)
    assert again.sums == sums
    assert topics(again) == ["a/b"]


def test_a_damaged_row_is_left_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / RETAINED_FILE
    file = RetainedFile(path, FORGET_MS)
    store(file, message("a", 1), message("b", 1))
    file.close()
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE rows SET payload = x'00' WHERE key = x'61'")
    connection.close()
    assert topics(RetainedFile(path, FORGET_MS)) == ["b"]
    assert "the retained message of topic 'a' is damaged" in caplog.text


def test_a_file_that_cannot_be_read_is_kept(tmp_path: Path) -> None:
    path = tmp_path / RETAINED_FILE
    path.write_bytes(b"not a database" * 1000)
    file = RetainedFile(path, FORGET_MS)
    assert store(file, message("a", 1)) == [RetainedOutcome.STORED]
    assert list(tmp_path.glob("*.damaged-*"))


def test_a_file_of_a_later_release_is_refused(tmp_path: Path) -> None:
    path = tmp_path / RETAINED_FILE
    RetainedFile(path, FORGET_MS).close()
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 9")
    connection.close()
    with pytest.raises(RetainedFileError, match="has format 9"):
        RetainedFile(path, FORGET_MS)
