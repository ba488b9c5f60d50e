"""What messages took on disk is given back when they have gone, though nothing new is written."""

import asyncio

import pytest

from leveret.broker.amqp.content_header import read_header
from leveret.storage.log.log_files import LOW_SHARE, RESERVED_BYTES
from leveret.storage.messages.message import Address, Message
from leveret.storage.messages.message_run import run_of
from leveret.storage.metadata.metadata import NoMetadata
from leveret.storage.segments import ledger, segments
from leveret.storage.store import reclaiming
from leveret.storage.store import store as store_module
from leveret.storage.store.reclaiming import GARBAGE_BYTES_MIN, LOG_BYTES_MIN
from leveret.storage.store.store import Store
from tests.patience import until
from tests.storage.machine import PERSISTENT
from tests.storage.reading import ready_entries

ADDRESS = Address("", "q", b"\0\1q")
KILOBYTE, MEGABYTE = 1024, 1024 * 1024
LEFT_BYTES_MAX = RESERVED_BYTES + RESERVED_BYTES // LOW_SHARE + 64 * KILOBYTE
"""The newest log file has space that is allocated ahead, and so has the next one."""


@pytest.fixture(autouse=True)
def _often(monkeypatch):
    monkeypatch.setattr(store_module, "CHECK_SECONDS", 0.01)


def started(directory, **options):
    store = Store(directory, NoMetadata(), read_header, **options)
    # Readers wait for the disk.
    store.reads.worker = None
    store.open()
    store.queues = [
        store.queue(1, 0, "durable", True, False),
        store.queue(0, 0, "transient", False, False),
    ]
    store.all_restored()
    return store


def disk_bytes(directory):
    return sum(path.stat().st_blocks * 512 for path in directory.rglob("*") if path.is_file())


def publish(queue, count, size=KILOBYTE):
    for _ in range(count):
        queue.publish(run_of([Message(ADDRESS, PERSISTENT, bytes(size))]), 0)


def consume_all(queue):
    queue.ack(queue.fetch(queue.ready_count, True))


async def a_few_looks(store):
    looks, look = [], store.reclaiming.look

    def counted():
        looks.append("look")
        look()

    store.reclaiming.look = counted
    await until(lambda: len(looks) > 5)


async def page_out(store, queue):
    await store.log.sync()
    await store.pager.move_out([(queue, queue.next_position)])
    queue.page_out(1 << 30)
    assert queue.delta.count == queue.ready_count


async def test_an_idle_empty_node_has_a_small_log(tmp_path):
    store = started(tmp_path)
    durable, _ = store.queues
    publish(durable, 4000)
    await store.log.sync()
    assert disk_bytes(tmp_path / "log") > 4 * MEGABYTE
    consume_all(durable)
    await until(lambda: disk_bytes(tmp_path) < LEFT_BYTES_MAX)
    await store.close()


@pytest.mark.parametrize("which", [0, 1], ids=["durable", "not durable"])
async def test_an_empty_queue_has_no_segments(tmp_path, which):
    store = started(tmp_path)
    queue = store.queues[which]
    for _ in range(3):
        publish(queue, 3000)
        await page_out(store, queue)
        assert queue.writer.numbers
        consume_all(queue)
        await until(lambda: not list(tmp_path.rglob("*.segment")))
        assert not queue.writer.numbers
    publish(queue, 10)
    await page_out(store, queue)
    assert len(ready_entries(queue)) == 10
    await store.close()
    store = started(tmp_path)
    assert len(ready_entries(store.queues[which])) == (0 if which else 10)
    await store.close()


async def test_segments_behind_a_message_that_is_left_are_removed(tmp_path, monkeypatch):
    for module in (ledger, segments):
        monkeypatch.setattr(module, "SEGMENT_POSITIONS", 64)
    store = started(tmp_path)
    durable, _ = store.queues
    publish(durable, 150, size=10)
    await page_out(store, durable)
    first = durable.fetch(1, True)
    durable.ack(durable.fetch(139, True))
    await until(lambda: durable.writer.numbers == {0, 2})
    await until(lambda: len(list(tmp_path.rglob("*.segment"))) == 2)
    durable.requeue(first)
    assert len(ready_entries(durable)) == durable.ready_count
    await store.close()


async def test_segments_survive_restarts_after_the_last_one_was_removed(tmp_path, monkeypatch):
    for module in (ledger, segments):
        monkeypatch.setattr(module, "SEGMENT_POSITIONS", 64)
    store = started(tmp_path)
    durable, _ = store.queues
    publish(durable, 192, size=10)
    await page_out(store, durable)
    durable.fetch(128, True)
    durable.ack(durable.fetch(64, True))
    await until(lambda: durable.writer.numbers == {0, 1})
    for _ in range(3):
        # Every file of the log before this one is replaced by the queue's state.
        await store._retirement.retire_all()
        await store.close()
        store = started(tmp_path)
        assert len(ready_entries(store.queues[0])) == 128
    await store.close()


@pytest.mark.parametrize("restarts", [False, True])
async def test_an_idle_empty_node_has_no_large_bodies(tmp_path, restarts):
    store = started(tmp_path)
    durable, _ = store.queues
    publish(durable, 300, size=10 * KILOBYTE)
    await page_out(store, durable)
    assert disk_bytes(tmp_path / "bodies") > GARBAGE_BYTES_MIN
    if restarts:
        store.reclaiming.run = lambda: asyncio.sleep(0)
        consume_all(durable)
        await store.close()
        store = started(tmp_path)
    else:
        consume_all(durable)
    await until(lambda: disk_bytes(tmp_path / "bodies") == 0)
    await until(lambda: disk_bytes(tmp_path) < LEFT_BYTES_MAX)
    await store.close()


async def test_what_a_crash_left_of_the_log_is_read_once(tmp_path):
    store = started(tmp_path)
    durable, _ = store.queues
    publish(durable, 4000)
    await store.log.sync()
    consume_all(durable)
    store.reclaiming.run = lambda: asyncio.sleep(0)
    await store.close()
    store = started(tmp_path)
    await until(lambda: len(list(tmp_path.rglob("*.log"))) == 1)
    await store.close()
    assert disk_bytes(tmp_path / "log") < LEFT_BYTES_MAX


async def test_a_busy_node_gives_space_back_while_its_disk_is_short(tmp_path, monkeypatch):
    monkeypatch.setattr(reclaiming, "QUIET_BYTES", 0)
    store = started(tmp_path)
    durable, _ = store.queues
    publish(durable, 4000)
    await store.log.sync()
    consume_all(durable)
    await a_few_looks(store)
    assert disk_bytes(tmp_path / "log") > 4 * MEGABYTE
    store.set_disk_short(True)
    await until(lambda: disk_bytes(tmp_path) < LEFT_BYTES_MAX)
    await store.close()


async def test_a_log_of_messages_that_are_there_stays(tmp_path):
    store = started(tmp_path)
    durable, _ = store.queues
    publish(durable, 4000)
    await store.log.sync()
    await a_few_looks(store)
    assert not list(tmp_path.rglob("*.segment"))
    assert store._log_files.total_bytes > LOG_BYTES_MIN
    await store.close()
