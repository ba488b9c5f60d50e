"""Opening the metadata file: find its format, migrate it, or create the tables of a new file.

The schema must be exactly that of this version. A file with a damaged schema, or one that another
program or a later version wrote, is refused and not changed.

The format stands for the whole data directory: it is raised, too, when messages or entries of
groups get something that earlier versions would misread. So these refuse the directory.
"""

import os
import secrets
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from leveret.storage.metadata.metadata_migration import (
    OLD_VERSIONS,
    WITH_SAME_TABLES,
    is_whole,
    migrate,
)
from leveret.storage.metadata.metadata_tables import META, MetaRow, create_tables, has_tables

FORMAT_VERSION = 5
VERSION, IDENTITY = "format_version", "identity"
FILE_MODE = 0o640
"""The file holds password hashes, so other users cannot read it. Its log inherits the mode."""
CHECK_SURROUNDINGS = (
    "check that the file and its directory may be written and that the disk has room"
)
LOG_BYTES_KEPT = 16 * 1024 * 1024
"""SQLite's log is cut to this size when it restarts: changes may write to it while it is moved."""
_NEW_FILE_BYTES_MAX = 4096
"""The size of a file without tables: one page. A longer file without tables is damaged."""


class MetadataError(Exception):
    """The metadata cannot be read or written; the text names the file and the remedy."""


class MetadataFull(MetadataError):
    """The disk has no room for a change; nothing was changed."""


@contextmanager
def naming_file(path: Path) -> Iterator[None]:
    """Turn errors of SQLite into MetadataErrors that name the file.

    Damage can also raise UnicodeDecodeError, when sqlite3 decodes an error text that quotes damaged
    names, and MemoryError, when a length is damaged.
    """
    try:
        yield
    except (sqlite3.Error, UnicodeDecodeError, MemoryError) as error:
        is_full = getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL
        raise (MetadataFull if is_full else MetadataError)(
            f"the metadata in {path} cannot be used: {error}; {_advice(error, path)}"
        ) from error


def prepare_tables(connection: sqlite3.Connection, path: Path) -> None:
    """Create or migrate the tables, unless they are those of this version. Raises MetadataError."""
    if has_tables(connection):
        if _recorded_version(connection) in WITH_SAME_TABLES:
            connection.execute(META.put, META.to_columns(MetaRow(VERSION, FORMAT_VERSION)))
        return
    found = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
    names = {name for (name,) in found}
    is_new = not names and path.stat().st_size <= _NEW_FILE_BYTES_MAX
    version = FORMAT_VERSION if not names else _read_version(connection, path, names)
    if not is_new and not (version in OLD_VERSIONS and is_whole(connection, version, names)):
        raise MetadataError(
            f"{path} is damaged: its tables are not those of format {version}; {_repair(path)}"
        )
    connection.execute("BEGIN IMMEDIATE")
    try:
        if is_new:
            create_tables(connection)
        else:
            migrate(connection, version)
        # The identity is random: it distinguishes a file from one that replaces it.
        facts = (MetaRow(VERSION, FORMAT_VERSION), MetaRow(IDENTITY, secrets.randbits(63)))
        connection.executemany(META.put, [META.to_columns(fact) for fact in facts])
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    # Move the tables into the file: with tables only in SQLite's log, damage to the log would
    # make the file look like a new one.
    connection.execute("PRAGMA wal_checkpoint(PASSIVE)")


def _read_version(connection: sqlite3.Connection, path: Path, names: set[str]) -> int:
    """The format of a file with tables. Raises MetadataError if this version cannot read it."""
    if "meta" not in names:
        raise MetadataError(
            f"{path} does not say which format it has, so this version of Leveret did not write "
            "it: move the file away, or choose another data directory"
        )
    version = _recorded_version(connection)
    if version not in (*OLD_VERSIONS, FORMAT_VERSION):
        raise format_error(path, "none" if version is None else version)
    assert isinstance(version, int), "a format is a number"
    return version


def _recorded_version(connection: sqlite3.Connection) -> object:
    """What a file with the table `meta` has as its format; None if it has nothing there."""
    found = connection.execute(
        "SELECT value FROM meta NOT INDEXED WHERE key = ?", (VERSION,)
    ).fetchone()
    return found[0] if found else None


def format_error(path: Path, version: object) -> MetadataError:
    """The error for a file of a format that this version does not read."""
    return MetadataError(
        f"{path} has format {version}, and this version reads format {FORMAT_VERSION}: "
        "start the version of Leveret that wrote it, or move the file away"
    )


def connect(path: Path) -> sqlite3.Connection:
    """Open the file, or create it, without reading its tables."""
    _make_file(path)
    connection = open_connection(path)
    # Damaged text must not stop the reading: the checksum of its row reports it.
    connection.text_factory = lambda data: data.decode("utf-8", "surrogateescape")
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("PRAGMA wal_autocheckpoint = 0")
        # SQLite's log keeps its size when it restarts, and it is long after many changes.
        connection.execute(f"PRAGMA journal_size_limit = {LOG_BYTES_KEPT}")
    except BaseException:
        connection.close()
        raise
    return connection


def open_connection(path: Path) -> sqlite3.Connection:
    """A connection to the existing file. Only one process can have connections to it.

    SQLite's index of its log is in memory, not in a mapped file: a write to a mapped file ends the
    process with SIGBUS when it needs space of a full disk; on btrfs each page does.
    """
    uri = f"{path.absolute().as_uri()}?mode=rw&vfs=unix-excl"
    return sqlite3.connect(uri, uri=True, isolation_level=None)


def _make_file(path: Path) -> None:
    """Create the file with rights for this user only. Errors have the system's text."""
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE))
    except OSError as error:
        raise MetadataError(
            f"the metadata in {path} cannot be used: {error.strerror}; {CHECK_SURROUNDINGS}"
        ) from error


def _advice(error: Exception, path: Path) -> str:
    """The remedy. SQLite raises OperationalError for errors of the disk and of file rights."""
    if isinstance(error, sqlite3.OperationalError):
        return CHECK_SURROUNDINGS
    return f"the file is damaged: {_repair(path)}"


def _repair(path: Path) -> str:
    return (
        f"save what can be read with `leveret store repair {path.parent}`, restore it from a copy, "
        "or move it away to start with nothing"
    )
