"""Messages that are on disk only: put out, read back a run at a time, and lost."""

import logging

import pytest

from leveret.storage.messages.intervals import NO_POSITION
from leveret.storage.messages.message import Entry
from tests.storage.reading import ready_entries
from tests.unit.storage.fake_store import (
    EMBED_BELOW,
    bodies,
    page_out,
    positions,
    publish,
    publish_numbered,
    write_slice,
)


@pytest.fixture
def queue(store):
    return store.queue()


def test_a_message_comes_back_as_it_was(store, queue):
    publish(queue, b"one", b"two", expires_at_ms=5, number=77)
    page_out(store, queue)
    delta = queue.delta
    assert (delta.count, delta.size, delta.first) == (2, 6, 0)
    one, two = delta.read(NO_POSITION)
    assert bodies([one, two]) == [b"one", b"two"]
    assert (one.expires_at_ms, one.message.number, two.message.number) == (5, 77, 78)
    assert (delta.count, delta.size, delta.reads) == (0, 0, 2)


def test_only_entries_in_segments_are_put_out(queue):
    publish(queue, b"one")
    with pytest.raises(AssertionError, match="E2"):
        queue.delta.put_out(queue.fetch(1, True))


def test_a_run_is_read_at_a_time(store, queue):
    publish_numbered(queue, 5)
    publish_numbered(queue, 5, expires_at_ms=9)
    page_out(store, queue)
    assert positions(queue.delta.read(NO_POSITION)) == [0, 1, 2, 3, 4]
    assert queue.delta.read(5) == []
    assert positions(queue.delta.read(NO_POSITION)) == [5, 6, 7, 8, 9]


def test_large_bodies_follow_their_messages(store, queue):
    publish(queue, *[bytes([number]) * EMBED_BELOW for number in range(3)])
    page_out(store, queue)
    assert store.bodies.writes == 3
    entries = queue.delta.read(NO_POSITION)
    assert bodies(entries) == [bytes([number]) * EMBED_BELOW for number in range(3)]
    assert all(entry.message.stored is not None for entry in entries)


def test_single_messages_are_taken_out_of_the_middle(store, queue):
    publish_numbered(queue, 10)
    page_out(store, queue)
    entries = ready_entries(queue)
    gone = Entry(entries[0].message, 20)
    assert positions(queue.delta.take([entries[3], entries[4], entries[8], gone])) == [3, 4, 8]
    assert queue.delta.count == 7
    assert positions(queue.delta.read(NO_POSITION)) == [0, 1, 2, 5, 6, 7, 9]


def test_a_damaged_message_is_lost_and_the_others_come_back(store, queue, caplog):
    publish_numbered(queue, 3)
    page_out(store, queue)
    path = queue.writer.path(0)
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    with caplog.at_level(logging.ERROR):
        assert bodies(queue.fetch(3, True)) == [b"0", b"1"]
    assert (queue.ready_count, queue.delta.count) == (0, 0)
    assert "message 2 of queue 'q', of 1 bytes, is lost" in caplog.text


def test_a_segment_with_a_damaged_header_is_named(store, queue, caplog):
    publish_numbered(queue, 3)
    page_out(store, queue)
    path = queue.writer.path(0)
    path.write_bytes(b"x" + path.read_bytes()[1:])
    with caplog.at_level(logging.ERROR):
        assert queue.fetch(3, True) == []
    assert f"3 messages of queue 'q' are lost, from the rest of {path}" in caplog.text


def test_a_missing_segment_loses_its_messages_and_no_others(store, queue):
    publish_numbered(queue, 3)
    store.log.write()
    write_slice(store, queue)
    queue.page_out(1 << 20)
    publish_numbered(queue, 2)
    queue.writer.path(0).unlink()
    assert positions(queue.fetch(5, True)) == [3, 4]
    assert queue.ready_count == 0


def test_ranges_that_are_on_disk_only(store, queue):
    publish_numbered(queue, 6)
    page_out(store, queue)
    queue.delta.take(ready_entries(queue)[2:3])
    assert queue.delta.next_range(0) == (0, 2)
    assert queue.delta.next_range(2) == (3, 6)
    assert queue.delta.next_range(6) == (NO_POSITION, NO_POSITION)
