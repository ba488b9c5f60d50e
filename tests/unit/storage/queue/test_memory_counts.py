"""The bytes of memory that all messages take, counted in slices."""

import asyncio

from leveret.storage.messages.message import ENTRY_BYTES
from leveret.storage.queue import memory_counts
from leveret.storage.queue.memory_counts import MemoryCounts
from tests.unit.storage.fake_store import FakeStore, publish

EACH = 1000 + ENTRY_BYTES


def counted(directory, queues, messages=2):
    """Counts of a number of queues with a number of messages each, which are not noted yet."""
    store, counts = FakeStore(directory), MemoryCounts()
    for key in range(queues):
        queue = store.queue()
        queue.key = key
        counts.queues[key] = queue
        publish(queue, *[bytes(1000)] * messages)
    return counts


def test_a_queue_is_counted_by_what_it_holds_now(tmp_path):
    counts = counted(tmp_path, 1)
    queue = counts.queues[0]
    assert counts.note(queue) == counts.held_bytes == 2 * EACH
    queue.fetch(1, True)
    assert counts.note(queue) == counts.held_bytes == counts.unpageable_bytes == EACH


def test_a_deleted_queue_counts_no_more(tmp_path):
    counts = counted(tmp_path, 1)
    queue = counts.queues[0]
    queue.fetch(1, True)
    counts.note(queue)
    counts.forget(queue)
    assert (counts.held_bytes, counts.unpageable_bytes, counts.queues) == (0, 0, {})


async def test_the_loop_runs_while_very_many_queues_are_counted(tmp_path, monkeypatch):
    monkeypatch.setattr(memory_counts, "COUNTED_AT_ONCE", 10)
    counts = counted(tmp_path, 35)
    counting = asyncio.ensure_future(counts.count_all())
    sums = []
    while not counting.done():
        await asyncio.sleep(0)
        sums.append(counts.held_bytes // (2 * EACH))
    assert sums == [10, 20, 30, 35]


async def test_a_queue_that_is_deleted_while_all_are_counted_counts_no_more(tmp_path, monkeypatch):
    monkeypatch.setattr(memory_counts, "COUNTED_AT_ONCE", 1)
    counts = counted(tmp_path, 3)
    counting = asyncio.ensure_future(counts.count_all())
    await asyncio.sleep(0)
    counts.forget(counts.queues[2])
    await counting
    assert counts.held_bytes == 2 * 2 * EACH
