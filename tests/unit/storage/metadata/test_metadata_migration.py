"""Which files of older formats are whole. Migrations: test_metadata_storage_ids.py."""

import sqlite3

import pytest

from leveret.storage.metadata.metadata_migration import is_whole


@pytest.fixture
def connection():
    connection = sqlite3.connect(":memory:", isolation_level=None)
    yield connection
    connection.close()


def test_an_old_file_is_whole_if_it_has_the_tables_of_its_format(connection):
    assert is_whole(connection, 2, {"queues"})
    assert not is_whole(connection, 2, {"queues", "totals"})
    assert not is_whole(connection, 3, set())
