"""Checking and repairing the retained messages of a stopped node.

A check reads the file without changing it: SQLite's structure, the checksum of each row, and the
sums (RTF1). A repair writes a new file with the intact rows, and the sums of these; the other nodes
of a cluster then send what is missing. The damaged file is moved to `damaged/`.
"""

import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from leveret.storage.check.check_segments import FileReport
from leveret.storage.check.kept_originals import DAMAGED
from leveret.storage.retained.retained_file import (
    FORMAT_VERSION,
    RETAINED_FILE,
    RetainedFile,
    RetainedFileError,
)
from leveret.storage.retained.retained_rows import (
    DIGEST_MASK,
    RetainedRow,
    bucket_of,
    digest_of,
)
from leveret.storage.retained.retained_transaction import (
    COLUMNS,
    Change,
    RetainedLimits,
    checksum_of,
    row_of,
)
from leveret.storage.retained.topic_keys import topic_of

ROWS_AT_ONCE: Final = 500
_ENDINGS: Final = ("", "-wal")


def check_retained(directory: Path) -> FileReport | None:
    """The report of the file; None if there is none."""
    path = directory / RETAINED_FILE
    if not path.exists():
        return None
    return _RetainedCheck(path).report()


def repair_retained(directory: Path, forget_after_ms: int) -> bool:
    """If the file has problems, write a new one with the intact rows. Returns whether it did.

    forget_after_ms: how long removals are kept. Raises RetainedFileError.
    """
    report = check_retained(directory)
    if report is None or not report.problems:
        return False
    path = report.path
    aside = directory / DAMAGED
    aside.mkdir(exist_ok=True)
    for ending in _ENDINGS:
        one = path.with_name(path.name + ending)
        if one.exists():
            one.rename(aside / one.name)
    repaired = RetainedFile(path, forget_after_ms)
    try:
        kept: list[Change] = []
        for row in _RetainedCheck(aside / path.name).intact_rows():
            kept.append(Change(row, is_local=False))
            if len(kept) == ROWS_AT_ONCE:
                repaired.apply(kept, RetainedLimits())
                kept.clear()
        repaired.apply(kept, RetainedLimits())
    finally:
        repaired.close()
    return True


class _RetainedCheck:
    """The contents of one file. problems: sentences."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._messages = self._removals = 0
        self._totals: Counter[bytes] = Counter()
        self._sizes: Counter[bytes] = Counter()
        self._digests: Counter[int] = Counter()
        self.problems: list[str] = []

    def report(self) -> FileReport:
        """Read everything."""
        try:
            with _opened(self._path) as connection:
                self._check_version(connection)
                self._check_structure(connection)
                for row in self._rows(connection):
                    self._add(row)
                if not self.problems:
                    self._check_sums(connection)
        except sqlite3.Error as error:
            self.problems.append(f"it cannot be read: {error}")
        counts = {"retained messages": self._messages, "removals": self._removals}
        return FileReport(self._path, self._path.stat().st_size, counts, self.problems)

    def intact_rows(self) -> Iterator[RetainedRow]:
        """The rows that can be read and whose checksums are right."""
        try:
            with _opened(self._path) as connection:
                yield from self._rows(connection)
        except sqlite3.Error:
            # What follows cannot be reached.
            return

    def _check_version(self, connection: sqlite3.Connection) -> None:
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if version != FORMAT_VERSION:
            # Another version of Leveret wrote it: that is no damage.
            raise RetainedFileError(
                f"{self._path} has format {version}, and this version reads format "
                f"{FORMAT_VERSION}: use the version of Leveret that wrote it"
            )

    def _check_structure(self, connection: sqlite3.Connection) -> None:
        for (text,) in connection.execute("PRAGMA integrity_check(10)"):
            if text != "ok":
                self.problems.append(str(text))

    def _rows(self, connection: sqlite3.Connection) -> Iterator[RetainedRow]:
        """The intact rows; the others are problems. Damaged indexes are not used."""
        for columns in connection.execute(f"SELECT {COLUMNS} FROM rows NOT INDEXED"):
            row = _intact(columns)
            if row is None:
                self.problems.append(f"the row of topic {_named(columns)} is damaged")
            else:
                yield row

    def _add(self, row: RetainedRow) -> None:
        if row.is_message:
            self._messages += 1
            self._totals[row.vhost] += 1
            self._sizes[row.vhost] += row.size
        else:
            self._removals += 1
        digest = digest_of(row.vhost, row.key, row.version)
        self._digests[bucket_of(row.vhost, row.key)] += digest

    def _check_sums(self, connection: sqlite3.Connection) -> None:
        stored = {
            vhost: (messages, size)
            for vhost, messages, size in connection.execute("SELECT * FROM totals")
        }
        for vhost in stored.keys() | self._totals.keys():
            found = (self._totals[vhost], self._sizes[vhost])
            if stored.get(vhost, (0, 0)) != found:
                self.problems.append(
                    f"the sums of virtual host {vhost.decode(errors='replace')!a} are wrong"
                )
        digests = dict(connection.execute("SELECT bucket, digest FROM digests"))
        wrong = [
            bucket
            for bucket in digests.keys() | self._digests.keys()
            if digests.get(bucket, 0) != self._digests[bucket] & DIGEST_MASK
        ]
        if wrong:
            self.problems.append(f"the digests of {len(wrong)} buckets are wrong")


@contextmanager
def _opened(path: Path) -> Iterator[sqlite3.Connection]:
    """The file, for reading only. Its log is read, and is not moved into it.

    SQLite leaves files beside it then, which are removed.
    """
    before = _files(path)
    connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
    try:
        yield connection
    finally:
        connection.close()
        for left in _files(path) - before:
            left.unlink()


def _files(path: Path) -> set[Path]:
    return set(path.parent.glob(f"{path.name}*"))


def _intact(columns: tuple[Any, ...]) -> RetainedRow | None:
    """A row; None unless its checksum is right. Damage may be of types, too."""
    try:
        row = row_of(columns)
        return row if checksum_of(row) == columns[-1] else None
    except (TypeError, ValueError, AttributeError):
        return None


def _named(columns: tuple[Any, ...]) -> str:
    key = columns[1]
    return ascii(topic_of(key)) if isinstance(key, bytes) else "?"
