"""Checking and repairing the metadata of a stopped node."""

import sqlite3

import pytest

from leveret.storage.check.check_metadata import FILE, check_metadata, repair_metadata
from leveret.storage.disk.disk import StoreError
from leveret.storage.metadata.metadata import SqliteMetadata


@pytest.fixture
def damaged(tmp_path):
    """A data directory whose metadata have two declarations, one of them damaged."""
    SqliteMetadata(tmp_path / FILE).close()
    connection = sqlite3.connect(tmp_path / FILE)
    connection.execute("INSERT INTO vhosts VALUES ('broken', '', '', 0, 12345)")
    connection.commit()
    connection.close()
    return tmp_path


def test_intact_metadata_have_no_problems(tmp_path):
    SqliteMetadata(tmp_path / FILE).close()
    assert check_metadata(tmp_path).damaged == []
    assert not repair_metadata(tmp_path)


def test_a_missing_file_is_a_problem_and_not_repaired(tmp_path):
    assert check_metadata(tmp_path).damaged == [f"{tmp_path / FILE} is missing"]
    assert not repair_metadata(tmp_path)


def test_a_check_names_the_damaged_rows_and_changes_nothing(damaged):
    before = (damaged / FILE).read_bytes()
    assert any("'broken'" in problem for problem in check_metadata(damaged).damaged)
    assert (damaged / FILE).read_bytes() == before
    assert [path.name for path in damaged.iterdir()] == [FILE]


def test_a_repair_leaves_damaged_declarations_out_and_keeps_the_old_file(damaged):
    assert repair_metadata(damaged)
    assert check_metadata(damaged).damaged == []
    assert (damaged / "damaged" / FILE).exists()
    assert not repair_metadata(damaged)


def test_a_file_that_cannot_be_read_is_not_repaired(tmp_path):
    (tmp_path / FILE).write_bytes(b"not a database" * 500)
    assert check_metadata(tmp_path).damaged
    with pytest.raises(StoreError, match="restore it from a copy"):
        repair_metadata(tmp_path)
