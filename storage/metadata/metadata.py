"""The metadata in SQLite: vhosts, users, permissions, exchanges, queues, bindings and parameters.

Promise: when an operation returns, `kill -9` does not undo it. After `sync` a power cut does not
undo it either (metadata_sync.py groups the waits for that). Damage is reported by `load` and
never returned as data.

Not promised: that an operation survives a power cut without `sync`. The last operations may be
undone then, the newest first, because no operation waits for the disk (``synchronous = NORMAL``).

Mechanism: each operation is one transaction in SQLite's write-ahead log. `checkpoint` moves that
log into the database file. It waits for the disk, so a worker thread calls it, on a connection of
its own and in PASSIVE mode, which blocks no operation; the event loop's connection never starts a
checkpoint. The first operation after a complete checkpoint restarts SQLite's log and syncs its
header, which is one short sync in the loop (metadata_sync.py says how often).

Rows have checksums and tables have totals (metadata_tables.py), and a file beside SQLite's log
holds the number of changes (metadata_witness.py). `load` leaves damaged rows out and reports them;
a file that cannot be used at all raises MetadataError. `load` reads every page
(``integrity_check``), because with a damaged index later deletes would miss rows: 12 of the 85 ms
for 20,000 rows.

Invariants:

MD1  A storage id is used at most once: the ids below `_ids_below` are reserved on disk. When half
     of them are used, the next sync reserves more, so that no declaration waits for a reservation.
MD2  `changes` counts committed rows, and the witness is updated after the commit, so it never
     counts more than SQLite has.
"""

import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Protocol

from leveret.storage.metadata.metadata_opening import (
    CHECK_SURROUNDINGS,
    FILE_MODE,
    FORMAT_VERSION,
    IDENTITY,
    VERSION,
    MetadataError,
    MetadataFull,
    connect,
    format_error,
    naming_file,
    open_connection,
    prepare_tables,
)
from leveret.storage.metadata.metadata_rows import (
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
from leveret.storage.metadata.metadata_tables import (
    BINDINGS,
    DECLARED,
    EXCHANGES,
    META,
    PARAMETERS,
    PART_ROWS,
    PERMISSIONS,
    QUEUES,
    TOPIC_PERMISSIONS,
    USERS,
    VHOSTS,
    MetadataTable,
    MetaRow,
    count_changes,
    quoted,
    read_rows,
    rows_of,
    to_column,
)
from leveret.storage.metadata.metadata_witness import Witness
from leveret.storage.metadata.no_metadata import NoMetadata

__all__ = ["Metadata", "MetadataError", "MetadataFull", "NoMetadata", "SqliteMetadata"]

_IDS_RESERVED = 100_000
"""Ids that are reserved and unused at a stop are never used: there are 2 ** 48 ids."""
_IDS_BELOW = "storage_ids_below"
_PROBLEMS_MAX = 20
"""At most this many damaged pages are reported."""


class Metadata(Protocol):
    """The store of declarations. Every operation but `sync` and `checkpoint` is for one thread.

    changes: the number of rows put or deleted in committed operations. synced_changes: the number
    of synced ones; negative until the first sync.
    """

    changes: int
    synced_changes: int

    def load(self) -> Definitions:
        """All declarations. It must be called before other operations."""

    def batch(self) -> AbstractContextManager[None]:
        """All operations in the block take effect, or none. The block must not await."""

    def put_vhost(self, row: VhostRow) -> None:
        """Add it, or replace it by its key."""

    def delete_vhost(self, name: str) -> None:
        """Delete it and everything declared in it."""

    def put_user(self, row: UserRow) -> None:
        """Add it, or replace it by its key."""

    def delete_user(self, name: str) -> None:
        """Delete it and its permissions."""

    def put_permission(self, row: PermissionRow) -> None:
        """Add it, or replace it by its key."""

    def delete_permission(self, vhost: str, user: str) -> None:
        """Delete it, if it exists."""

    def put_topic_permission(self, row: TopicPermissionRow) -> None:
        """Add it, or replace it by its key."""

    def delete_topic_permission(self, vhost: str, user: str, exchange: str | None) -> None:
        """Delete one, or with None as exchange all of a user in a vhost."""

    def put_exchange(self, row: ExchangeRow) -> None:
        """Add it, or replace it by its key."""

    def delete_exchange(self, vhost: str, name: str) -> None:
        """Delete it and its bindings."""

    def put_queue(self, row: QueueRow) -> None:
        """Add it, or replace it by its key."""

    def storage_id_of(self, vhost: str, queue: str) -> int:
        """The storage id of a queue; 0 if it has none."""

    def delete_queue(self, vhost: str, name: str) -> None:
        """Delete it and its bindings."""

    def put_binding(self, row: BindingRow) -> None:
        """Add it, unless it exists."""

    def delete_binding(self, row: BindingRow) -> None:
        """Delete it, if it exists."""

    def put_parameter(self, row: ParameterRow) -> None:
        """Add it, or replace it by its key."""

    def delete_parameter(self, vhost: str, component: str, name: str) -> None:
        """Delete it, if it exists."""

    def delete_parameters(self, component: str) -> None:
        """Delete all of a component."""

    def delete_part(self, vhost: str, kind: str = "", name: str = "") -> int:
        """In a batch: delete some rows of a vhost, or its queue or exchange. Returns how many."""

    def reserve_storage_ids(self) -> None:
        """Have storage ids reserved with the next sync. For a start, before any declaration."""

    def new_storage_id(self, above: int = 0) -> int:
        """A storage id that was never used before and is higher than `above`."""

    def sync(self) -> None:
        """Sync all unsynced operations so far. For any worker thread."""

    def checkpoint(self) -> None:
        """Move SQLite's log into the database file. For a worker thread: it waits for the disk."""

    def close(self) -> None:
        """Close the metadata."""


class SqliteMetadata:
    """Metadata in a file, which is created if it is missing. Raises MetadataError."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._log_path = path.with_name(path.name + "-wal")
        self._pending = 0
        self._wants_ids = False
        self.synced_changes = -1
        self._sync_lock, self._checkpoint_lock = threading.Lock(), threading.Lock()
        self._is_log_in_directory = False
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
        """Read the file's `meta` rows. Returns its identity."""
        rows, _ = read_rows(self._connection, META, self._path)
        facts: dict[str, int] = {row.key: row.value for row in rows}
        if facts.get(VERSION, FORMAT_VERSION) != FORMAT_VERSION:
            raise format_error(self._path, facts[VERSION])
        self._next_id = self._ids_below = facts.get(_IDS_BELOW, 1)
        self._ids_below_soon = self._ids_committed_below = self._ids_below
        return facts.get(IDENTITY, 0)

    @contextmanager
    def batch(self) -> Iterator[None]:
        """All operations in the block are one transaction. A batch within a batch joins it."""
        connection = self._connection
        if connection.in_transaction:
            yield
            return
        with naming_file(self._path):
            connection.execute("BEGIN IMMEDIATE")
        self._pending = 0
        try:
            yield
            self._reserve_ids()
            with naming_file(self._path):
                connection.execute("COMMIT")
        except BaseException:
            # A full disk makes SQLite roll back by itself.
            if connection.in_transaction:
                with naming_file(self._path):
                    connection.execute("ROLLBACK")
            self._ids_below_soon = self._ids_committed_below
            raise
        self._wants_ids = False
        self._ids_committed_below = self._ids_below_soon
        self._committed(self._pending)
        if self._next_id > self._ids_below:
            # All reserved ids were used since the last sync: this sync runs in the event loop.
            self.sync()
        assert self._next_id <= self._ids_below, "MD1: storage ids are reserved on disk"

    def load(self) -> Definitions:
        """All declarations, in the order in which they were made, and the damage."""
        connection = self._connection
        lists, damaged = {}, []
        if self._missing:
            damaged.append(
                f"{self._path}: the last changes are missing ({self._missing} rows put or "
                f"deleted), because {self._log_path} is damaged or was removed"
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
        # The row that holds the reserved ids may be damaged.
        largest = max((row.storage_id for row in definitions.queues), default=0)
        self._next_id = max(self._next_id, largest + 1)
        return definitions

    def new_storage_id(self, above: int = 0) -> int:
        """A storage id that was never used before, by this process or another.

        In a batch, it may be used after the batch has ended. above: the highest id that is in use
        elsewhere; it matters if the file is new, or the row with the reserved ids is damaged.
        """
        number = max(self._next_id, above + 1)
        self._next_id = number + 1
        if self._next_id > self._ids_below_soon - _IDS_RESERVED // 2:
            self.reserve_storage_ids()
        if self._next_id > self._ids_below and not self._connection.in_transaction:
            self.sync()
        return number

    def reserve_storage_ids(self) -> None:
        """Have storage ids reserved with the next sync."""
        with self.batch():
            self._wants_ids = True

    def _reserve_ids(self) -> None:
        """At the end of a batch: reserve storage ids if requested."""
        if self._wants_ids or self._next_id > self._ids_below_soon:
            self._ids_below_soon = self._next_id + _IDS_RESERVED
            self._put(META, MetaRow(_IDS_BELOW, self._ids_below_soon))

    def _put(self, table: MetadataTable, row: tuple[Any, ...]) -> None:
        self._execute(table.put, table.to_columns(row))

    def _delete(
        self, table: MetadataTable, where: Mapping[str, str | bytes], row_count_max: int = 0
    ) -> int:
        """Delete the rows with these values, at most `row_count_max` if set. Returns how many."""
        condition = " AND ".join(map("{} = ?".format, quoted(where)))
        if row_count_max:
            chosen = f"SELECT rowid FROM {table.name} WHERE {condition} LIMIT {row_count_max}"
            condition = f"rowid IN ({chosen})"
        return self._execute(
            f"DELETE FROM {table.name} WHERE {condition}",
            [to_column(value) for value in where.values()],
        )

    def _execute(self, statement: str, values: list[Any]) -> int:
        """Put or delete rows. Returns how many."""
        connection = self._connection
        with naming_file(self._path):
            changed = connection.execute(statement, values).rowcount
        if connection.in_transaction:
            self._pending += changed
        else:
            self._committed(changed)
        return changed

    def _committed(self, changed: int) -> None:
        if changed:
            self.changes += changed
            self._witness.note_committed(self.changes)

    def put_vhost(self, row: VhostRow) -> None:
        """Add it, or replace it by its key."""
        self._put(VHOSTS, row)

    def delete_vhost(self, name: str) -> None:
        """Delete it and everything declared in it."""
        with self.batch():
            self._delete(VHOSTS, {"name": name})
            for table, where in rows_of(name):
                self._delete(table, where)

    def put_user(self, row: UserRow) -> None:
        """Add it, or replace it by its key."""
        self._put(USERS, row)

    def delete_user(self, name: str) -> None:
        """Delete it and its permissions."""
        with self.batch():
            self._delete(USERS, {"name": name})
            self._delete(PERMISSIONS, {"user": name})
            self._delete(TOPIC_PERMISSIONS, {"user": name})

    def put_permission(self, row: PermissionRow) -> None:
        """Add it, or replace it by its key."""
        self._put(PERMISSIONS, row)

    def delete_permission(self, vhost: str, user: str) -> None:
        """Delete it, if it exists."""
        self._delete(PERMISSIONS, {"vhost": vhost, "user": user})

    def put_topic_permission(self, row: TopicPermissionRow) -> None:
        """Add it, or replace it by its key."""
        self._put(TOPIC_PERMISSIONS, row)

    def delete_topic_permission(self, vhost: str, user: str, exchange: str | None) -> None:
        """Delete one, or with None as exchange all of a user in a vhost."""
        if exchange is None:
            self._delete(TOPIC_PERMISSIONS, {"vhost": vhost, "user": user})
        else:
            self._delete(TOPIC_PERMISSIONS, {"vhost": vhost, "user": user, "exchange": exchange})

    def put_exchange(self, row: ExchangeRow) -> None:
        """Add it, or replace it by its key."""
        self._put(EXCHANGES, row)

    def delete_exchange(self, vhost: str, name: str) -> None:
        """Delete it and its bindings."""
        with self.batch():
            self._delete(EXCHANGES, {"vhost": vhost, "name": name})
            for table, where in rows_of(vhost, "exchange", name):
                self._delete(table, where)

    def put_queue(self, row: QueueRow) -> None:
        """Add it, or replace it by its key."""
        self._put(QUEUES, row)

    def storage_id_of(self, vhost: str, queue: str) -> int:
        """The storage id of a queue; 0 if it has none."""
        statement = f"SELECT storage_id FROM {QUEUES.name} WHERE vhost = ? AND name = ?"
        with naming_file(self._path):
            place = [to_column(vhost), to_column(queue)]
            found = self._connection.execute(statement, place).fetchone()
        return 0 if found is None else int(found[0])

    def delete_queue(self, vhost: str, name: str) -> None:
        """Delete it and its bindings."""
        with self.batch():
            self._delete(QUEUES, {"vhost": vhost, "name": name})
            for table, where in rows_of(vhost, "queue", name):
                self._delete(table, where)

    def put_binding(self, row: BindingRow) -> None:
        """Add it, unless it exists."""
        self._put(BINDINGS, row)

    def delete_binding(self, row: BindingRow) -> None:
        """Delete it, if it exists."""
        self._delete(BINDINGS, row._asdict())

    def put_parameter(self, row: ParameterRow) -> None:
        """Add it, or replace it by its key."""
        self._put(PARAMETERS, row)

    def delete_parameter(self, vhost: str, component: str, name: str) -> None:
        """Delete it, if it exists."""
        self._delete(PARAMETERS, {"vhost": vhost, "component": component, "name": name})

    def delete_part(self, vhost: str, kind: str = "", name: str = "") -> int:
        """Delete some rows. kind: `queue` or `exchange`, of this name; empty for all of a vhost."""
        for table, where in rows_of(vhost, kind, name):
            if deleted := self._delete(table, where, PART_ROWS):
                return deleted
        return 0

    def delete_parameters(self, component: str) -> None:
        """Delete all of a component."""
        self._delete(PARAMETERS, {"component": component})

    def sync(self) -> None:
        """Sync all unsynced operations so far. For any worker thread.

        SQLite's log is synced through a descriptor of its own. (Closing a descriptor of the
        database file itself would release SQLite's locks on it.) Changes that a checkpoint has
        moved are synced already.
        """
        with self._sync_lock:
            # Both belong to committed transactions, which are in SQLite's log.
            changes, ids_below = self.changes, self._ids_committed_below
            if changes == self.synced_changes:
                return
            try:
                self._sync_log()
            except FileNotFoundError:
                # The metadata were closed, which moved all of SQLite's log into the database file.
                return
            except OSError as error:
                raise MetadataError(
                    f"the metadata in {self._log_path} cannot be synced: {error.strerror}; "
                    f"{CHECK_SURROUNDINGS}"
                ) from error
            self._witness.note_synced(changes)
            self.synced_changes = changes
            self._ids_below = max(self._ids_below, ids_below)

    def _sync_log(self) -> None:
        """Sync SQLite's log; the first time also its name, since the file is created only once."""
        _sync_path(self._log_path, os.fdatasync)
        if not self._is_log_in_directory:
            _sync_path(self._path.parent, os.fsync)
            self._is_log_in_directory = True

    def checkpoint(self) -> None:
        """Move SQLite's log into the database file. For a worker thread: it waits for the disk."""
        with self._checkpoint_lock, naming_file(self._path):
            connection = open_connection(self._path)
            try:
                connection.execute("PRAGMA wal_checkpoint(PASSIVE)")
            finally:
                connection.close()

    def close(self) -> None:
        """Close the file. SQLite moves its log into the database file and removes the log."""
        self._connection.close()
        self._witness.close(remove=not self._missing and not self._log_path.exists())


def _sync_path(path: Path, sync: Callable[[int], object]) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        sync(descriptor)
    finally:
        os.close(descriptor)
