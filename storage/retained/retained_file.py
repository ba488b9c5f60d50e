"""The file with the retained messages of a node: SQLite, with a row for each topic.

Promise: the changes of `apply` are on disk when it returns, all or none, also after `kill -9` and a
power cut (``synchronous = FULL``). Opening reads no rows, so a start takes as long with a million
messages as with none. The memory is SQLite's cache. docs/design/retained-messages.md has the
alternatives and the measurements.

Not promised: that damage inside the file is repaired. A damaged row is left out and reported; a
file that cannot be read at all is kept under another name, and a new one is begun.

All methods wait for the disk, so they are called in a thread, one at a time.

Invariants:

RTF1  The sums (retained_transaction.py) change in the transactions that change the rows.
"""

import logging
import os
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

from leveret.storage.retained.retained_rows import BUCKETS, RetainedRow, RetainedVersion
from leveret.storage.retained.retained_transaction import (
    COLUMNS,
    Change,
    RetainedLimits,
    RetainedOutcome,
    RetainedTotals,
    RetainedTransaction,
    Sums,
    checksum_of,
    row_of,
)
from leveret.storage.retained.topic_keys import TopicFilter, topic_of

RETAINED_FILE: Final = "retained.sqlite"
FORMAT_VERSION: Final = 1
FILE_MODE: Final = 0o640
CACHE_KIB: Final = 16 * 1024
LOG_PAGES: Final = 4000
"""SQLite's log is moved into the file when it has this many pages of 4 KiB."""
PAGE_ROWS: Final = 100
PAGE_BYTES: Final = 256 * 1024
PAGE_SEARCHES: Final = 200
"""The limits of one page of a search."""
KEYS_MAX: Final = 64
"""The keys that a search reads at a time: two at first and after a skip, then twice as many."""
SWEPT_MAX: Final = 500
"""The rows that one sweep changes or deletes: some milliseconds."""

_SCHEMA = """
CREATE TABLE rows (
    id INTEGER PRIMARY KEY, vhost BLOB NOT NULL, key BLOB NOT NULL, time INTEGER NOT NULL,
    node TEXT NOT NULL, is_message INTEGER NOT NULL, changes_at_ms INTEGER NOT NULL,
    bucket INTEGER NOT NULL, size INTEGER NOT NULL, expires_ms INTEGER NOT NULL,
    qos INTEGER NOT NULL, checksum INTEGER NOT NULL, properties BLOB NOT NULL,
    payload BLOB NOT NULL);
CREATE UNIQUE INDEX by_key ON rows (vhost, key, is_message);
CREATE INDEX by_bucket ON rows (bucket);
CREATE INDEX by_change ON rows (changes_at_ms) WHERE changes_at_ms > 0;
CREATE TABLE totals (vhost BLOB PRIMARY KEY, messages INTEGER NOT NULL, bytes INTEGER NOT NULL);
CREATE TABLE digests (bucket INTEGER PRIMARY KEY, digest INTEGER NOT NULL);
CREATE TABLE facts (name TEXT PRIMARY KEY, value INTEGER NOT NULL);
"""
Result = TypeVar("Result")

logger = logging.getLogger("leveret.store")


class RetainedFileError(Exception):
    """The file cannot be written; the text names the file and the remedy."""


class FoundPage(NamedTuple):
    """A part of the rows that a search finds. start: where the next page begins; None at the end"""

    rows: list[RetainedRow]
    start: bytes | None


class RowsPage(NamedTuple):
    """A part of the rows of a bucket. last: for the next page; none follows one without rows."""

    rows: list[RetainedRow]
    last: int


class RetainedFile:
    """The rows of one node. sums: the sums after the last transaction."""

    def __init__(self, path: Path | None, forget_after_ms: int) -> None:
        """path: None for memory only. forget_after_ms: how long removals are kept."""
        self._path = path
        self._forget_after_ms = forget_after_ms
        self._connection = self._open()
        self.sums = self._read_sums()

    # Opening

    def _open(self) -> sqlite3.Connection:
        try:
            return self._connect()
        except OSError as error:
            raise RetainedFileError(self._text(error)) from error
        except sqlite3.DatabaseError as error:
            if self._path is None or isinstance(error, sqlite3.OperationalError):
                raise RetainedFileError(self._text(error)) from error
            self._set_aside(self._path, error)
            return self._connect()

    def _set_aside(self, path: Path, error: Exception) -> None:
        kept = path.with_name(f"{path.name}.damaged-{os.getpid()}")
        logger.critical(
            "the retained messages in %s cannot be read: %s; the file is kept as %s, and the "
            "other nodes of the cluster are asked for their copies", path, error, kept,
        )  # fmt: skip
        for ending in ("", "-wal"):
            one = path.with_name(path.name + ending)
            if one.exists():
                one.rename(kept.with_name(kept.name + ending))

    def _connect(self) -> sqlite3.Connection:
        place, is_file = ":memory:", self._path is not None
        if self._path is not None:
            os.close(os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE))
            # As for the metadata, SQLite's index of its log is in memory, not in a mapped file.
            place = f"{self._path.absolute().as_uri()}?mode=rw&vfs=unix-excl"
        connection = sqlite3.connect(
            place, uri=is_file, isolation_level=None, check_same_thread=False
        )
        try:
            self._prepare(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _prepare(self, connection: sqlite3.Connection) -> None:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
        connection.execute(f"PRAGMA wal_autocheckpoint = {LOG_PAGES}")
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if version == 0:
            connection.executescript(
                f"BEGIN; {_SCHEMA} PRAGMA user_version = {FORMAT_VERSION}; COMMIT;"
            )
            if self._path is not None:
                _sync_directory(self._path.parent)
        elif version != FORMAT_VERSION:
            raise RetainedFileError(
                f"{self._path} has format {version}, and this version reads format "
                f"{FORMAT_VERSION}: start the version of Leveret that wrote it, or move it away"
            )

    def _read_sums(self) -> Sums:
        execute, sums = self._connection.execute, Sums({}, [0] * BUCKETS, {}, 0)
        for vhost, messages, size in execute("SELECT vhost, messages, bytes FROM totals"):
            sums.totals[vhost] = RetainedTotals(messages, size)
        for bucket, digest in execute("SELECT bucket, digest FROM digests"):
            sums.digests[bucket] = digest
        for vhost in sums.totals:
            cut = execute(
                "SELECT time, node FROM rows WHERE vhost = ? AND key = x''", (vhost,)
            ).fetchone()
            if cut is not None:
                sums.cuts[vhost] = RetainedVersion(*cut)
        last = execute("SELECT value FROM facts WHERE name = 'time'").fetchone()
        return sums if last is None else sums._replace(last_time=last[0])

    # Writing

    def apply(self, changes: Sequence[Change], limits: RetainedLimits) -> list[RetainedOutcome]:
        """Store the changes that are newer. Returns the outcome of each change, in order.

        Raises RetainedFileError: nothing was changed.
        """
        return self._write(lambda write: [write.apply(change, limits) for change in changes])

    def sweep(self, now_ms: int) -> tuple[int, int]:
        """Make removals of expired messages, and forget old removals; SWEPT_MAX rows at most.

        Returns how many rows were changed, and when the next row is due, in milliseconds since
        1970; 0 for never. Raises RetainedFileError.
        """
        due = "FROM rows WHERE changes_at_ms > 0"
        rows = self._connection.execute(
            f"SELECT id, {COLUMNS} {due} AND changes_at_ms <= ? ORDER BY changes_at_ms LIMIT ?",
            (now_ms, SWEPT_MAX),
        ).fetchall()
        if rows:
            self._write(lambda write: write.sweep([(number, row_of(row)) for number, *row in rows]))
        (next_ms,) = self._connection.execute(f"SELECT min(changes_at_ms) {due}").fetchone()
        return len(rows), next_ms or 0

    def _write(self, steps: Callable[[RetainedTransaction], Result]) -> Result:
        connection = self._connection
        try:
            connection.execute("BEGIN IMMEDIATE")
            write = RetainedTransaction(connection, self.sums, self._forget_after_ms)
            result = steps(write)
            sums = write.finish()
            connection.execute("COMMIT")
        except sqlite3.Error as error:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise RetainedFileError(self._text(error)) from error
        self.sums = sums
        return result

    # Reading

    def find(self, vhost: bytes, wanted: TopicFilter, start: bytes, now_ms: int) -> FoundPage:
        """The next messages whose topics match, from a key on. Expired messages are left out."""
        rows: list[RetainedRow] = []
        size = searches = 0
        key_count, at = 2, start
        while len(rows) < PAGE_ROWS and size < PAGE_BYTES and searches < PAGE_SEARCHES:
            searches += 1
            keys = self._keys(vhost, at, key_count)
            key_count = min(2 * key_count, KEYS_MAX)
            for key, number in keys:
                if key < at:
                    # Most of what was read is skipped.
                    key_count = 2
                    continue
                matches, following = wanted.next_key(key)
                if matches and (row := self._row(number)) and not 0 < row.expires_ms <= now_ms:
                    rows.append(row)
                    size += row.size
                if following is None:
                    return FoundPage(rows, None)
                at = following
                if size >= PAGE_BYTES or len(rows) == PAGE_ROWS:
                    break
            if not keys:
                return FoundPage(rows, None)
        return FoundPage(rows, at)

    def _keys(self, vhost: bytes, at: bytes, count: int) -> list[tuple[bytes, int]]:
        """The next keys of messages, and the numbers of their rows."""
        return self._connection.execute(
            "SELECT key, id FROM rows WHERE vhost = ? AND key >= ? AND is_message = 1 "
            "ORDER BY key LIMIT ?",
            (vhost, at, count),
        ).fetchall()

    def _row(self, number: int) -> RetainedRow | None:
        """A row; None, with a line in the log, if it is damaged."""
        found = self._connection.execute(
            f"SELECT {COLUMNS} FROM rows WHERE id = ?", (number,)
        ).fetchone()
        return None if found is None else self._checked(found)

    def _checked(self, columns: Sequence[Any]) -> RetainedRow | None:
        row = row_of(columns)
        if checksum_of(row) == columns[-1]:
            return row
        logger.error(
            "%s: the retained message of topic %a is damaged, and left out",
            self._path, topic_of(row.key),
        )  # fmt: skip
        return None

    def versions(self, bucket: int) -> list[RetainedVersion]:
        """The versions in a bucket."""
        found = self._connection.execute("SELECT time, node FROM rows WHERE bucket = ?", (bucket,))
        return [RetainedVersion(time, node) for time, node in found]

    def rows_but(self, bucket: int, known: Iterable[RetainedVersion], after: int) -> RowsPage:
        """The next rows of a bucket, PAGE_BYTES of them, without those of known versions.

        after: the `last` of the page before; 0 for the first.
        """
        versions = frozenset(known)
        rows: list[RetainedRow] = []
        size, last = 0, after
        for number, *columns in self._connection.execute(
            f"SELECT id, {COLUMNS} FROM rows WHERE bucket = ? AND id > ? ORDER BY id",
            (bucket, after),
        ):
            if size >= PAGE_BYTES:
                break
            last = number
            if (columns[2], columns[3]) not in versions and (row := self._checked(columns)):
                rows.append(row)
                size += row.size
        return RowsPage(rows, last)

    def _text(self, error: Exception) -> str:
        return (
            f"the retained messages in {self._path} cannot be used: {error}; check that the file "
            "and its directory may be written and that the disk has room"
        )

    def close(self) -> None:
        """Close the file."""
        self._connection.close()


def _sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
