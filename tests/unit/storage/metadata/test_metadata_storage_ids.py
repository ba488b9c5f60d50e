"""Storage ids are assigned once, and changes can be detected and synced."""

import os
import shutil
import sqlite3
import tempfile
from pathlib import Path

import pytest

from leveret.storage.metadata import metadata as metadata_module
from leveret.storage.metadata.metadata import MetadataError, NoMetadata, SqliteMetadata
from leveret.storage.metadata.metadata_rows import Definitions, ParameterRow, QueueRow, VhostRow
from leveret.storage.metadata.metadata_tables import META, MetaRow

EMPTY = bytes(4)


@pytest.fixture
def syncs(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The synced files. fdatasync is for files, not for their directory."""
    done: list[Path] = []
    sync = os.fdatasync

    def note(descriptor: int) -> None:
        done.append(Path(os.readlink(f"/proc/self/fd/{descriptor}")))
        sync(descriptor)

    monkeypatch.setattr(os, "fdatasync", note)
    return done


def restarted_after_power_cut(path: Path) -> SqliteMetadata:
    """The metadata from a copy of their files."""
    copy = Path(tempfile.mkdtemp(dir=path.parent))
    for file in path.parent.glob("metadata.sqlite*"):
        shutil.copy(file, copy)
    return SqliteMetadata(copy / path.name)


class TestStorageIds:
    def test_they_go_on_after_a_restart(self, path: Path) -> None:
        handed_out = []
        for _ in range(3):
            metadata = SqliteMetadata(path)
            metadata.load()
            handed_out += [metadata.new_storage_id() for _ in range(5)]
            metadata.close()
        assert handed_out[:5] == [1, 2, 3, 4, 5]
        assert handed_out == sorted(set(handed_out))

    def test_they_are_reserved_with_the_syncs_of_others(
        self, metadata: SqliteMetadata, syncs: list[Path], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(metadata_module, "_IDS_RESERVED", 100)
        metadata.reserve_storage_ids()
        metadata.sync()
        syncs.clear()
        for _ in range(20):
            for _ in range(50):
                metadata.new_storage_id()
            assert syncs == []
            metadata.sync()
            syncs.clear()
        assert metadata.new_storage_id() == 1001

    def test_very_many_between_two_syncs_are_reserved_at_once(
        self, metadata: SqliteMetadata, path: Path, syncs: list[Path]
    ) -> None:
        metadata.reserve_storage_ids()
        metadata.sync()
        syncs.clear()
        with metadata.batch():
            numbers = [metadata.new_storage_id() for _ in range(metadata_module._IDS_RESERVED + 1)]
            assert syncs == []
        assert len(syncs) == 1
        assert restarted_after_power_cut(path).new_storage_id() > max(numbers)

    def test_those_of_a_batch_that_fails_are_not_handed_out_again(
        self, metadata: SqliteMetadata
    ) -> None:
        with pytest.raises(KeyError), metadata.batch():
            assert metadata.new_storage_id() == 1
            raise KeyError
        assert metadata.new_storage_id() == 2

    def test_a_batch_without_them_syncs_nothing(
        self, metadata: SqliteMetadata, syncs: list[Path]
    ) -> None:
        metadata.new_storage_id()
        syncs.clear()
        with metadata.batch():
            metadata.put_vhost(VhostRow("/"))
        assert syncs == []

    def test_one_may_be_asked_to_be_above_another(self, metadata: SqliteMetadata) -> None:
        assert metadata.new_storage_id(above=5000) == 5001
        assert metadata.new_storage_id(above=20) == 5002

    def test_a_damaged_mark_is_reported_and_the_queues_numbers_count(self, path: Path) -> None:
        metadata = SqliteMetadata(path)
        metadata.put_queue(QueueRow("/", "q", True, False, 4000, EMPTY))
        metadata.new_storage_id()
        metadata.close()
        connection = sqlite3.connect(path)
        with connection:
            connection.execute("UPDATE meta SET value = 7 WHERE key = 'storage_ids_below'")
        connection.close()
        metadata = SqliteMetadata(path)
        (complaint,) = metadata.load().damaged
        assert "a row of meta is damaged and left out: key 'storage_ids_below'" in complaint
        assert metadata.new_storage_id() == 4001
        assert metadata.load().damaged == []
        metadata.close()

    def test_without_metadata_they_count_from_one(self) -> None:
        metadata = NoMetadata()
        numbers = [metadata.new_storage_id(), metadata.new_storage_id()]
        assert [*numbers, metadata.new_storage_id(above=9)] == [1, 2, 10]
        assert NoMetadata().new_storage_id() == 1


class TestChanges:
    def test_each_change_counts_when_it_is_committed(self, metadata: SqliteMetadata) -> None:
        before = metadata.changes
        metadata.put_vhost(VhostRow("/"))
        assert metadata.changes == before + 1
        with metadata.batch():
            metadata.put_vhost(VhostRow("eu"))
            assert metadata.changes == before + 1
        assert metadata.changes == before + 2

    def test_what_changes_nothing_does_not_count(self, metadata: SqliteMetadata) -> None:
        before = metadata.changes
        metadata.delete_vhost("no")
        with pytest.raises(KeyError), metadata.batch():
            metadata.put_vhost(VhostRow("/"))
            raise KeyError
        assert metadata.changes == before

    def test_the_count_is_the_files(self, metadata: SqliteMetadata, path: Path) -> None:
        metadata.put_vhost(VhostRow("/"))
        metadata.delete_vhost("/")
        metadata.close()
        again = SqliteMetadata(path)
        assert again.changes == metadata.changes
        again.close()

    def test_a_sync_that_fails_names_the_log(
        self, metadata: SqliteMetadata, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fail(descriptor: int) -> None:
            raise OSError(5, "Input/output error")

        monkeypatch.setattr(os, "fdatasync", fail)
        with pytest.raises(MetadataError, match="sqlite-wal cannot be synced: Input/output error"):
            metadata.sync()


OLD_TABLES = {
    "meta": "key PRIMARY KEY NOT NULL, value NOT NULL",
    "vhosts": "name PRIMARY KEY, description, tags, tracing",
    "users": "name PRIMARY KEY, password_hash, hashing_algorithm, tags",
    "permissions": "vhost, user, configure, write, read",
    "topic_permissions": "vhost, user, exchange, write, read",
    "exchanges": "vhost, name, type, durable, auto_delete, internal, arguments",
    "bindings": "vhost, source, destination_kind, destination, routing_key, arguments",
}


class TestOldFormats:
    def test_a_file_of_format_3_gets_parameters_and_keeps_its_rows(self, path: Path) -> None:
        metadata = SqliteMetadata(path)
        metadata.put_vhost(VhostRow("/"))
        metadata.close()
        connection = sqlite3.connect(path, isolation_level=None)
        connection.execute("DROP TABLE parameters")
        connection.execute("DELETE FROM totals WHERE number = 8")
        connection.execute(META.put, META.to_columns(MetaRow("format_version", 3)))
        connection.close()
        metadata = SqliteMetadata(path)
        metadata.put_parameter(ParameterRow("/", "policy", "p", "{}"))
        found = metadata.load()
        assert (found.vhosts, found.damaged) == ([VhostRow("/")], [])
        assert found.parameters == [ParameterRow("/", "policy", "p", "{}")]
        metadata.close()

    @pytest.mark.parametrize("version", [1, 2])
    def test_an_older_file_gets_checksums_and_ids(self, version: int, path: Path) -> None:
        connection = sqlite3.connect(path)
        for name, columns in OLD_TABLES.items():
            connection.execute(f"CREATE TABLE {name} ({columns})")
        id_column, ids = ("", ("", "")) if version == 1 else ("storage_id, ", ("7, ", "3, "))
        connection.execute(
            f"CREATE TABLE queues (vhost, name, durable, auto_delete, {id_column}arguments)"
        )
        with connection:
            connection.execute("INSERT INTO meta VALUES ('format_version', ?)", (version,))
            connection.execute("INSERT INTO vhosts VALUES ('/', '', '', 0)")
            for name, id_ in zip(("a", "b"), ids, strict=True):
                connection.execute(
                    f"INSERT INTO queues VALUES ('/', '{name}', 1, 0, {id_}x'00000000')"
                )
        connection.close()
        metadata = SqliteMetadata(path)
        first, second = (1, 2) if version == 1 else (7, 3)
        assert metadata.load() == Definitions(
            vhosts=[VhostRow("/")],
            queues=[
                QueueRow("/", "a", True, False, first, EMPTY),
                QueueRow("/", "b", True, False, second, EMPTY),
            ],
        )
        assert metadata.new_storage_id() == max(first, second) + 1
        metadata.close()
