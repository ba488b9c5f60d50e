"""Removing segments and directories: what is on disk before (rules RM1 and RM2)."""

import asyncio
import os
from types import SimpleNamespace

import pytest

from leveret.storage.disk.unsynced_files import UnsyncedFiles
from leveret.storage.store.removal import Removal
from tests.unit.storage.fakes import LogUnderTest


@pytest.fixture
async def rig(tmp_path):
    (tmp_path / "log").mkdir()
    rig = LogUnderTest(tmp_path / "log")
    metadata = SimpleNamespace(sync=lambda: rig.disk.done.append(("sync", "metadata")))
    loop = asyncio.get_running_loop()
    rig.files = UnsyncedFiles(tmp_path, rig.disk)
    rig.removal = Removal(rig.files, rig.worker, rig.log, metadata, loop)
    rig.directory = tmp_path / "256"
    rig.directory.mkdir()
    rig.segment = rig.directory / "0.segment"
    rig.segment.write_bytes(b"data")
    yield rig
    rig.files.close()


async def test_d1_segments_of_a_durable_queue_go_after_a_sync_of_the_log(rig):
    removed = []
    rig.client.append(b"progress")
    rig.removal.remove_segments([rig.segment], True, lambda: removed.append(rig.segment))
    assert rig.worker.jobs == []
    await rig.write()
    rig.worker.work()
    assert not rig.segment.exists()
    assert removed == [rig.segment]
    steps = [step for step in rig.disk.done if step[0] != "write"]
    assert steps == [
        ("sync", "metadata"), ("sync", "0000000001.log"), ("remove", "0.segment"), ("sync", "256"),
    ]  # fmt: skip


@pytest.mark.parametrize("what", ["segment", "directory"])
async def test_a_removed_file_that_waits_for_a_sync_is_closed(rig, what):
    with rig.files.opened(rig.segment, False) as descriptor:
        pass
    if what == "segment":
        rig.removal.remove_segments([rig.segment], False, lambda: None)
    else:
        rig.removal.remove_directory(rig.directory)
        await asyncio.sleep(0)
    os.fstat(descriptor)
    rig.worker.work()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)


async def test_segments_of_other_queues_go_at_once(rig):
    rig.removal.remove_segments([rig.segment], False, lambda: None)
    rig.worker.work()
    assert not rig.segment.exists()


async def test_d2_directories_go_after_one_sync_of_the_metadata(rig):
    other = rig.directory.with_name("512")
    rig.removal.remove_directory(rig.directory)
    rig.removal.remove_directory(other)
    await asyncio.sleep(0)
    rig.worker.work()
    assert not rig.directory.exists()
    assert rig.disk.done[0] == ("sync", "metadata")
    assert rig.disk.done.count(("sync", "metadata")) == 1


async def test_a_file_that_cannot_be_removed_is_reported(rig, caplog):
    removed = []
    rig.removal.remove_segments([rig.directory], False, lambda: removed.append(rig.directory))
    rig.worker.work()
    assert removed == [rig.directory]
    assert "failed to remove an unneeded file: cannot remove" in caplog.text
