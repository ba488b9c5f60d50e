"""Ready entries move between memory and disk and keep their order."""

import pytest

from tests.unit.storage.fake_store import page_out, positions, publish_numbered


@pytest.fixture
def queue(store):
    queue = store.queue()
    publish_numbered(queue, 10)
    return queue


def test_the_tail_is_q4_until_something_is_on_disk_only(store, queue):
    order, memory = queue._order, queue._memory
    assert order.tail is memory.q4
    page_out(store, queue)
    assert order.is_split
    assert order.tail is memory.q1.tail
    queue.fetch(10, False)
    assert queue.peek() is None
    assert order.tail is memory.q4


def test_a_fetch_goes_across_memory_and_disk(store, queue):
    page_out(store, queue, 1500)
    publish_numbered(queue, 3)
    assert queue.delta.count == 6
    assert positions(queue.fetch(12, True)) == list(range(12))
    assert positions(queue.fetch(12, True)) == [12]


def test_what_came_back_and_was_paged_out_does_not_let_later_entries_pass(store, queue):
    entries = queue.fetch(6, True)
    queue.requeue(entries)
    page_out(store, queue, 1)
    page_out(store, queue)
    page_out(store, queue)
    assert queue.delta.count == 10
    assert positions(queue.fetch(10, True)) == list(range(10))


def test_runs_on_disk_come_before_what_was_published_behind_them(store):
    queue = store.queue()
    publish_numbered(queue, 2)
    publish_numbered(queue, 2, expires_at_ms=9)
    page_out(store, queue, 0)
    entries = queue.fetch(4, True)
    publish_numbered(queue, 2)
    queue.requeue(entries)
    queue.page_out(1 << 20)
    assert positions(queue._memory) == [4, 5]
    assert positions(queue.fetch(6, True)) == [0, 1, 2, 3, 4, 5]


def test_heads_says_where_the_first_entry_is_without_reading_it(store, queue):
    (head,) = queue.heads()
    assert (head.position, head.entry.position) == (0, 0)
    page_out(store, queue)
    assert queue.heads() == [(0, 0, None)]
    assert store.disk_reads == 0


def test_fetchable_reads_a_run_at_most(store, queue):
    assert queue.fetchable(100) == 10
    page_out(store, queue)
    publish_numbered(queue, 5)
    assert queue.fetchable(100) == 15
    assert store.disk_reads == 10
