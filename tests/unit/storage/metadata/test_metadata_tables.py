"""Tables, checksums and totals of the metadata file."""

import sqlite3

import pytest

from leveret.storage.metadata.metadata_rows import BindingRow, QueueRow, UserRow
from leveret.storage.metadata.metadata_tables import (
    BINDINGS,
    QUEUES,
    TABLES,
    USERS,
    count_changes,
    create_tables,
    has_tables,
    read_rows,
)

ROW = QueueRow("/", "q\udcff", True, False, 7, b"\0")


@pytest.fixture
def connection():
    connection = sqlite3.connect(":memory:", isolation_level=None)
    create_tables(connection)
    yield connection
    connection.close()


def put(connection, table, *rows):
    for row in rows:
        connection.execute(table.put, table.to_columns(row))


def test_the_schema_is_recognized(connection):
    assert has_tables(connection)
    connection.execute("CREATE TABLE more (name)")
    assert not has_tables(connection)


def test_a_row_comes_back_as_it_was(connection):
    put(connection, QUEUES, ROW)
    assert read_rows(connection, QUEUES, "file") == ([ROW], [])


def test_a_replaced_row_keeps_its_place(connection):
    first, second = ROW, ROW._replace(name="other")
    put(connection, QUEUES, first, second, first._replace(durable=False))
    assert [row.name for row in read_rows(connection, QUEUES, "file")[0]] == ["q\udcff", "other"]


def test_a_binding_is_stored_once(connection):
    row = BindingRow("/", "x", "queue", "q", "key", b"\0")
    put(connection, BINDINGS, row, row)
    assert read_rows(connection, BINDINGS, "file") == ([row], [])


def test_a_damaged_row_is_left_out_and_named(connection):
    put(connection, USERS, UserRow("ann", b"hash", "sha256", ""))
    connection.execute("UPDATE users SET tags = 'administrator'")
    rows, (damage, *_) = read_rows(connection, USERS, "file")
    assert rows == []
    assert damage == "file: a row of users is damaged and left out: name 'ann'"


def test_a_row_that_is_missing_is_seen_in_the_totals(connection):
    put(connection, QUEUES, ROW)
    connection.execute("DROP TRIGGER queues_delete")
    connection.execute("DELETE FROM queues")
    rows, (damage,) = read_rows(connection, QUEUES, "file")
    assert rows == []
    assert "it should hold 1 rows, and 0 were found" in damage


def test_every_change_of_a_row_is_counted(connection):
    put(connection, QUEUES, ROW, ROW)
    connection.execute("DELETE FROM queues")
    assert count_changes(connection) == 3


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_the_checksum_depends_on_the_table_and_on_where_a_value_ends(table):
    assert table.checksum(["ab", "c"]) != table.checksum(["a", "bc"])
    assert len({other.checksum(["a"]) for other in TABLES}) == len(TABLES)
