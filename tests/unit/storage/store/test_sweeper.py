"""The sweeper: which bodies are freed, and what is on disk before (rule W1)."""

import asyncio
from types import SimpleNamespace

import pytest

from leveret.storage.bodies.message_store import MessageStore
from leveret.storage.disk.disk import StoreError
from leveret.storage.disk.file_reads import FileReads
from leveret.storage.disk.unsynced_files import UnsyncedFiles
from leveret.storage.messages.message import Entry
from leveret.storage.segments.ledger import Ledger
from leveret.storage.segments.segments import SegmentWriter
from leveret.storage.store.sweeper import Sweeper
from tests.unit.storage.fakes import LogUnderTest, persistent, write_out


@pytest.fixture
async def rig(tmp_path):
    for name in ("log", "bodies"):
        (tmp_path / name).mkdir()
    rig = LogUnderTest(tmp_path / "log")
    rig.bodies = MessageStore(tmp_path / "bodies", rig.disk, FileReads(rig.disk))
    rig.writer = SegmentWriter(tmp_path / "256")
    rig.messages = persistent(b"x" * 50, b"y" * 50, b"z" * 50)
    writes = [rig.bodies.plan(message) for message in rig.messages]
    entries = [Entry(message, position) for position, message in enumerate(rig.messages)]
    write_out(rig.disk, writes + rig.writer.plan(entries, [0, 0, 0], 256))
    rig.ledger = ledger = Ledger(256)
    rig.gone = ledger.gone
    queue = SimpleNamespace(writer=rig.writer, ledger=ledger)
    pager = SimpleNamespace(lock=asyncio.Lock(), queues={256: queue})
    rig.sweeper = Sweeper(UnsyncedFiles(tmp_path, rig.disk), rig.bodies, rig.log, pager, rig.worker)
    rig.freed = []
    rig.disk.punch = lambda descriptor, start, end: rig.freed.append((start, end))
    rig.disk.done.clear()
    return rig


async def sweep(rig):
    task = asyncio.ensure_future(rig.sweeper.sweep())
    while not task.done():
        await asyncio.sleep(0)
        rig.worker.work()
    await task


async def test_bodies_at_positions_that_are_gone_are_freed(rig):
    rig.gone.add(0)
    rig.ledger.fresh.add(2)
    assert rig.ledger.take_progress() is not None
    # This is not recorded yet.
    rig.ledger.fresh.add(1)
    await sweep(rig)
    assert rig.freed == [(40, 90), (140, 190)]
    assert rig.bodies.total_bytes == 50


async def test_a_file_without_needed_bodies_is_removed(rig):
    rig.gone.add_range(0, 3)
    await sweep(rig)
    assert rig.disk.done[-1] == ("remove", "0000000001.bodies")


async def test_w1_the_log_is_synced_before_anything_is_freed(rig):
    rig.gone.add_range(0, 3)
    rig.client.append(b"progress")
    await sweep(rig)
    assert rig.disk.done.index(("sync", "0000000001.log")) < len(rig.disk.done) - 1


async def test_w1_messages_gone_after_the_copy_wait_for_the_next_sweep(rig):
    rig.gone.add(0)
    sync = rig.log.sync

    syncs = []

    async def consume_and_sync():
        syncs.append("sync")
        if len(syncs) == 2:
            rig.gone.add(1)
        await sync()

    rig.log.sync = consume_and_sync
    await sweep(rig)
    assert rig.freed == [(40, 90)]


async def test_a_segment_that_cannot_be_read_ends_the_sweep(rig, caplog):
    rig.gone.add_range(0, 3)
    rig.disk.read_all = lambda path: (_ for _ in ()).throw(StoreError("cannot read the segment"))
    await sweep(rig)
    assert rig.freed == []
    assert "ended without freeing anything: cannot read the segment" in caplog.text


async def test_no_sweep_is_made_while_files_are_kept_for_a_repair(rig):
    rig.sweeper.is_allowed = False
    await rig.sweeper.sweep_if_wanted(bytes_min=-1)
    assert rig.disk.done == []


async def test_no_sweep_is_made_without_garbage(rig):
    await rig.sweeper.sweep_if_wanted()
    assert rig.disk.done == []
