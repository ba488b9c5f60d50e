"""The metadata database: its contents after a restart, a crash and failures."""

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from leveret.storage.metadata import metadata_opening
from leveret.storage.metadata.metadata import Metadata, MetadataError, NoMetadata, SqliteMetadata
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
from leveret.storage.metadata.metadata_tables import META, MetaRow

PROJECT = Path(__file__).parents[4]
NO_ARGUMENTS = b"\0\0\0\0"
PAGE_BYTES = 4096


@pytest.fixture
def not_as_root(tmp_path: Path) -> Iterator[None]:
    """For tests of read-only directories, which root may write nevertheless."""
    tmp_path.chmod(0o500)
    if os.access(tmp_path, os.W_OK):
        pytest.skip("this user may write anywhere")
    tmp_path.chmod(0o700)
    yield
    tmp_path.chmod(0o700)


def after_restart(path: Path) -> Definitions:
    """Return the definitions that a server finds at start."""
    metadata = SqliteMetadata(path)
    try:
        return metadata.load()
    finally:
        metadata.close()


def queue(name: str, vhost: str = "/", arguments: bytes = NO_ARGUMENTS) -> QueueRow:
    return QueueRow(vhost, name, True, False, 7, arguments)


def exchange(name: str, vhost: str = "/", type_name: str = "topic") -> ExchangeRow:
    return ExchangeRow(vhost, name, type_name, True, False, True, NO_ARGUMENTS)


def binding(source: str, kind: str, destination: str, vhost: str = "/") -> BindingRow:
    return BindingRow(vhost, source, kind, destination, "key", NO_ARGUMENTS)


def user(name: str) -> UserRow:
    return UserRow(name, b"\x01\x02\x03\x04hash", "rabbit_password_hashing_sha256", "management")


def declare_one_of_each(metadata: Metadata, vhost: str = "/", name: str = "ann") -> None:
    metadata.put_vhost(VhostRow(vhost, "where the orders are", "production,eu", True))
    metadata.put_user(user(name))
    metadata.put_permission(PermissionRow(vhost, name, "^ann-", ".*", ""))
    metadata.put_topic_permission(TopicPermissionRow(vhost, name, "events", "^eu", "^us"))
    metadata.put_exchange(exchange("events", vhost))
    metadata.put_queue(queue("orders", vhost))
    metadata.put_binding(binding("events", "queue", "orders", vhost))


class TestPuttingAndLoading:
    def test_a_new_file_has_nothing(self, metadata: SqliteMetadata) -> None:
        assert metadata.load() == Definitions()

    def test_what_was_put_comes_back_after_a_restart(
        self, metadata: SqliteMetadata, path: Path
    ) -> None:
        declare_one_of_each(metadata)
        metadata.close()
        assert after_restart(path) == Definitions(
            vhosts=[VhostRow("/", "where the orders are", "production,eu", True)],
            users=[user("ann")],
            permissions=[PermissionRow("/", "ann", "^ann-", ".*", "")],
            topic_permissions=[TopicPermissionRow("/", "ann", "events", "^eu", "^us")],
            exchanges=[exchange("events")],
            queues=[queue("orders")],
            bindings=[binding("events", "queue", "orders")],
        )

    def test_rows_come_back_as_rows_with_their_types(self, metadata: SqliteMetadata) -> None:
        declare_one_of_each(metadata)
        loaded = metadata.load()
        (found,) = loaded.exchanges
        assert type(found) is ExchangeRow
        assert [type(value) for value in found] == [str, str, str, bool, bool, bool, bytes]
        assert type(loaded.vhosts[0].tracing) is bool

    def test_a_vhost_needs_no_more_than_a_name(self, metadata: SqliteMetadata) -> None:
        metadata.put_vhost(VhostRow("/"))
        assert metadata.load().vhosts == [VhostRow("/", "", "", False)]

    @pytest.mark.parametrize(
        "name",
        ["", "orders", "bestellübersicht", "注文 📦", "a\0b", "\udcff\udcfe\0"],
        ids=["empty", "ascii", "latin", "wide", "with NUL", "not UTF-8"],
    )
    def test_any_name_comes_back_as_the_same_string(
        self, name: str, metadata: SqliteMetadata
    ) -> None:
        metadata.put_queue(queue(name))
        metadata.put_queue(queue("another"))
        assert metadata.load().queues == [queue(name), queue("another")]
        metadata.delete_queue("/", name)
        assert metadata.load().queues == [queue("another")]

    def test_bytes_that_look_like_text_stay_bytes(self, metadata: SqliteMetadata) -> None:
        metadata.put_queue(queue("q", arguments=b"text"))
        assert metadata.load().queues == [queue("q", arguments=b"text")]

    def test_replacing_keeps_the_place_among_the_others(self, metadata: SqliteMetadata) -> None:
        for name in ("first", "second", "third"):
            metadata.put_user(user(name))
        changed = user("first")._replace(tags="administrator")
        metadata.put_user(changed)
        assert metadata.load().users == [changed, user("second"), user("third")]

    def test_bindings_that_differ_in_one_thing_are_two(self, metadata: SqliteMetadata) -> None:
        plain = binding("x", "queue", "q")
        rows = [plain, plain._replace(routing_key="other"), plain._replace(arguments=b"\0\0\0\1t")]
        for row in (*rows, plain):
            metadata.put_binding(row)
        assert metadata.load().bindings == rows
        metadata.delete_binding(rows[1])
        assert metadata.load().bindings == [rows[0], rows[2]]


class TestDeleting:
    def test_a_vhost_goes_with_all_in_it(self, metadata: SqliteMetadata) -> None:
        declare_one_of_each(metadata, "/", "ann")
        declare_one_of_each(metadata, "eu", "bob")
        metadata.delete_vhost("/")
        left = metadata.load()
        assert left.users == [user("ann"), user("bob")]
        rows = (
            *left.permissions, *left.topic_permissions, *left.exchanges, *left.queues,
            *left.bindings,
        )  # fmt: skip
        assert len(rows) == 5
        assert {row.vhost for row in rows} == {"eu"}
        assert [row.name for row in left.vhosts] == ["eu"]

    def test_a_user_goes_with_its_permissions(self, metadata: SqliteMetadata) -> None:
        declare_one_of_each(metadata, "/", "ann")
        declare_one_of_each(metadata, "/", "bob")
        metadata.delete_user("ann")
        left = metadata.load()
        assert left.users == [user("bob")]
        assert [row.user for row in left.permissions] == ["bob"]
        assert [row.user for row in left.topic_permissions] == ["bob"]

    def test_a_queue_goes_with_its_bindings(self, metadata: SqliteMetadata) -> None:
        kept = [binding("x", "exchange", "orders"), binding("x", "queue", "others")]
        for row in (*kept, binding("x", "queue", "orders"), binding("y", "queue", "orders")):
            metadata.put_binding(row)
        metadata.put_queue(queue("orders"))
        metadata.delete_queue("/", "orders")
        left = metadata.load()
        assert left.queues == []
        assert left.bindings == kept

    def test_an_exchange_goes_with_the_bindings_from_and_to_it(
        self, metadata: SqliteMetadata
    ) -> None:
        kept = [binding("y", "queue", "x"), binding("x", "queue", "q", vhost="eu")]
        for row in (*kept, binding("x", "queue", "q"), binding("y", "exchange", "x")):
            metadata.put_binding(row)
        metadata.put_exchange(exchange("x"))
        metadata.delete_exchange("/", "x")
        left = metadata.load()
        assert left.exchanges == []
        assert left.bindings == kept

    def test_permissions_on_topics_go_one_by_one_or_together(
        self, metadata: SqliteMetadata
    ) -> None:
        rows = [TopicPermissionRow("/", "ann", name, "", "") for name in ("x", "y", "z")]
        for row in rows:
            metadata.put_topic_permission(row)
        metadata.delete_topic_permission("/", "ann", "y")
        assert metadata.load().topic_permissions == [rows[0], rows[2]]
        metadata.delete_topic_permission("/", "ann", None)
        assert metadata.load().topic_permissions == []

    def test_deleting_a_missing_object_succeeds(self, metadata: SqliteMetadata) -> None:
        metadata.delete_vhost("no")
        metadata.delete_user("no")
        metadata.delete_permission("no", "no")
        metadata.delete_topic_permission("no", "no", "no")
        metadata.delete_exchange("no", "no")
        metadata.delete_queue("no", "no")
        metadata.delete_binding(binding("no", "queue", "no"))


class TestBatches:
    def test_a_batch_is_kept_as_a_whole(self, metadata: SqliteMetadata, path: Path) -> None:
        with metadata.batch():
            declare_one_of_each(metadata)
        assert after_restart(path) == metadata.load()
        assert len(metadata.load().queues) == 1

    def test_nothing_of_a_batch_that_fails_is_kept(self, metadata: SqliteMetadata) -> None:
        metadata.put_queue(queue("before"))
        with pytest.raises(KeyError), metadata.batch():
            metadata.put_queue(queue("in the batch"))
            metadata.delete_queue("/", "before")
            raise KeyError
        metadata.put_queue(queue("after"))
        assert metadata.load().queues == [queue("before"), queue("after")]

    def test_deleting_with_all_that_goes_along_works_in_a_batch(
        self, metadata: SqliteMetadata
    ) -> None:
        declare_one_of_each(metadata)
        with metadata.batch():
            metadata.delete_queue("/", "orders")
            metadata.delete_exchange("/", "events")
            metadata.delete_user("ann")
            metadata.delete_vhost("/")
        assert metadata.load() == Definitions()

    def test_an_error_that_is_not_the_databases_passes_as_it_is(
        self, metadata: SqliteMetadata
    ) -> None:
        with pytest.raises(FileNotFoundError), metadata.batch():
            raise FileNotFoundError


class TestCheckpoints:
    """A copy of the database file without its log shows what the file itself contains."""

    @staticmethod
    def queues_without_the_log(path: Path) -> int:
        copy = path.with_name("copy.sqlite")
        shutil.copy(path, copy)
        return len(after_restart(copy).queues)

    @staticmethod
    def checkpoint_in_a_thread(metadata: Metadata) -> None:
        thread = threading.Thread(target=metadata.checkpoint)
        thread.start()
        thread.join()

    def test_only_a_checkpoint_writes_to_the_database_file(
        self, metadata: SqliteMetadata, path: Path
    ) -> None:
        self.checkpoint_in_a_thread(metadata)
        for number in range(1200):  # SQLite by itself would start one after 1,000 pages
            metadata.put_queue(queue(f"q{number}"))
        assert self.queues_without_the_log(path) == 0
        self.checkpoint_in_a_thread(metadata)
        assert self.queues_without_the_log(path) == 1200

    def test_the_log_is_used_again_after_a_checkpoint(
        self, metadata: SqliteMetadata, path: Path
    ) -> None:
        log = path.with_name(path.name + "-wal")
        sizes = []
        for _ in range(3):
            for number in range(100):
                metadata.put_queue(queue(f"q{number}", arguments=b"\0\0\0\1t"))
            self.checkpoint_in_a_thread(metadata)
            sizes.append(log.stat().st_size)
        assert sizes[1] == sizes[2]

    def test_a_long_log_is_cut_after_a_checkpoint(
        self, path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(metadata_opening, "LOG_BYTES_KEPT", 100_000)
        metadata = SqliteMetadata(path)
        metadata.load()
        log = path.with_name(path.name + "-wal")
        for number in range(100):
            metadata.put_queue(queue(f"q{number}"))
        assert log.stat().st_size > 400_000
        self.checkpoint_in_a_thread(metadata)
        metadata.put_queue(queue("after"))
        assert log.stat().st_size == 100_000
        assert len(metadata.load().queues) == 101
        metadata.close()

    def test_a_batch_that_is_open_does_not_hold_it_up(
        self, metadata: SqliteMetadata, path: Path
    ) -> None:
        metadata.put_queue(queue("before"))
        with metadata.batch():
            metadata.put_queue(queue("in the batch"))
            self.checkpoint_in_a_thread(metadata)
            assert self.queues_without_the_log(path) == 1
        assert len(metadata.load().queues) == 2

    def test_it_does_not_make_a_file_that_was_taken_away(
        self, metadata: SqliteMetadata, path: Path
    ) -> None:
        path.unlink()
        with pytest.raises(MetadataError, match="unable to open"):
            metadata.checkpoint()
        assert not path.exists()

    def test_closing_leaves_a_single_file(self, metadata: SqliteMetadata, path: Path) -> None:
        metadata.put_queue(queue("q"))
        metadata.close()
        assert [file.name for file in path.parent.iterdir()] == [path.name]


def start(script: str, path: Path) -> subprocess.Popen[str]:
    """Start a process that uses the file and reports its progress on its output."""
    preamble = (
        "import sys; from pathlib import Path; from leveret.storage.metadata.metadata import *; "
    )
    preamble += "from leveret.storage.metadata.metadata_rows import *\n"
    return subprocess.Popen(
        [sys.executable, "-c", preamble + script, str(path)],
        cwd=PROJECT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


PUT_WITHOUT_END = """
metadata = SqliteMetadata(Path(sys.argv[1]))
for number in range(1_000_000):
    metadata.put_queue(QueueRow("/", f"q{number}", True, False, number, bytes(4)))
    print(number, flush=True)
"""
PUT_IN_A_BATCH = """
metadata = SqliteMetadata(Path(sys.argv[1]))
metadata.put_vhost(VhostRow("/"))
with metadata.batch():
    for number in range(1000):
        metadata.put_queue(QueueRow("/", f"q{number}", True, False, number, bytes(4)))
    print("in the batch", flush=True)
    sys.stdin.read()
"""
PUT_UNTIL_THE_FILE_IS_FULL = """
import resource
metadata = SqliteMetadata(Path(sys.argv[1]))
resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, 400_000))
number = 0
try:
    while True:
        metadata.put_queue(QueueRow("/", f"q{number}", True, False, number, bytes(4)))
        number += 1
except MetadataError as error:
    print(number)
    print(error)
"""


class TestCrashes:
    def test_kill_9_loses_nothing_that_returned(self, path: Path) -> None:
        with start(PUT_WITHOUT_END, path) as process:
            assert process.stdout is not None
            for _ in range(500):
                process.stdout.readline()
            process.send_signal(signal.SIGKILL)
            returned = 500 + len(process.stdout.readlines())
        assert process.returncode == -signal.SIGKILL
        names = [row.name for row in after_restart(path).queues]
        assert names == [f"q{number}" for number in range(len(names))]
        # One more may have been stored before the process could report it.
        assert returned <= len(names) <= returned + 1

    def test_kill_9_in_a_batch_leaves_nothing_of_it(self, path: Path) -> None:
        with start(PUT_IN_A_BATCH, path) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "in the batch\n"
            process.send_signal(signal.SIGKILL)
        assert after_restart(path) == Definitions(vhosts=[VhostRow("/")])

    def test_a_full_disk_loses_nothing_that_returned(self, path: Path) -> None:
        with start(PUT_UNTIL_THE_FILE_IS_FULL, path) as process:
            assert process.stdout is not None
            returned = int(process.stdout.readline())
            reason = process.stdout.readline()
        assert str(path) in reason
        assert "check that the file and its directory may be written" in reason
        assert len(after_restart(path).queues) == returned > 0


class TestMishaps:
    @staticmethod
    def error_of(path: Path) -> str:
        with pytest.raises(MetadataError) as caught:
            after_restart(path)
        return str(caught.value)

    def test_a_file_that_is_no_database(self, path: Path) -> None:
        path.write_bytes(b"Dear diary, " * 1000)
        assert self.error_of(path) == (
            f"the metadata in {path} cannot be used: file is not a database; the file is damaged: "
            f"save what can be read with `leveret store repair {path.parent}`, restore it from a "
            "copy, or move it away to start with nothing"
        )
        assert path.read_bytes() == b"Dear diary, " * 1000

    def test_a_file_with_damaged_pages(self, metadata: SqliteMetadata, path: Path) -> None:
        for number in range(2000):
            metadata.put_queue(queue(f"q{number}"))
        metadata.close()
        data = bytearray(path.read_bytes())
        for page in range(20 * PAGE_BYTES, len(data), PAGE_BYTES):
            data[page : page + 100] = b"\xff" * 100
        path.write_bytes(data)
        assert f"the metadata in {path} cannot be used" in self.error_of(path)
        assert "restore it from a copy" in self.error_of(path)

    def test_a_file_of_a_later_version(self, metadata: SqliteMetadata, path: Path) -> None:
        metadata.close()
        connection = sqlite3.connect(path)
        with connection:
            connection.execute(META.put, META.to_columns(MetaRow("format_version", 99)))
        connection.close()
        assert self.error_of(path) == (
            f"{path} has format 99, and this version reads format 5: "
            "start the version of Leveret that wrote it, or move the file away"
        )

    def test_a_database_of_another_program_is_left_as_it_is(self, path: Path) -> None:
        connection = sqlite3.connect(path)
        with connection:
            connection.execute("CREATE TABLE songs (title)")
        connection.close()
        assert self.error_of(path) == (
            f"{path} does not say which format it has, so this version of Leveret did not write "
            "it: move the file away, or choose another data directory"
        )
        connection = sqlite3.connect(path)
        tables = connection.execute("SELECT name FROM sqlite_master").fetchall()
        connection.close()
        assert tables == [("songs",)]

    def test_a_directory_that_is_missing(self, tmp_path: Path) -> None:
        path = tmp_path / "missing" / "metadata.sqlite"
        assert self.error_of(path) == (
            f"the metadata in {path} cannot be used: No such file or directory; check that the "
            "file and its directory may be written and that the disk has room"
        )

    @pytest.mark.usefixtures("not_as_root")
    def test_a_directory_that_may_not_be_written(self, tmp_path: Path, path: Path) -> None:
        tmp_path.chmod(0o500)
        assert f"the metadata in {path} cannot be used: Permission denied" in self.error_of(path)

    @pytest.mark.usefixtures("not_as_root")
    def test_a_file_in_a_directory_that_may_not_be_written(
        self, metadata: SqliteMetadata, tmp_path: Path, path: Path
    ) -> None:
        metadata.close()
        tmp_path.chmod(0o500)
        assert f"the metadata in {path} cannot be used" in self.error_of(path)
        assert "check that the file and its directory may be written" in self.error_of(path)

    def test_operations_after_closing(self, metadata: SqliteMetadata) -> None:
        metadata.close()
        with pytest.raises(MetadataError, match="closed"):
            metadata.put_vhost(VhostRow("/"))


class TestSecrets:
    def test_only_the_owner_may_read_the_file_and_its_log(
        self, metadata: SqliteMetadata, path: Path
    ) -> None:
        metadata.put_user(user("ann"))
        modes = {file.name: file.stat().st_mode & 0o777 for file in path.parent.iterdir()}
        assert path.name in modes
        assert all(mode & 0o007 == 0 for mode in modes.values()), modes

    def test_a_row_does_not_show_the_password_hash(self) -> None:
        assert repr(user("ann")) == "UserRow(name='ann', tags='management')"


class TestNoMetadata:
    def test_nothing_is_kept(self) -> None:
        metadata: Metadata = NoMetadata()
        with metadata.batch():
            declare_one_of_each(metadata)
        metadata.delete_vhost("/")
        metadata.checkpoint()
        metadata.close()
        assert metadata.load() == Definitions()

    @pytest.mark.parametrize("implementation", [NoMetadata, SqliteMetadata])
    def test_no_operation_is_missing(self, implementation: type[Any]) -> None:
        operations = {name for name in vars(Metadata) if not name.startswith("_")}
        assert operations <= set(dir(implementation))
