"""What is declared, in SQLite: vhosts, users, permissions, exchanges, queues and bindings.

Each operation is one transaction in SQLite's write-ahead-log mode: when it returns, a crash of the
process does not undo it. The connection never checkpoints by itself, because a checkpoint waits
for the disk; `checkpoint`, called from a worker thread, does that on a connection of its own.

Names may hold bytes that are not UTF-8 (strings with surrogate escapes). SQLite does not take those
as text, so such a name is stored as a blob, and comes back as the same string.
"""

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol

FORMAT_VERSION = 1


class MetadataError(Exception):
    """The metadata cannot be read or written; the text names the file and says what to do."""


class VhostRow(NamedTuple):
    """A virtual host."""

    name: str


class UserRow(NamedTuple):
    """A user. password_hash: empty if the user has no password. tags: separated by commas."""

    name: str
    password_hash: bytes
    hashing_algorithm: str
    tags: str


class PermissionRow(NamedTuple):
    """What a user may do in a vhost: three regular expressions."""

    vhost: str
    user: str
    configure: str
    write: str
    read: str


class TopicPermissionRow(NamedTuple):
    """Which routing keys of a topic exchange a user may write and read."""

    vhost: str
    user: str
    exchange: str
    write: str
    read: str


class ExchangeRow(NamedTuple):
    """A durable exchange. arguments: an encoded field table."""

    vhost: str
    name: str
    type: str
    durable: bool
    auto_delete: bool
    internal: bool
    arguments: bytes


class QueueRow(NamedTuple):
    """A durable queue. arguments: an encoded field table."""

    vhost: str
    name: str
    durable: bool
    auto_delete: bool
    arguments: bytes


class BindingRow(NamedTuple):
    """A binding between durable ends. arguments: an encoded field table."""

    vhost: str
    source: str
    destination_kind: str
    destination: str
    routing_key: str
    arguments: bytes


@dataclass
class Definitions:
    """All that is declared, each list in the order in which it was declared."""

    vhosts: list[VhostRow] = field(default_factory=list)
    users: list[UserRow] = field(default_factory=list)
    permissions: list[PermissionRow] = field(default_factory=list)
    topic_permissions: list[TopicPermissionRow] = field(default_factory=list)
    exchanges: list[ExchangeRow] = field(default_factory=list)
    queues: list[QueueRow] = field(default_factory=list)
    bindings: list[BindingRow] = field(default_factory=list)


class Metadata(Protocol):
    """Where declarations are kept."""

    def load(self) -> Definitions:
        """All that is declared."""

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
        """Add or replace."""

    def delete_binding(self, row: BindingRow) -> None:
        """Delete, if it is there."""

    def close(self) -> None:
        """No more operations."""


_TABLES: tuple[tuple[str, type[tuple[Any, ...]], tuple[str, ...]], ...] = (
    ("vhosts", VhostRow, ("name",)),
    ("users", UserRow, ("name",)),
    ("permissions", PermissionRow, ("vhost", "user")),
    ("topic_permissions", TopicPermissionRow, ("vhost", "user", "exchange")),
    ("exchanges", ExchangeRow, ("vhost", "name")),
    ("queues", QueueRow, ("vhost", "name")),
    ("bindings", BindingRow, tuple(BindingRow._fields)),
)
"""Table, row type and primary key."""

_IN_A_VHOST = ("permissions", "topic_permissions", "exchanges", "queues", "bindings")


class SqliteMetadata:
    """Declarations in a file. Used from one thread, but for `checkpoint`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._is_in_batch = False
        with self._naming_file():
            self._connection = sqlite3.connect(path, isolation_level=None)
            self._connection.execute("PRAGMA journal_mode = WAL")
            self._connection.execute("PRAGMA synchronous = NORMAL")
            self._connection.execute("PRAGMA wal_autocheckpoint = 0")
            self._check_version()
            self._create_tables()

    def _check_version(self) -> None:
        (found,) = self._connection.execute("PRAGMA user_version").fetchone()
        if found not in (0, FORMAT_VERSION):
            raise MetadataError(
                f"{self._path} has format {found}, and this version reads format {FORMAT_VERSION}: "
                "start the version of Leveret that wrote it, or move the file away"
            )

    def _create_tables(self) -> None:
        for table, row_type, key in _TABLES:
            columns = ", ".join(_quoted(_fields(row_type)))
            self._connection.execute(
                f"CREATE TABLE IF NOT EXISTS {table} "
                f"({columns}, PRIMARY KEY ({', '.join(_quoted(key))}))"
            )
        self._connection.execute(f"PRAGMA user_version = {FORMAT_VERSION}")

    @contextmanager
    def _naming_file(self) -> Iterator[None]:
        """Turn SQLite's errors into ones that say which file is meant."""
        try:
            yield
        except sqlite3.Error as error:
            raise MetadataError(
                f"the metadata in {self._path} cannot be used: {error}; check that the file is "
                "writable and whole, or restore it from a copy"
            ) from error

    @contextmanager
    def batch(self) -> Iterator[None]:
        """Everything in the block is one transaction."""
        with self._naming_file():
            self._connection.execute("BEGIN")
            try:
                yield
            except BaseException:
                self._connection.execute("ROLLBACK")
                raise
            self._connection.execute("COMMIT")

    def load(self) -> Definitions:
        """All that is declared, in the order in which it was declared."""
        with self._naming_file():
            return Definitions(
                **{table: self._load_table(table, row_type) for table, row_type, _ in _TABLES}
            )

    def _load_table(self, table: str, row_type: type[tuple[Any, ...]]) -> list[Any]:
        columns = ", ".join(_quoted(_fields(row_type)))
        rows = self._connection.execute(f"SELECT {columns} FROM {table} ORDER BY rowid")
        types = row_type.__annotations__.values()
        return [row_type(*map(_from_column, row, types)) for row in rows]

    def _put(self, table: str, row: tuple[Any, ...]) -> None:
        places = ", ".join("?" * len(row))
        with self._naming_file():
            self._connection.execute(
                f"INSERT OR REPLACE INTO {table} VALUES ({places})", _to_columns(row)
            )

    def _delete(self, table: str, **where: str | bytes) -> None:
        condition = " AND ".join(f"{column} = ?" for column in _quoted(where))
        with self._naming_file():
            self._connection.execute(
                f"DELETE FROM {table} WHERE {condition}", _to_columns(where.values())
            )

    def put_vhost(self, row: VhostRow) -> None:
        """Add or replace."""
        self._put("vhosts", row)

    def delete_vhost(self, name: str) -> None:
        """Delete it and all in it."""
        with self.batch():
            self._delete("vhosts", name=name)
            for table in _IN_A_VHOST:
                self._delete(table, vhost=name)

    def put_user(self, row: UserRow) -> None:
        """Add or replace."""
        self._put("users", row)

    def delete_user(self, name: str) -> None:
        """Delete it and its permissions."""
        with self.batch():
            self._delete("users", name=name)
            self._delete("permissions", user=name)
            self._delete("topic_permissions", user=name)

    def put_permission(self, row: PermissionRow) -> None:
        """Add or replace."""
        self._put("permissions", row)

    def delete_permission(self, vhost: str, user: str) -> None:
        """Delete, if it is there."""
        self._delete("permissions", vhost=vhost, user=user)

    def put_topic_permission(self, row: TopicPermissionRow) -> None:
        """Add or replace."""
        self._put("topic_permissions", row)

    def delete_topic_permission(self, vhost: str, user: str, exchange: str | None) -> None:
        """Delete one, or all of a user in a vhost."""
        if exchange is None:
            self._delete("topic_permissions", vhost=vhost, user=user)
        else:
            self._delete("topic_permissions", vhost=vhost, user=user, exchange=exchange)

    def put_exchange(self, row: ExchangeRow) -> None:
        """Add or replace."""
        self._put("exchanges", row)

    def delete_exchange(self, vhost: str, name: str) -> None:
        """Delete it and its bindings."""
        with self.batch():
            self._delete("exchanges", vhost=vhost, name=name)
            self._delete("bindings", vhost=vhost, source=name)
            self._delete("bindings", vhost=vhost, destination_kind="exchange", destination=name)

    def put_queue(self, row: QueueRow) -> None:
        """Add or replace."""
        self._put("queues", row)

    def delete_queue(self, vhost: str, name: str) -> None:
        """Delete it and its bindings."""
        with self.batch():
            self._delete("queues", vhost=vhost, name=name)
            self._delete("bindings", vhost=vhost, destination_kind="queue", destination=name)

    def put_binding(self, row: BindingRow) -> None:
        """Add or replace."""
        self._put("bindings", row)

    def delete_binding(self, row: BindingRow) -> None:
        """Delete, if it is there."""
        self._delete("bindings", **row._asdict())

    def checkpoint(self) -> None:
        """Move the log into the database file. For a worker thread: it waits for the disk."""
        with self._naming_file():
            connection = sqlite3.connect(self._path)
            try:
                connection.execute("PRAGMA wal_checkpoint(PASSIVE)")
            finally:
                connection.close()

    def close(self) -> None:
        """No more operations."""
        self._connection.close()


class NoMetadata:
    """Declarations that are not kept: for a broker that lives as long as a test."""

    def load(self) -> Definitions:
        """Nothing."""
        return Definitions()

    def __getattr__(self, name: str) -> Any:
        """Every other operation does nothing."""
        if name.startswith(("put_", "delete_")) or name == "close":
            return _do_nothing
        raise AttributeError(name)


def _do_nothing(*_arguments: object) -> None:
    """Stands for any operation on metadata that are not kept."""


def _fields(row_type: type[tuple[Any, ...]]) -> Iterable[str]:
    return row_type.__annotations__


def _quoted(names: Iterable[str]) -> list[str]:
    return [f'"{name}"' for name in names]


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
