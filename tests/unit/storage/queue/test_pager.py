"""The pager keeps queues within the node's memory."""

import asyncio

import pytest

from leveret.storage.disk.disk import DiskFull, Space
from leveret.storage.disk.unsynced_files import UnsyncedFiles
from leveret.storage.disk.worker import Worker
from leveret.storage.messages.message import ENTRY_BYTES
from leveret.storage.queue.pager import OVERFULL, ROOM_BYTES, Pager
from tests.patience import until
from tests.unit.storage.fake_store import FakeStore, publish

BODY = bytes(1000)
EACH = 1000 + ENTRY_BYTES


@pytest.fixture
async def worker():
    worker = Worker(asyncio.get_running_loop(), "test-pager")
    yield worker
    worker.stop()


@pytest.fixture
async def store(tmp_path):
    store = FakeStore(tmp_path)
    store.embed_below = 1 << 20
    return store


@pytest.fixture
async def files(store, tmp_path):
    files = UnsyncedFiles(tmp_path, store.disk)
    yield files
    files.close()


@pytest.fixture
async def pager(store, worker, files):
    async def sync_log():
        store.log.write()

    failures = []
    pager = Pager(files, worker, sync_log, failures.append)
    pager.start()
    yield pager
    pager.task.cancel()
    assert failures == []


def queue_of(store, pager, key=256, count=0, is_durable=True):
    queue = store.queue(is_durable)
    queue.key = key
    pager.queues[key] = queue
    publish(queue, *[BODY] * count)
    pager.note(queue)
    return queue


async def test_messages_above_the_budget_go_to_disk(store, pager):
    pager.set_budget(1000 * EACH)
    queue = queue_of(store, pager, count=900)
    await asyncio.sleep(0)
    assert queue.delta.count == 0
    publish(queue, *[BODY] * 900)
    pager.note(queue)
    await until(lambda: pager.held_bytes <= pager.allowed_bytes)
    assert queue.delta.count >= 800
    assert queue.pageable_bytes <= 1000 * EACH


async def test_publishers_are_held_back_while_the_disk_is_behind(store, pager):
    changes = []
    pager.overfull_changed = lambda: changes.append(pager.is_overfull)
    pager.set_budget(100 * EACH)
    queue_of(store, pager, count=int(100 * OVERFULL) + 2)
    assert pager.is_overfull
    await until(lambda: not pager.is_overfull)
    assert changes == [True, False]


async def test_a_lazy_queue_is_on_disk_whatever_the_budget_is(store, pager):
    queue = queue_of(store, pager, count=500)
    queue.is_lazy = True
    pager.note(queue)
    await until(lambda: queue.delta.count > 400)
    assert pager.held_bytes == queue.pageable_bytes


async def test_moving_out_of_a_log_file_leaves_messages_in_memory(store, pager):
    queue = queue_of(store, pager, count=20)
    store.log.write()
    await pager.move_out([(queue, 10)])
    assert (queue.ledger.flushed_to, queue.delta.count) == (10, 0)


async def test_without_room_nothing_is_planned_that_waits(store, pager, monkeypatch):
    """A slice that waits for room would keep the log file although its messages are consumed."""
    queue = queue_of(store, pager, count=20)
    other = queue_of(store, pager, key=512, count=20)
    store.log.write()
    pager.is_disk_full = True
    monkeypatch.setattr(store.disk, "space", lambda directory: Space(1 << 40, ROOM_BYTES - 1))
    queue.fetch(10, ack_required=False)
    with pytest.raises(DiskFull, match="wait for room"):
        await pager.move_out([(queue, 15), (other, 20)])
    assert (queue.ledger.flushed_to, other.ledger.flushed_to) == (10, 0)
    other.purge()
    queue.fetch(10, ack_required=False)
    await pager.move_out([(queue, 15), (other, 20)])
    assert not queue.has_segments
    assert not other.has_segments


async def test_with_room_messages_are_moved_out_on_a_full_disk(store, pager, monkeypatch):
    queue = queue_of(store, pager, count=20)
    store.log.write()
    pager.is_disk_full = True
    monkeypatch.setattr(store.disk, "space", lambda directory: Space(1 << 40, ROOM_BYTES))
    await pager.move_out([(queue, 15)])
    assert queue.ledger.flushed_to == 15


async def test_a_deleted_queue_counts_no_more(store, pager):
    queue = queue_of(store, pager, count=20)
    assert pager.held_bytes == 20 * EACH
    pager.forget(queue)
    assert (pager.held_bytes, pager.queues) == (0, {})
