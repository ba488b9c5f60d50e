"""Damage to the metadata file and its log is always detected."""

import random
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from leveret.storage.metadata.metadata import MetadataError, SqliteMetadata
from leveret.storage.metadata.metadata_rows import (
    BindingRow,
    Definitions,
    ExchangeRow,
    PermissionRow,
    QueueRow,
    TopicPermissionRow,
    UserRow,
    VhostRow,
)

FLIPS = 300
EMPTY = bytes(4)


def beside(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)


def declare(metadata: SqliteMetadata, count: int = 12) -> None:
    metadata.put_vhost(VhostRow("/"))
    metadata.put_user(UserRow("ann", b"\1\2\3\4hash", "rabbit_password_hashing_sha256", "admin"))
    metadata.put_permission(PermissionRow("/", "ann", ".*", ".*", ".*"))
    metadata.put_topic_permission(TopicPermissionRow("/", "ann", "events", "^eu", "^us"))
    metadata.put_exchange(ExchangeRow("/", "events", "topic", True, False, True, EMPTY))
    for number in range(count):
        storage_id = metadata.new_storage_id()
        metadata.put_queue(QueueRow("/", f"q{number}", True, False, storage_id, EMPTY))
        metadata.put_binding(BindingRow("/", "events", "queue", f"q{number}", "key", EMPTY))
    metadata.delete_queue("/", "q1")


def load(path: Path) -> Definitions:
    metadata = SqliteMetadata(path)
    try:
        return metadata.load()
    finally:
        metadata.close()


def rows_of(definitions: Definitions) -> Definitions:
    return Definitions(**{**vars(definitions), "damaged": []})


def killed(path: Path, copy_to: Path, prepare: Callable[[SqliteMetadata], None]) -> Definitions:
    """Copy the files that `kill -9` leaves, and return their definitions."""
    metadata = SqliteMetadata(path)
    try:
        prepare(metadata)
        for file in path.parent.glob("metadata.sqlite*"):
            shutil.copy(file, copy_to)
        return metadata.load()
    finally:
        metadata.close()


def check_every_flip(crashed: Path, work: Path, name: str, expected: Definitions) -> list[str]:
    """Flip bits of a file, one at a time. Returns what was reported or refused."""
    random_ = random.Random(name)
    original = (crashed / name).read_bytes()
    places = {random_.randrange(len(original)) for _ in range(FLIPS)}
    # Headers of the file, its pages and the log's frames are small and the most important.
    places.update(
        range(0, 120, 3), range(4096, 4096 + 12), range(len(original) - 24, len(original))
    )
    complaints = []
    for place in sorted(place for place in places if place < len(original)):
        shutil.rmtree(work, ignore_errors=True)
        shutil.copytree(crashed, work)
        data = bytearray(original)
        data[place] ^= 1 << random_.randrange(8)
        (work / name).write_bytes(data)
        found = load_or_complaint(work / "metadata.sqlite")
        if isinstance(found, str):
            complaints.append(found)
            continue
        if rows_of(found) != expected:
            assert found.damaged, f"bit flip at {place} of {name} is silent"
        complaints += found.damaged
    assert all(str(work) in complaint for complaint in complaints)
    return complaints


def load_or_complaint(path: Path) -> Definitions | str:
    try:
        return load(path)
    except MetadataError as error:
        return str(error)


class TestFlippedBits:
    def test_of_the_database_file(self, path: Path, tmp_path: Path) -> None:
        crashed = tmp_path / "crashed"
        crashed.mkdir()

        def prepare(metadata: SqliteMetadata) -> None:
            declare(metadata, 60)
            metadata.checkpoint()

        expected = killed(path, crashed, prepare)
        beside(crashed / "metadata.sqlite", "-wal").unlink()
        assert check_every_flip(crashed, tmp_path / "work", "metadata.sqlite", expected)

    def test_of_the_database_file_after_a_clean_stop(self, path: Path, tmp_path: Path) -> None:
        metadata = SqliteMetadata(path)
        declare(metadata, 60)
        expected = metadata.load()
        metadata.close()
        stopped = tmp_path / "stopped"
        stopped.mkdir()
        shutil.copy(path, stopped)
        assert check_every_flip(stopped, tmp_path / "work", "metadata.sqlite", expected)

    def test_of_the_log(self, path: Path, tmp_path: Path) -> None:
        crashed = tmp_path / "crashed"
        crashed.mkdir()
        expected = killed(path, crashed, declare)
        assert expected.damaged == []
        complaints = check_every_flip(crashed, tmp_path / "work", "metadata.sqlite-wal", expected)
        assert any("changes are missing" in complaint for complaint in complaints)

    def test_of_a_log_that_was_begun_again(self, path: Path, tmp_path: Path) -> None:
        crashed = tmp_path / "crashed"
        crashed.mkdir()

        def prepare(metadata: SqliteMetadata) -> None:
            declare(metadata, 20)
            metadata.checkpoint()
            metadata.delete_queue("/", "q2")

        expected = killed(path, crashed, prepare)
        check_every_flip(crashed, tmp_path / "work", "metadata.sqlite-wal", expected)

    def test_of_the_witness_change_nothing(self, path: Path, tmp_path: Path) -> None:
        crashed = tmp_path / "crashed"
        crashed.mkdir()
        expected = killed(path, crashed, declare)
        name = "metadata.sqlite-witness"
        assert check_every_flip(crashed, tmp_path / "work", name, expected) == []


class TestRows:
    @staticmethod
    def edit(path: Path, statement: str) -> None:
        connection = sqlite3.connect(path)
        with connection:
            connection.execute(statement)
        connection.close()

    @pytest.fixture
    def declared(self, path: Path) -> Definitions:
        metadata = SqliteMetadata(path)
        declare(metadata, 3)
        metadata.close()
        return load(path)

    @pytest.mark.parametrize(
        "change",
        ["durable = 0", "durable = 2", "arguments = CAST(arguments AS TEXT)", "storage_id = 1.0",
         "checksum = checksum + 1", "auto_delete = 'x'"],
    )  # fmt: skip
    def test_a_row_that_was_changed_is_left_out(
        self, change: str, path: Path, declared: Definitions
    ) -> None:
        # The trigger treats this as a change, so the totals are correct.
        self.edit(path, f"UPDATE queues SET {change} WHERE name = 'q2'")
        found = load(path)
        assert found.queues == declared.queues[:1]
        assert found.bindings == declared.bindings
        assert found.damaged == [
            f"{path}: a row of queues is damaged and left out: vhost '/', name 'q2'"
        ]

    def test_a_row_under_another_name_is_left_out(self, path: Path, declared: Definitions) -> None:
        self.edit(path, "UPDATE queues SET name = CAST(x'FF00' AS TEXT) WHERE name = 'q2'")
        found = load(path)
        assert found.queues == declared.queues[:1]
        assert found.damaged == [
            f"{path}: a row of queues is damaged and left out: vhost '/', name '\\udcff\\x00'"
        ]

    def test_a_damaged_row_that_is_declared_again_is_whole(
        self, path: Path, declared: Definitions
    ) -> None:
        self.edit(path, "UPDATE queues SET durable = 0 WHERE name = 'q2'")
        metadata = SqliteMetadata(path)
        metadata.put_queue(declared.queues[1])
        assert metadata.load() == declared
        metadata.close()

    def test_rows_that_are_missing_are_counted(self, path: Path, declared: Definitions) -> None:
        self.edit(path, "UPDATE totals SET row_count = 9 WHERE number = 6")
        found = load(path)
        assert rows_of(found) == declared
        assert found.damaged == [
            f"{path}: the table queues is damaged: it should hold 9 rows, and 2 were found"
        ]

    def test_rows_as_they_were_before_are_seen(self, path: Path, declared: Definitions) -> None:
        self.edit(path, "UPDATE totals SET checksums = checksums + 1 WHERE number = 6")
        assert load(path).damaged == [
            f"{path}: the table queues is damaged: its 2 rows are not all those that were last "
            "written"
        ]

    def test_a_file_without_its_tables_is_not_taken_for_a_new_one(
        self, path: Path, declared: Definitions
    ) -> None:
        data = bytearray(path.read_bytes())
        data[103:105] = bytes(2)  # the number of cells on the schema's page
        path.write_bytes(data)
        with pytest.raises(MetadataError, match="store repair"):
            load(path)


class TestLostLogs:
    def test_the_last_frame_is_missed(self, path: Path, tmp_path: Path) -> None:
        crashed = tmp_path / "crashed"
        crashed.mkdir()
        killed(path, crashed, declare)
        copy = crashed / "metadata.sqlite"
        log = beside(copy, "-wal")
        log.write_bytes(log.read_bytes()[:-1])
        # The last operation deleted a queue and its binding: two rows.
        assert load(copy).damaged == [
            f"{copy}: the last changes are missing (2 rows put or deleted), because {log} is "
            "damaged or was removed"
        ]

    def test_after_a_power_cut_only_what_was_synced_is_missed(
        self, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        crashed = tmp_path / "crashed"
        crashed.mkdir()

        logs = [tmp_path / name for name in ("before the sync", "after the sync")]

        def prepare(metadata: SqliteMetadata) -> None:
            shutil.copy(beside(path, "-wal"), logs[0])
            metadata.put_vhost(VhostRow("synced"))
            metadata.sync()
            shutil.copy(beside(path, "-wal"), logs[1])
            metadata.put_vhost(VhostRow("not synced"))

        killed(path, crashed, prepare)
        monkeypatch.setattr(
            "leveret.storage.metadata.metadata_witness._read_boot_id", lambda: b"another boot"
        )
        found = []
        for log in logs:
            work = tmp_path / log.name.replace(" ", "-")
            shutil.copytree(crashed, work)
            shutil.copy(log, work / "metadata.sqlite-wal")
            found.append(load(work / "metadata.sqlite"))
        assert "missing (1 rows put or deleted)" in found[0].damaged[0]
        assert found[1] == Definitions(vhosts=[VhostRow("synced")])

    def test_a_new_file_is_not_measured_by_the_old_ones_witness(
        self, path: Path, tmp_path: Path
    ) -> None:
        crashed = tmp_path / "crashed"
        crashed.mkdir()
        killed(path, crashed, declare)
        copy = crashed / "metadata.sqlite"
        copy.unlink()
        beside(copy, "-wal").unlink()
        assert load(copy) == Definitions()
