"""What is declared, in SQLite: vhosts, users, permissions, exchanges, queues and bindings.

Each operation is one transaction in SQLite's write-ahead-log mode: when it returns, a crash of the
process does not undo it. A crash of the machine may undo the last ones, in the order in which they
were made, because no operation waits for the disk (``synchronous = NORMAL``).

The log would grow for ever, so it is moved into the database file now and then: a checkpoint. That
does wait for the disk. The connection that the event loop uses never begins one; `checkpoint`,
called from a worker thread, does it on a connection of its own, and in a way (PASSIVE) that holds
up no operation. What is left to the loop is one short sync: the first operation after a complete
checkpoint begins the log anew, and SQLite syncs the log's header then.

Nothing of it is silently wrong: rows have checksums and tables have totals (metadata_tables.py),
and a file beside SQLite's log knows how long that was (metadata_witness.py). What is damaged is
left out and reported by `load`; a file that cannot be used at all raises MetadataError. `load`
reads every page (``integrity_check``), since a damaged index would lead later deletes astray: that
is 12 of the 85 ms for 20,000 rows.

Storage ids are handed out below a mark that is on disk before the first of them is used, so that
none comes twice even if a power cut undoes the declaration it was for.
"""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any, Protocol

from storage.metadata_opening import (
    CHECK_SURROUNDINGS,
    FILE_MODE,
    FORMAT_VERSION,
    IDENTITY,
    VERSION,
    MetadataError,
    connect,
    format_error,
    naming_file,
    prepare_tables,
)
from storage.metadata_rows import (
    BindingRow,
    Definitions,
    ExchangeRow,
    ParameterRow,
    PermissionRow,
    QueueRow,
    TopicPermissionRow,
    UserRow,
    VhostRow,
)
from storage.metadata_tables import (
    BINDINGS,
    DECLARED,
    EXCHANGES,
    IN_A_VHOST,
    META,
    PARAMETERS,
    PERMISSIONS,
    QUEUES,
    TOPIC_PERMISSIONS,
    USERS,
    VHOSTS,
    MetaRow,
    Table,
    count_changes,
    quoted,
    read_rows,
    to_column,
)
from storage.metadata_witness import Witness

__all__ = ["Metadata", "MetadataError", "NoMetadata", "SqliteMetadata"]

_IDS_RESERVED = 1000
"""Each reservation syncs the disk; at 1,000 that is 10 times for 10,000 queues."""
_IDS_BELOW = "storage_ids_below"
_PROBLEMS_MAX = 20
"""How many faults of its pages a file has to have before the rest is not listed."""


class Metadata(Protocol):
    """Where declarations are kept. Every operation but `sync` and `checkpoint` is for one thread.

    changes: grows with each row that is put or deleted, once that is committed.
    """

    changes: int

    def load(self) -> Definitions:
        """All that is declared. It comes before other operations."""

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

    def put_parameter(self, row: ParameterRow) -> None:
        """Add or replace."""

    def delete_parameter(self, vhost: str, component: str, name: str) -> None:
        """Delete, if it is there."""

    def new_storage_id(self, above: int = 0) -> int:
        """A number for a queue, which was never handed out before, and is more than `above`."""

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
    put_exchange = put_queue = put_binding = put_parameter = _do_nothing
    delete_vhost = delete_user = delete_permission = delete_topic_permission = _do_nothing
    delete_exchange = delete_queue = delete_binding = delete_parameter = _do_nothing
    sync = checkpoint = close = _do_nothing
    changes = 0
    _last_id = 0

    def new_storage_id(self, above: int = 0) -> int:
        """Counts from 1, or from what is above."""
        self._last_id = max(self._last_id, above) + 1
        return self._last_id


class SqliteMetadata:
    """Declarations in a file, which is made if it is missing. Raises MetadataError."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._log_path = path.with_name(path.name + "-wal")
        self._pending = 0
        with naming_file(self._path):
            self._connection = connect(path)
            try:
                prepare_tables(self._connection, path)
                self.changes = count_changes(self._connection)
                identity = self._read_meta()
                self._witness = self._open_witness()
                self._missing = max(0, self._witness.changes_of(identity) - self.changes)
            except BaseException:
                self._connection.close()
                raise

    def _open_witness(self) -> Witness:
        try:
            return Witness(self._path, FILE_MODE)
        except OSError as error:
            raise MetadataError(
                f"the metadata in {self._path} cannot be used: {error.filename}: "
                f"{error.strerror}; {CHECK_SURROUNDINGS}"
            ) from error

    def _read_meta(self) -> int:
        """Take in what the file says of itself; its identity."""
        rows, _ = read_rows(self._connection, META, self._path)
        facts: dict[str, int] = {row.key: row.value for row in rows}
        if facts.get(VERSION, FORMAT_VERSION) != FORMAT_VERSION:
            raise format_error(self._path, facts[VERSION])
        self._next_id = self._ids_below = facts.get(_IDS_BELOW, 1)
        return facts.get(IDENTITY, 0)

    @contextmanager
    def batch(self) -> Iterator[None]:
        """All operations in the block are one transaction. A batch in a batch is part of it."""
        connection = self._connection
        if connection.in_transaction:
            yield
            return
        with naming_file(self._path):
            connection.execute("BEGIN IMMEDIATE")
        self._pending = 0
        try:
            yield
            ids_below = self._reserve_ids()
            with naming_file(self._path):
                connection.execute("COMMIT")
        except BaseException:
            # A full disk makes SQLite roll back by itself.
            if connection.in_transaction:
                with naming_file(self._path):
                    connection.execute("ROLLBACK")
            raise
        self._committed(self._pending)
        if ids_below != self._ids_below:
            self.sync()
            self._ids_below = ids_below

    def load(self) -> Definitions:
        """All that is declared, in the order in which it was declared, and what is damaged."""
        connection = self._connection
        lists, damaged = {}, []
        if self._missing:
            damaged.append(
                f"{self._path}: the last changes are missing ({self._missing} rows put or "
                f"deleted), since {self._log_path} is damaged or was taken away"
            )
        with naming_file(self._path):
            problems = connection.execute(f"PRAGMA integrity_check({_PROBLEMS_MAX})").fetchall()
            if problems != [("ok",)]:
                damaged += [f"{self._path} is damaged: {problem}" for (problem,) in problems]
            damaged += read_rows(connection, META, self._path)[1]
            for table in DECLARED:
                lists[table.name], found = read_rows(connection, table, self._path)
                damaged += found
        definitions = Definitions(**lists, damaged=damaged)
        # In case that the row with the mark is damaged.
        largest = max((row.storage_id for row in definitions.queues), default=0)
        self._next_id = max(self._next_id, largest + 1)
        return definitions

    def new_storage_id(self, above: int = 0) -> int:
        """A number that was never handed out before, by this process or another.

        In a batch it is good when the batch has ended. above: the largest that something else is
        known to be kept under; it counts if the file is new, or its mark damaged.
        """
        number = max(self._next_id, above + 1)
        self._next_id = number + 1
        if number >= self._ids_below and not self._connection.in_transaction:
            with self.batch():
                pass  # Its end reserves them.
        return number

    def _reserve_ids(self) -> int:
        """Raise the mark, if a number was handed out that is not below it. The mark."""
        if self._next_id <= self._ids_below:
            return self._ids_below
        below = self._next_id + _IDS_RESERVED
        self._put(META, MetaRow(_IDS_BELOW, below))
        return below

    def _put(self, table: Table, row: tuple[Any, ...]) -> None:
        self._execute(table.put, table.to_columns(row))

    def _delete(self, table: Table, **where: str | bytes) -> None:
        condition = " AND ".join(f"{column} = ?" for column in quoted(where))
        self._execute(
            f"DELETE FROM {table.name} WHERE {condition}",
            [to_column(value) for value in where.values()],
        )

    def _execute(self, statement: str, values: list[Any]) -> None:
        connection = self._connection
        with naming_file(self._path):
            changed = connection.execute(statement, values).rowcount
        if connection.in_transaction:
            self._pending += changed
        else:
            self._committed(changed)

    def _committed(self, changed: int) -> None:
        if changed:
            self.changes += changed
            self._witness.note_committed(self.changes)

    def put_vhost(self, row: VhostRow) -> None:
        """Add or replace."""
        self._put(VHOSTS, row)

    def delete_vhost(self, name: str) -> None:
        """Delete it and all in it."""
        with self.batch():
            self._delete(VHOSTS, name=name)
            for table in IN_A_VHOST:
                self._delete(table, vhost=name)

    def put_user(self, row: UserRow) -> None:
        """Add or replace."""
        self._put(USERS, row)

    def delete_user(self, name: str) -> None:
        """Delete it and its permissions."""
        with self.batch():
            self._delete(USERS, name=name)
            self._delete(PERMISSIONS, user=name)
            self._delete(TOPIC_PERMISSIONS, user=name)

    def put_permission(self, row: PermissionRow) -> None:
        """Add or replace."""
        self._put(PERMISSIONS, row)

    def delete_permission(self, vhost: str, user: str) -> None:
        """Delete, if it is there."""
        self._delete(PERMISSIONS, vhost=vhost, user=user)

    def put_topic_permission(self, row: TopicPermissionRow) -> None:
        """Add or replace."""
        self._put(TOPIC_PERMISSIONS, row)

    def delete_topic_permission(self, vhost: str, user: str, exchange: str | None) -> None:
        """Delete one, or all of a user in a vhost."""
        if exchange is None:
            self._delete(TOPIC_PERMISSIONS, vhost=vhost, user=user)
        else:
            self._delete(TOPIC_PERMISSIONS, vhost=vhost, user=user, exchange=exchange)

    def put_exchange(self, row: ExchangeRow) -> None:
        """Add or replace."""
        self._put(EXCHANGES, row)

    def delete_exchange(self, vhost: str, name: str) -> None:
        """Delete it and its bindings."""
        with self.batch():
            self._delete(EXCHANGES, vhost=vhost, name=name)
            self._delete(BINDINGS, vhost=vhost, source=name)
            self._delete(BINDINGS, vhost=vhost, destination_kind="exchange", destination=name)

    def put_queue(self, row: QueueRow) -> None:
        """Add or replace."""
        self._put(QUEUES, row)

    def delete_queue(self, vhost: str, name: str) -> None:
        """Delete it and its bindings."""
        with self.batch():
            self._delete(QUEUES, vhost=vhost, name=name)
            self._delete(BINDINGS, vhost=vhost, destination_kind="queue", destination=name)

    def put_binding(self, row: BindingRow) -> None:
        """Add, unless it is there."""
        self._put(BINDINGS, row)

    def delete_binding(self, row: BindingRow) -> None:
        """Delete, if it is there."""
        self._delete(BINDINGS, **row._asdict())

    def put_parameter(self, row: ParameterRow) -> None:
        """Add or replace."""
        self._put(PARAMETERS, row)

    def delete_parameter(self, vhost: str, component: str, name: str) -> None:
        """Delete, if it is there."""
        self._delete(PARAMETERS, vhost=vhost, component=component, name=name)

    def sync(self) -> None:
        """Have all operations until now survive a power cut. For a worker thread.

        The log is synced through a descriptor of its own. (To close one of the database file
        itself would let go of SQLite's locks on it.) A checkpoint has synced what it moved.
        """
        changes = self.changes
        try:
            for path, sync in ((self._log_path, os.fdatasync), (self._path.parent, os.fsync)):
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
                f"the metadata in {self._log_path} cannot be synced: {error.strerror}; "
                f"{CHECK_SURROUNDINGS}"
            ) from error
        self._witness.note_synced(changes)

    def checkpoint(self) -> None:
        """Move the log into the database file. For a worker thread: it waits for the disk."""
        with naming_file(self._path):
            connection = sqlite3.connect(f"{self._path.absolute().as_uri()}?mode=rw", uri=True)
            try:
                connection.execute("PRAGMA wal_checkpoint(PASSIVE)")
            finally:
                connection.close()

    def close(self) -> None:
        """No more operations. The log is moved into the database file, and goes."""
        self._connection.close()
        self._witness.close(remove=not self._missing and not self._log_path.exists())
