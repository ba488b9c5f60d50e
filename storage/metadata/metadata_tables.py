"""The tables of the metadata file, their SQL, and the checksums that detect damaged rows.

    meta               key: the format's version, the file's identity, the reserved storage ids
    vhosts             name
    users              name
    permissions        vhost, user
    topic_permissions  vhost, user, exchange
    exchanges          vhost, name
    queues             vhost, name
    bindings           all columns
    parameters         vhost, component, name
    totals             number: for each other table its rows, the sum of their checksums, and the
                       number of times that a row of it was put or deleted

The list shows each table's key; the other columns are the fields of the row and `checksum`, the
CRC-32 of the table's name and the row's values. A row with a wrong checksum is damaged. Missing
rows are detected by the totals, which triggers update in the transaction of each change. The sum of
checksums cannot overflow: 2**31 rows fit into 63 bits.

Names may have bytes that are not UTF-8 (strings with surrogate escapes). SQLite does not accept
them as text, so such a name is stored as a blob and read back as the same string. Columns have no
types for that reason. A blob never equals a text, and each string is stored in one form only.
"""

from collections.abc import Iterable, Iterator
from sqlite3 import Connection
from typing import Any, NamedTuple

from leveret.storage.messages.checksum import crc32
from leveret.storage.metadata.metadata_rows import (
    BindingRow,
    ExchangeRow,
    ParameterRow,
    PermissionRow,
    QueueRow,
    TopicPermissionRow,
    UserRow,
    VhostRow,
)

PART_ROWS = 300
"""Deleting this many rows takes two to four milliseconds."""
_SHOWN_MAX = 80
"""An error shows at most this many characters of a damaged row's key."""


class MetaRow(NamedTuple):
    """A fact about the file itself."""

    key: str
    value: int


class MetadataTable:
    """A table and its SQL. sqlite3 caches the prepared statement of each text."""

    def __init__(
        self, number: int, name: str, row_type: type[tuple[Any, ...]], key: tuple[str, ...]
    ) -> None:
        self.number = number
        self.name = name
        self.row_type = row_type
        self.fields = tuple(row_type.__annotations__)
        self.kinds: tuple[type, ...] = tuple(row_type.__annotations__.values())
        self._seed = crc32(name.encode())
        self._key_places = [(self.fields.index(column), column) for column in key]
        listed_key = ", ".join(quoted(key))
        columns = quoted((*self.fields, "checksum"))
        definitions = ", ".join(f"{column} NOT NULL" for column in columns)
        self.create = f"CREATE TABLE {name} ({definitions}, PRIMARY KEY ({listed_key}))"
        # Rows are read in the order of their rowids. An update keeps the rowid and so the order;
        # INSERT OR REPLACE would move the row to the end.
        self.put = (
            f"INSERT INTO {name} VALUES ({', '.join('?' * len(columns))}) "
            f"ON CONFLICT ({listed_key}) "
            + _on_conflict([column for column in columns if column not in quoted(key)])
        )
        self.select = f"SELECT {', '.join(columns)} FROM {name} NOT INDEXED ORDER BY rowid"

    def triggers(self) -> Iterator[str]:
        """The SQL of the triggers that update the totals."""
        for event, rows, checksums in (
            ("INSERT", "+ 1", "+ NEW.checksum"),
            ("UPDATE", "", "- OLD.checksum + NEW.checksum"),
            ("DELETE", "- 1", "- OLD.checksum"),
        ):
            yield (
                f"CREATE TRIGGER {self.name}_{event.lower()} AFTER {event} ON {self.name} BEGIN "
                f"UPDATE totals SET row_count = row_count {rows}, checksums = checksums "
                f"{checksums}, changes = changes + 1 WHERE number = {self.number}; END"
            )

    def to_columns(self, row: Iterable[Any]) -> list[Any]:
        """The columns of a row: its values and their checksum."""
        columns = [to_column(value) for value in row]
        columns.append(self.checksum(columns))
        return columns

    def checksum(self, columns: Iterable[Any]) -> int:
        """The checksum of stored columns. It covers the type, the length and the bytes of each."""
        parts = []
        for value in columns:
            if isinstance(value, str):
                data = value.encode("utf-8", "surrogateescape")
                parts.append(b"t%d:%b" % (len(data), data))
            elif isinstance(value, bytes):
                parts.append(b"b%d:%b" % (len(value), value))
            elif isinstance(value, int):
                parts.append(b"i%d;" % value)
            else:
                parts.append(b"?")  # No other type is ever stored.
        return crc32(b"".join(parts), self._seed)

    def from_columns(self, columns: Iterable[Any]) -> Any:
        """The row of columns whose checksum is right."""
        return self.row_type(*map(_from_column, columns, self.kinds))

    def describe_key(self, columns: tuple[Any, ...]) -> str:
        """The readable part of a damaged row's key."""
        parts = (f"{name} {columns[place]!a}" for place, name in self._key_places)
        text = ", ".join(parts)
        return text if len(text) <= _SHOWN_MAX else text[:_SHOWN_MAX] + "..."


def quoted(names: Iterable[str]) -> list[str]:
    """Column names in quotes, since some are SQL keywords."""
    return [f'"{name}"' for name in names]


def _on_conflict(columns: list[str]) -> str:
    # All columns of a binding are its key, so an existing row has the same checksum.
    if columns == ['"checksum"']:
        return "DO NOTHING"
    return "DO UPDATE SET " + ", ".join(f"{name} = excluded.{name}" for name in columns)


def to_column(value: Any) -> Any:
    """A field's value as SQLite takes it."""
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


META = MetadataTable(0, "meta", MetaRow, ("key",))
VHOSTS = MetadataTable(1, "vhosts", VhostRow, ("name",))
USERS = MetadataTable(2, "users", UserRow, ("name",))
PERMISSIONS = MetadataTable(3, "permissions", PermissionRow, ("vhost", "user"))
TOPIC_PERMISSIONS = MetadataTable(
    4, "topic_permissions", TopicPermissionRow, ("vhost", "user", "exchange")
)
EXCHANGES = MetadataTable(5, "exchanges", ExchangeRow, ("vhost", "name"))
QUEUES = MetadataTable(6, "queues", QueueRow, ("vhost", "name"))
BINDINGS = MetadataTable(7, "bindings", BindingRow, BindingRow._fields)
PARAMETERS = MetadataTable(8, "parameters", ParameterRow, ("vhost", "component", "name"))

IN_A_VHOST = (PERMISSIONS, TOPIC_PERMISSIONS, EXCHANGES, QUEUES, BINDINGS, PARAMETERS)
DECLARED = (VHOSTS, USERS, *IN_A_VHOST)
TABLES = (META, *DECLARED)

ADDED_IN_FORMAT_4 = (PARAMETERS.create, *PARAMETERS.triggers())
SCHEMA = (
    "CREATE TABLE totals (number INTEGER PRIMARY KEY, row_count NOT NULL, "
    "checksums NOT NULL, changes NOT NULL)",
    *(table.create for table in TABLES),
    *(trigger for table in TABLES for trigger in table.triggers()),
    # Without it, finding the bindings of a queue reads all bindings of its vhost.
    "CREATE INDEX bindings_to ON bindings (vhost, destination_kind, destination)",
)
SCHEMA_3 = tuple(statement for statement in SCHEMA if statement not in ADDED_IN_FORMAT_4)
NO_ROWS = "INSERT INTO totals VALUES (?, 0, 0, 0)"


def create_tables(connection: Connection) -> None:
    """Create all tables, without rows, in the open transaction."""
    for statement in SCHEMA:
        connection.execute(statement)
    connection.executemany(NO_ROWS, [(table.number,) for table in TABLES])


def add_parameters(connection: Connection) -> None:
    """Add the table that a file of format 3 lacks, in the open transaction."""
    for statement in ADDED_IN_FORMAT_4:
        connection.execute(statement)
    connection.execute(NO_ROWS, (PARAMETERS.number,))


def has_tables(connection: Connection, schema: tuple[str, ...] = SCHEMA) -> bool:
    """Whether the schema is exactly what `create_tables` makes."""
    found = connection.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL")
    return sorted(map(str, (sql for (sql,) in found))) == sorted(schema)


def read_rows(
    connection: Connection, table: MetadataTable, path: object
) -> tuple[list[Any], list[str]]:
    """The intact rows of a table in the order in which they were added, and the damage."""
    rows, damaged = [], []
    count = checksums = 0
    for *columns, checksum in connection.execute(table.select):
        count += 1
        checksums += checksum if isinstance(checksum, int) else 0
        if table.checksum(columns) == checksum:
            rows.append(table.from_columns(columns))
        else:
            damaged.append(
                f"{path}: a row of {table.name} is damaged and left out: "
                f"{table.describe_key(tuple(columns))}"
            )
    expected = connection.execute(
        "SELECT row_count, checksums FROM totals WHERE number = ?", (table.number,)
    ).fetchone()
    if expected is None or expected[0] != count:
        wanted = "an unknown number of" if expected is None else ascii(expected[0])
        damaged.append(
            f"{path}: the table {table.name} is damaged: it should hold {wanted} rows, "
            f"and {count} were found"
        )
    elif expected[1] != checksums:
        damaged.append(
            f"{path}: the table {table.name} is damaged: its {count} rows are not all those that "
            "were last written"
        )
    return rows, damaged


def rows_of(
    vhost: str, kind: str = "", name: str = ""
) -> list[tuple[MetadataTable, dict[str, str]]]:
    """The rows that go with a vhost, or with its queue or exchange: tables, and values of columns.

    Rows that refer to other rows come first.
    """
    if not kind:
        return [(table, {"vhost": vhost}) for table in reversed(IN_A_VHOST)]
    to_it = (BINDINGS, {"vhost": vhost, "destination_kind": kind, "destination": name})
    from_it = (BINDINGS, {"vhost": vhost, "source": name})
    return [to_it] if kind == "queue" else [from_it, to_it]


def count_changes(connection: Connection) -> int:
    """The number of rows that were put or deleted since the file was created."""
    found = connection.execute("SELECT changes FROM totals").fetchall()
    return sum(changes for (changes,) in found if isinstance(changes, int))
