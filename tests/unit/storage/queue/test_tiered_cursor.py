"""Looking into a queue that is in memory and on disk."""

import pytest

from leveret.storage.messages.message import ENTRY_BYTES
from tests.unit.storage.fake_store import (
    EMBED_BELOW,
    bodies,
    page_out,
    positions,
    publish,
    publish_numbered,
)


@pytest.fixture
def queue(store):
    """0 to 3 in memory, 4 to 9 on disk only, 10 and 11 in memory."""
    queue = store.queue()
    publish_numbered(queue, 10)
    page_out(store, queue, 1500)
    publish_numbered(queue, 2)
    assert queue.delta.count == 6
    return queue


def test_everything_is_read_in_order_and_stays(queue, store):
    cursor = queue.cursor()
    assert positions(cursor.read(1 << 20)) == list(range(12))
    assert cursor.read(1 << 20) == []
    assert (queue.delta.count, queue.ready_count, store.disk_reads) == (6, 12, 0)


def test_a_cursor_sees_what_the_queue_is_when_it_reads(queue):
    cursor = queue.cursor()
    assert positions(cursor.read(2 * ENTRY_BYTES)) == [0, 1]
    entries = queue.fetch(8, True)
    publish_numbered(queue, 1)
    queue.requeue([entries[1], entries[6]])
    assert positions(cursor.read(1 << 20)) == [6, 8, 9, 10, 11, 12]


def test_a_deleted_queue_has_nothing_to_read(queue):
    cursor = queue.cursor()
    cursor.read(5 * ENTRY_BYTES)
    queue.delete()
    assert cursor.read(1 << 20) == []
    cursor.close()


def test_large_bodies_are_read_by_their_size(store):
    queue = store.queue()
    publish(queue, *[bytes([number]) * EMBED_BELOW for number in range(5)])
    page_out(store, queue)
    cursor = queue.cursor()
    assert len(cursor.read(2 * (EMBED_BELOW + ENTRY_BYTES))) == 2
    assert store.bodies.reads == 2


def test_what_cannot_be_read_is_passed_over_and_not_lost_yet(queue):
    path = queue.writer.path(0)
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    assert bodies(queue.cursor(8).read(1 << 20)) == [b"8", b"10", b"11"]
    path.unlink()
    assert bodies(queue.cursor(2).read(1 << 20)) == [b"2", b"3", b"10", b"11"]
    assert (queue.ready_count, queue.delta.count) == (12, 6)
