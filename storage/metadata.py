"""What is declared, in SQLite: vhosts, users, permissions, exchanges, queues and bindings.

Each operation is one transaction in SQLite's write-ahead-log mode: when it returns, a crash of the
process does not undo it. A crash of the machine may undo the last ones, in the order in which they
were made, because no operation waits for the disk (``synchronous = NORMAL``).

The log would grow for ever, so it is moved into the database file now and then: a checkpoint. That
does wait for the disk. The connection that the event loop uses never begins one; `checkpoint`,
called from a worker thread, does it on a connection of its own, and in a way (PASSIVE) that holds
up no operation. What is left to the loop is one short sync: the first operation after a complete
checkpoint begins the log anew, and SQLite syncs the log's header then.

Names may hold bytes that are not UTF-8 (strings with surrogate escapes). SQLite does not take those
as text, so such a name is stored as a blob, and comes back as the same string. For that reason the
columns have no types. A blob never equals a text, and each string is stored in one way only.

    meta               key, value: the version of this format
    vhosts             name
    users              name
    permissions        vhost, user
    topic_permissions  vhost, user, exchange
    exchanges          vhost, name
    queues             vhost, name
    bindings           all columns

These are the tables with their keys; the other columns are the fields of the rows below.
"""

import os
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any, Protocol

from storage.metadata_rows import (
    BindingRow,
    Definitions,
    ExchangeRow,
    PermissionRow,
    QueueRow,
    TopicPermissionRow,
    UserRow,
    VhostRow,
)

FORMAT_VERSION = 2

_FILE_MODE = 0o640
"""The file holds password hashes, so it is not for everybody; its log inherits the mode."""
_CHECK_SURROUNDINGS = (
    "check that the file and its directory may be written and that the disk has room"
)


class MetadataError(Exception):
    """The metadata cannot be read or written; the text names the file and says what to do."""


class Metadata(Protocol):
    """Where declarations are kept. Every operation but `sync` and `checkpoint` is for one thread.

    changes: grows with each operation.
    """

    changes: int

    def load(self) -> Definitions:
        """All that is declared."""

    def batch(self) -> AbstractContextManager[None]:
        """All operations in the block are kept, or none. The block must not await."""

    def put_vhost(self, row: VhostRow) -> None:
        """Add or replace."""

    def delete_vhost(self, name: str) -> None:
        """Delete it and all in it."""

    def put_user(self, row: UserRow) -> None:
        """Add or replace."""

    def delete_user(self, name: str) -> None:
        """Delete it and its permissions."""

    def put_permission(self, row: PermissionRow) -> None:
        """Add or replace."""

    def delete_permission(self, vhost: str, user: str) -> None:
        """Delete, if it is there."""

    def put_topic_permission(self, row: TopicPermissionRow) -> None:
        """Add or replace."""

    def delete_topic_permission(self, vhost: str, user: str, exchange: str | None) -> None:
        """Delete one, or all of a user in a vhost."""

    def put_exchange(self, row: ExchangeRow) -> None:
        """Add or replace."""

    def delete_exchange(self, vhost: str, name: str) -> None:
        """Delete it and its bindings."""

    def put_queue(self, row: QueueRow) -> None:
        """Add or replace."""

    def delete_queue(self, vhost: str, name: str) -> None:
        """Delete it and its bindings."""

    def put_binding(self, row: BindingRow) -> None:
        """Add, unless it is there."""

    def delete_binding(self, row: BindingRow) -> None:
        """Delete, if it is there."""

    def sync(self) -> None:
        """Have all operations until now survive a power cut. For a worker thread."""

    def checkpoint(self) -> None:
        """Shorten what a restart has to read. For a worker thread: it waits for the disk."""

    def close(self) -> None:
        """No more operations."""


def _do_nothing(*_arguments: object, **_named: object) -> None:
    """Stands for an operation on metadata that are not kept."""


class NoMetadata:
    """Declarations that are not kept, for a broker that lives as long as a test."""

    def load(self) -> Definitions:
        """Nothing."""
        return Definitions()

    def batch(self) -> AbstractContextManager[None]:
        """A block like any other."""
        return nullcontext()

    put_vhost = put_user = put_permission = put_topic_permission = _do_nothing
    put_exchange = put_queue = put_binding = _do_nothing
    delete_vhost = delete_user = delete_permission = delete_topic_permission = _do_nothing
    delete_exchange = delete_queue = delete_binding = _do_nothing
    sync = checkpoint = close = _do_nothing
    changes = 0


class _Table:
    """A table and the SQL of its rows. sqlite3 prepares each text once, and finds it again."""

    def __init__(self, name: str, row_type: type[tuple[Any, ...]], key: tuple[str, ...]) -> None:
        self.name = name
        self.row_type = row_type
        self.kinds: tuple[type, ...] = tuple(row_type.__annotations__.values())
        columns = tuple(row_type.__annotations__)
        listed_key = ", ".join(_quoted(key))
        places = ", ".join("?" * len(columns))
        definitions = ", ".join(f"{column} NOT NULL" for column in _quoted(columns))
        self.create = f"CREATE TABLE {name} ({definitions}, PRIMARY KEY ({listed_key}))"
        # Rows are read in the order of their rowids. An update keeps the rowid, and so a row's
        # place among the others; INSERT OR REPLACE would move it to the end.
        self.put = (
            f"INSERT INTO {name} VALUES ({places}) ON CONFLICT ({listed_key}) "
            + _on_conflict([column for column in columns if column not in key])
        )
        self.select = f"SELECT {', '.join(_quoted(columns))} FROM {name} ORDER BY rowid"


def _on_conflict(columns: list[str]) -> str:
    if not columns:
        return "DO NOTHING"
    return "DO UPDATE SET " + ", ".join(f"{name} = excluded.{name}" for name in _quoted(columns))


def _quoted(names: Iterable[str]) -> list[str]:
    return [f'"{name}"' for name in names]


_VHOSTS = _Table("vhosts", VhostRow, ("name",))
_USERS = _Table("users", UserRow, ("name",))
_PERMISSIONS = _Table("permissions", PermissionRow, ("vhost", "user"))
_TOPIC_PERMISSIONS = _Table("topic_permissions", TopicPermissionRow, ("vhost", "user", "exchange"))
_EXCHANGES = _Table("exchanges", ExchangeRow, ("vhost", "name"))
_QUEUES = _Table("queues", QueueRow, ("vhost", "name"))
_BINDINGS = _Table("bindings", BindingRow, BindingRow._fields)

_IN_A_VHOST = (_PERMISSIONS, _TOPIC_PERMISSIONS, _EXCHANGES, _QUEUES, _BINDINGS)
_TABLES = (_VHOSTS, _USERS, *_IN_A_VHOST)

_SCHEMA = (
    "CREATE TABLE meta (key PRIMARY KEY NOT NULL, value NOT NULL)",
    *(table.create for table in _TABLES),
    # Without it, the bindings of a queue are found by reading all of its vhost's.
    "CREATE INDEX bindings_to ON bindings (vhost, destination_kind, destination)",
)


class SqliteMetadata:
    """Declarations in a file, which is made if it is missing. Raises MetadataError."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.changes = 0
        with self._naming_file():
            self._connection = _connect(path)
            try:
                tables = self._table_names()
                if tables:
                    self._check_version(tables)
                else:
                    self._create_tables()
            except BaseException:
                self._connection.close()
                raise

    def _table_names(self) -> set[str]:
        found = self._connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        return {name for (name,) in found}

    def _check_version(self, tables: set[str]) -> None:
        if "meta" not in tables:
            raise MetadataError(
                f"{self._path} does not say which format it has, so this version of Leveret did "
                "not write it: move the file away, or choose another data directory"
            )
        found = self._connection.execute(
            "SELECT value FROM meta WHERE key = 'format_version'"
        ).fetchone()
        if found != (FORMAT_VERSION,):
            name = found[0] if found else "none"
            raise MetadataError(
                f"{self._path} has format {name}, and this version reads format {FORMAT_VERSION}: "
                "start the version of Leveret that wrote it, or move the file away"
            )

    def _create_tables(self) -> None:
        with self.batch():
            for statement in _SCHEMA:
                self._connection.execute(statement)
            self._connection.execute(
                "INSERT INTO meta VALUES ('format_version', ?)", (FORMAT_VERSION,)
            )

    @contextmanager
    def _naming_file(self) -> Iterator[None]:
        """Turn SQLite's errors into ones that say which file is meant."""
        try:
            yield
        except sqlite3.Error as error:
            raise MetadataError(
                f"the metadata in {self._path} cannot be used: {error}; {_advice(error)}"
            ) from error

    @contextmanager
    def batch(self) -> Iterator[None]:
        """All operations in the block are one transaction. A batch in a batch is part of it."""
        connection = self._connection
        if connection.in_transaction:
            yield
            return
        with self._naming_file():
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield
                connection.execute("COMMIT")
                # Counted again, since whoever looked meanwhile could not see the changes yet.
                self.changes += 1
            except BaseException:
                # A full disk makes SQLite roll back by itself.
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise

    def load(self) -> Definitions:
        """All that is declared, in the order in which it was declared."""
        with self._naming_file():
            return Definitions(**{table.name: self._load_table(table) for table in _TABLES})

    def _load_table(self, table: _Table) -> list[Any]:
        rows = self._connection.execute(table.select)
        return [table.row_type(*map(_from_column, row, table.kinds)) for row in rows]

    def _put(self, table: _Table, row: tuple[Any, ...]) -> None:
        with self._naming_file():
            self._connection.execute(table.put, _to_columns(row))
        self.changes += 1

    def _delete(self, table: _Table, **where: str | bytes) -> None:
        condition = " AND ".join(f"{column} = ?" for column in _quoted(where))
        with self._naming_file():
            self._connection.execute(
                f"DELETE FROM {table.name} WHERE {condition}", _to_columns(where.values())
            )
        self.changes += 1

    def put_vhost(self, row: VhostRow) -> None:
        """Add or replace."""
        self._put(_VHOSTS, row)

    def delete_vhost(self, name: str) -> None:
        """Delete it and all in it."""
        with self.batch():
            self._delete(_VHOSTS, name=name)
            for table in _IN_A_VHOST:
                self._delete(table, vhost=name)

    def put_user(self, row: UserRow) -> None:
        """Add or replace."""
        self._put(_USERS, row)

    def delete_user(self, name: str) -> None:
        """Delete it and its permissions."""
        with self.batch():
            self._delete(_USERS, name=name)
            self._delete(_PERMISSIONS, user=name)
            self._delete(_TOPIC_PERMISSIONS, user=name)

    def put_permission(self, row: PermissionRow) -> None:
        """Add or replace."""
        self._put(_PERMISSIONS, row)

    def delete_permission(self, vhost: str, user: str) -> None:
        """Delete, if it is there."""
        self._delete(_PERMISSIONS, vhost=vhost, user=user)

    def put_topic_permission(self, row: TopicPermissionRow) -> None:
        """Add or replace."""
        self._put(_TOPIC_PERMISSIONS, row)

    def delete_topic_permission(self, vhost: str, user: str, exchange: str | None) -> None:
        """Delete one, or all of a user in a vhost."""
        if exchange is None:
            self._delete(_TOPIC_PERMISSIONS, vhost=vhost, user=user)
        else:
            self._delete(_TOPIC_PERMISSIONS, vhost=vhost, user=user, exchange=exchange)

    def put_exchange(self, row: ExchangeRow) -> None:
        """Add or replace."""
        self._put(_EXCHANGES, row)

    def delete_exchange(self, vhost: str, name: str) -> None:
        """Delete it and its bindings."""
        with self.batch():
            self._delete(_EXCHANGES, vhost=vhost, name=name)
            self._delete(_BINDINGS, vhost=vhost, source=name)
            self._delete(_BINDINGS, vhost=vhost, destination_kind="exchange", destination=name)

    def put_queue(self, row: QueueRow) -> None:
        """Add or replace."""
        self._put(_QUEUES, row)

    def delete_queue(self, vhost: str, name: str) -> None:
        """Delete it and its bindings."""
        with self.batch():
            self._delete(_QUEUES, vhost=vhost, name=name)
            self._delete(_BINDINGS, vhost=vhost, destination_kind="queue", destination=name)

    def put_binding(self, row: BindingRow) -> None:
        """Add, unless it is there."""
        self._put(_BINDINGS, row)

    def delete_binding(self, row: BindingRow) -> None:
        """Delete, if it is there."""
        self._delete(_BINDINGS, **row._asdict())

    def sync(self) -> None:
        """Have all operations until now survive a power cut. For a worker thread.

        The log is synced through a descriptor of its own. (To close one of the database file
        itself would let go of SQLite's locks on it.) A checkpoint has synced what it moved.
        """
        log = self._path.with_name(self._path.name + "-wal")
        try:
            for path, sync in ((log, os.fdatasync), (self._path.parent, os.fsync)):
                descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
                try:
                    sync(descriptor)
                finally:
                    os.close(descriptor)
        except FileNotFoundError:
            # The log is gone since the metadata were closed, which moved all of it.
            return
        except OSError as error:
            raise MetadataError(
                f"the metadata in {log} cannot be synced: {error.strerror}; {_CHECK_SURROUNDINGS}"
            ) from error

    def checkpoint(self) -> None:
        """Move the log into the database file. For a worker thread: it waits for the disk."""
        with self._naming_file():
            connection = sqlite3.connect(f"{self._path.absolute().as_uri()}?mode=rw", uri=True)
            try:
                connection.execute("PRAGMA wal_checkpoint(PASSIVE)")
            finally:
                connection.close()

    def close(self) -> None:
        """No more operations. The log is moved into the database file, and goes."""
        self._connection.close()


def _connect(path: Path) -> sqlite3.Connection:
    _make_file(path)
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("PRAGMA wal_autocheckpoint = 0")
    except BaseException:
        connection.close()
        raise
    return connection


def _make_file(path: Path) -> None:
    """SQLite would make it readable for everybody, and say less about why it cannot."""
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _FILE_MODE))
    except OSError as error:
        raise MetadataError(
            f"the metadata in {path} cannot be used: {error.strerror}; {_CHECK_SURROUNDINGS}"
        ) from error


def _advice(error: sqlite3.Error) -> str:
    """What to do. SQLite calls it operational if the surroundings are to blame, not the data."""
    if isinstance(error, sqlite3.OperationalError):
        return _CHECK_SURROUNDINGS
    return "the file is damaged: restore it from a copy, or move it away to start with nothing"


def _to_columns(values: Iterable[Any]) -> list[Any]:
    return [_to_column(value) for value in values]


def _to_column(value: Any) -> Any:
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            return value.encode("utf-8", "surrogateescape")
    return value


def _from_column(value: Any, kind: type) -> Any:
    if kind is str and isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape")
    return kind(value)
