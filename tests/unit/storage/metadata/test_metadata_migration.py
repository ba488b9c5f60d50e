"""Migrating metadata files of older formats. Whole files: test_metadata.py."""

import sqlite3

import pytest

from leveret.storage.metadata.metadata_migration import is_whole, migrate
from leveret.storage.metadata.metadata_rows import QueueRow
from leveret.storage.metadata.metadata_tables import (
    DECLARED,
    NO_ROWS,
    PARAMETERS,
    QUEUES,
    SCHEMA_3,
    TABLES,
    has_tables,
    quoted,
    read_rows,
)


@pytest.fixture
def connection():
    connection = sqlite3.connect(":memory:", isolation_level=None)
    yield connection
    connection.close()


def create_old(connection, version):
    """The tables of format 1 or 2: without types, checksums and totals."""
    connection.execute("CREATE TABLE meta (key, value)")
    for table in DECLARED:
        if table is not PARAMETERS:
            columns = [name for name in table.fields if version > 1 or name != "storage_id"]
            connection.execute(f"CREATE TABLE {table.name} ({', '.join(quoted(columns))})")


def test_format_1_gets_storage_ids_in_the_order_of_declaration(connection):
    create_old(connection, 1)
    for name in ("b", "a"):
        connection.execute("INSERT INTO queues VALUES ('/', ?, 1, 0, ?)", (name, b""))
    migrate(connection, 1)
    assert has_tables(connection)
    rows, damaged = read_rows(connection, QUEUES, "file")
    assert [(row.name, row.storage_id) for row in rows] == [("b", 1), ("a", 2)]
    assert damaged == []


def test_format_2_keeps_its_storage_ids(connection):
    create_old(connection, 2)
    row = QueueRow("/", "q", True, False, 9, b"")
    connection.execute("INSERT INTO queues VALUES (?, ?, ?, ?, ?, ?)", row)
    migrate(connection, 2)
    assert read_rows(connection, QUEUES, "file") == ([row], [])


def test_format_3_gets_parameters_and_keeps_its_rows(connection):
    for statement in SCHEMA_3:
        connection.execute(statement)
    numbers = [(table.number,) for table in TABLES if table is not PARAMETERS]
    connection.executemany(NO_ROWS, numbers)
    row = QueueRow("/", "q", True, False, 9, b"")
    connection.execute(QUEUES.put, QUEUES.to_columns(row))
    assert is_whole(connection, 3, set())
    migrate(connection, 3)
    assert has_tables(connection)
    assert read_rows(connection, QUEUES, "file") == ([row], [])


def test_an_old_file_is_whole_if_it_has_the_tables_of_its_format(connection):
    assert is_whole(connection, 2, {"queues"})
    assert not is_whole(connection, 2, {"queues", "totals"})
    assert not is_whole(connection, 3, set())
