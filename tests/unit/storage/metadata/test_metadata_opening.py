"""Opening a metadata file: which files are taken, and what an error says."""

import sqlite3
from contextlib import closing

import pytest

from leveret.storage.metadata.metadata_opening import (
    FORMAT_VERSION,
    MetadataError,
    connect,
    naming_file,
    open_connection,
    prepare_tables,
)
from leveret.storage.metadata.metadata_tables import META, MetaRow, has_tables, read_rows


def opened(path):
    with closing(connect(path)) as connection:
        prepare_tables(connection, path)
        return {row.key: row.value for row in read_rows(connection, META, path)[0]}


def test_a_new_file_gets_tables_a_version_and_an_identity(path):
    facts = opened(path)
    assert facts["format_version"] == FORMAT_VERSION
    assert opened(path) == facts, "it is opened again as it is"


def test_two_files_have_different_identities(path, tmp_path):
    assert opened(path)["identity"] != opened(tmp_path / "other.sqlite")["identity"]


def test_other_users_cannot_read_the_file(path):
    opened(path)
    assert path.stat().st_mode & 0o007 == 0


def test_no_file_is_mapped_whose_writes_need_space_of_a_full_disk(path):
    with closing(connect(path)) as connection, closing(open_connection(path)) as other:
        prepare_tables(connection, path)
        assert has_tables(other)
        connection.execute("DELETE FROM meta")
        assert other.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()[0] == 0
        names = {file.name for file in path.parent.iterdir()}
        assert names == {path.name, f"{path.name}-wal"}, "no -shm, which SQLite maps"


@pytest.mark.parametrize(
    ("statements", "error"),
    [
        (["CREATE TABLE songs (title)"], "does not say which format it has"),
        (["CREATE TABLE meta (key, value)"], "has format none"),
        (
            ["CREATE TABLE meta (key, value)", "INSERT INTO meta VALUES ('format_version', 99)"],
            "has format 99, and this version reads format",
        ),
        (
            ["CREATE TABLE meta (key, value)", "INSERT INTO meta VALUES ('format_version', 5)"],
            "its tables are not those of format 5",
        ),
    ],
)
def test_a_file_with_other_tables_is_refused_and_not_changed(path, statements, error):
    with closing(sqlite3.connect(path)) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()
    with closing(connect(path)) as connection:
        with pytest.raises(MetadataError, match=error):
            prepare_tables(connection, path)
        assert not has_tables(connection)


def test_a_file_of_the_format_before_is_used_as_it_is(path):
    facts = opened(path)
    with closing(connect(path)) as connection:
        connection.execute(META.put, META.to_columns(MetaRow("format_version", 4)))
    assert opened(path) == facts, "the format is that of this version again"


def test_errors_of_the_disk_and_of_the_data_give_different_advice(path):
    with pytest.raises(MetadataError, match="check that the file and its directory"):
        with naming_file(path):
            raise sqlite3.OperationalError("disk I/O error")
    with pytest.raises(MetadataError, match="store repair"):
        with naming_file(path):
            raise sqlite3.DatabaseError("malformed")
