"""Retiring log files: what is on disk before a file is removed (rule LG5)."""

import asyncio

import pytest

from leveret.storage.disk.disk import DiskFull
from leveret.storage.log.retirement import FILES_KEPT, Retirement, needs
from tests.unit.storage.fakes import LogUnderTest, NotesClient


@pytest.fixture
async def rig(tmp_path):
    rig = LogUnderTest(tmp_path, file_bytes_max=250)
    rig.retirement = Retirement(rig.log, rig.files, rig.disk, rig.worker)
    while not rig.retirement.is_due:
        rig.client.append(b"x" * 100)
        await rig.write()
    rig.disk.done.clear()
    return rig


async def retire(rig):
    task = asyncio.ensure_future(rig.retirement.retire_oldest())
    while not task.done():
        await asyncio.sleep(0)
        rig.worker.work()
    await task


async def test_the_newest_files_stay(rig):
    assert len(rig.files.files) == FILES_KEPT + 1
    await retire(rig)
    assert not rig.retirement.is_due
    assert [file.number for file in rig.files.files] == [2, 3, 4]


async def test_l5_the_replacement_is_synced_before_the_oldest_record_and_both_before_removal(rig):
    rig.client.needs_from = 1
    await retire(rig)
    assert rig.client.moves == [1]
    steps = [what for what, name in rig.disk.done if name.endswith(".log") and what != "create"]
    # A file header may be written, too, so repeated writes count as one.
    steps = [step for step, before in zip(steps, [None, *steps], strict=False) if step != before]
    assert steps == ["write", "sync", "write", "sync", "remove"]


async def test_a_file_stays_while_a_full_disk_has_no_room_for_its_messages(rig, monkeypatch):
    async def move_on(file):
        raise DiskFull("no room")

    rig.client.needs_from = 1
    monkeypatch.setattr(rig.client, "move_on", move_on)
    assert not await rig.retirement.retire_oldest()
    assert not await rig.retirement.retire_all()
    assert [file.number for file in rig.files.files] == [1, 2, 3, 4]
    monkeypatch.undo()
    await retire(rig)
    assert [file.number for file in rig.files.files] == [2, 3, 4]


async def test_a_client_that_does_not_need_the_file_is_not_asked(rig):
    rig.client.needs_from = 2
    await retire(rig)
    assert rig.client.moves == []


async def test_l5_a_client_that_did_not_move_on_keeps_its_file(rig):
    class Stubborn(NotesClient):
        async def move_on(self, file):
            """Stay."""

    stubborn = Stubborn(rig.log, "stubborn", 101)
    stubborn.needs_from = 1
    rig.log.register(stubborn)
    with pytest.raises(AssertionError, match="LG5: stubborn"):
        await retire(rig)
    assert rig.files.files[0].path.exists()


async def test_l5_a_client_that_needs_the_file_again_keeps_it(rig):
    sync, syncs = rig.log.sync, []

    async def sync_and_need_again():
        await sync()
        syncs.append(1)
        if len(syncs) == 2:
            rig.client.needs_from = 1

    rig.log.sync = sync_and_need_again
    with pytest.raises(AssertionError, match="needs .* again"):
        await retire(rig)
    assert rig.files.files[0].path.exists()


async def test_a_client_needs_a_file_if_it_needs_an_older_one(rig):
    first, second = rig.files.files[:2]
    rig.client.needs_from = 1
    assert needs(rig.client, first)
    assert needs(rig.client, second)
    rig.client.needs_from = 2
    assert not needs(rig.client, first)
    rig.client.needs_from = None
    assert not needs(rig.client, second)
