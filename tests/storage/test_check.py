"""`leveret store check` finds damage, and `leveret store repair` moves damaged parts away."""

import sqlite3

import pytest
from typer.testing import CliRunner

from leveret.mgmt.cli.application import app
from leveret.storage.check.check import check_store
from leveret.storage.check.repair import repair_store
from leveret.storage.disk.data_directory import DataDirectoryLock
from leveret.storage.log.retirement import FILES_KEPT
from leveret.storage.messages.message import Message
from leveret.storage.messages.message_run import run_of
from leveret.storage.metadata.metadata import SqliteMetadata
from leveret.storage.metadata.metadata_rows import QueueRow, VhostRow
from leveret.storage.retained.retained_file import RETAINED_FILE, RetainedFile
from leveret.storage.retained.retained_rows import RetainedRow
from leveret.storage.retained.retained_transaction import Change, RetainedLimits
from leveret.storage.retained.topic_keys import key_of
from leveret.storage.store import store as store_module
from tests.patience import until
from tests.storage.files_by_hand import bodies, log, segment, state, stored
from tests.storage.machine import ADDRESSES, Machine
from tests.storage.machine import PERSISTENT as HEADER
from tests.storage.test_damage import FILES, stopped_store


@pytest.fixture(autouse=True)
def _small_segments_stay(small_segments, monkeypatch):
    # What the tests damage is still there when the store is stopped, on a slow machine, too.
    monkeypatch.setattr(store_module, "CHECK_SECONDS", 1000)


def problems(directory):
    return check_store(directory).problems


async def stopped_with_large_bodies_on_disk(directory):
    machine = Machine(directory, 1)
    machine.start()
    lazy = machine.queues[3]
    for _ in range(150):
        lazy.publish(run_of([Message(ADDRESSES[0], HEADER, bytes(1000))]), 0)
        await machine.store.log.sync()
    # The log no longer has any of them when its first files are retired.
    files = machine.store._log_files
    await until(lambda: lazy.delta.count and len(files.files) <= FILES_KEPT)
    await machine.store.close()


async def test_a_store_that_was_stopped_has_no_problems(tmp_path):
    await stopped_store(tmp_path)
    seen = []
    report = check_store(tmp_path, None, lambda done, total: seen.append((done, total)))
    assert report.problems == []
    assert {file.path.suffix for file in report.files} == {".log", ".segment", ".bodies"}
    assert sum(file.counts.get("messages", 0) for file in report.files) > 100
    assert seen[-1][0] == seen[-1][1] > 0


async def test_a_damaged_body_in_the_message_store_is_found(tmp_path):
    await stopped_with_large_bodies_on_disk(tmp_path)
    for path in tmp_path.glob(FILES[2]):
        data = path.read_bytes()
        path.write_bytes(data[:40] + bytes(byte ^ 255 for byte in data[40:]))
    assert any(".bodies" in problem for problem in problems(tmp_path))
    assert repair_store(tmp_path).files
    assert problems(tmp_path) == []


def run(command, directory):
    outcome = CliRunner().invoke(app, ["store", command, str(directory)])
    return outcome.exit_code, outcome.output


def test_the_commands_check_the_declared_queues(tmp_path):
    messages = stored((1, 40, b"body"), (2, 40, b"gone"))
    log(tmp_path, 1, state(2, messages, gone=[(1, 2)]), state(2, messages, key=2 * 256))
    segment(tmp_path, messages)
    path = bodies(tmp_path, 1, b"body")
    metadata = SqliteMetadata(tmp_path / "metadata.sqlite")
    metadata.put_vhost(VhostRow("/"))
    metadata.put_queue(QueueRow("/", "one", True, False, 1, b""))
    metadata.close()
    code, output = run("check", tmp_path)
    assert (code, "0 problems" in output) == (0, True)
    assert "0 files were repaired" in run("repair", tmp_path)[1]
    path.unlink()
    code, output = run("check", tmp_path)
    assert code == 1
    assert "1 of its messages: each needs" in output
    assert "undamaged parts were kept" in run("repair", tmp_path)[1]
    assert run("check", tmp_path)[0] == 0


def test_the_command_needs_a_directory(tmp_path):
    outcome = CliRunner().invoke(app, ["store", "check", str(tmp_path / "none")])
    assert outcome.exit_code == 2
    assert "there is no directory" in outcome.output


def test_the_command_refuses_a_node_that_runs(tmp_path):
    lock = DataDirectoryLock(tmp_path)
    lock.acquire()
    outcome = CliRunner().invoke(app, ["store", "repair", str(tmp_path)])
    lock.release()
    assert outcome.exit_code == 2
    assert "in use by another server" in outcome.output


def test_retained_messages_are_checked_and_repaired(tmp_path):
    file = RetainedFile(tmp_path / RETAINED_FILE, forget_after_ms=1000)
    row = RetainedRow(b"/", key_of("a/b"), 1, "n@h", is_message=True, payload=b"20")
    file.apply([Change(row)], RetainedLimits())
    file.close()
    metadata = SqliteMetadata(tmp_path / "metadata.sqlite")
    metadata.load()
    metadata.close()
    connection = sqlite3.connect(tmp_path / RETAINED_FILE)
    with connection:
        connection.execute("UPDATE rows SET payload = x'21'")
    connection.close()
    code, output = run("check", tmp_path)
    assert (code, "    the row of topic 'a/b' is damaged" in output) == (1, True)
    code, output = run("repair", tmp_path)
    assert (code, "undamaged retained messages were kept; the original is in" in output) == (
        0,
        True,
    )
    code, output = run("check", tmp_path)
    assert (code, "retained.sqlite: " in output) == (0, True)
