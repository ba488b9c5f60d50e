"""Writing a queue's messages to segments in slices, and removing segments."""

from unittest.mock import patch

import pytest

from leveret.storage.messages.formats import decode_state, read_record
from leveret.storage.messages.intervals import NO_POSITION
from leveret.storage.messages.message import ENTRY_BYTES
from leveret.storage.queue import segment_slices
from leveret.storage.segments import ledger, segments
from tests.call_counts import calls_of
from tests.unit.storage.fake_store import (
    TRANSIENT,
    positions,
    publish,
    publish_numbered,
    write_slice,
)


@pytest.fixture
def queue(store):
    queue = store.queue()
    publish_numbered(queue, 6)
    store.log.write()
    return queue


def test_slices_go_along_the_positions(store, queue):
    first = write_slice(store, queue, 2 * ENTRY_BYTES)
    assert (positions(first.entries), first.end) == ([0, 1], 2)
    rest = write_slice(store, queue)
    assert (positions(rest.entries), rest.end) == ([2, 3, 4, 5], 6)
    assert write_slice(store, queue) is None
    assert (queue.ledger.flushed_to, queue.ledger.segment_bytes) == (6, 6)


def test_messages_that_are_gone_are_not_written(store, queue):
    entries = queue.fetch(4, True)
    queue.ack(entries[1:3])
    assert positions(write_slice(store, queue).entries) == [0, 3, 4, 5]


def test_what_goes_while_it_is_written_is_not_counted(store, queue):
    found = queue.plan_slice(1 << 20, 6)
    queue.ack(queue.fetch(2, True))
    queue.slice_written(found)
    assert queue.ledger.segment_bytes == 4


def test_a_state_does_not_count_what_a_failed_write_left(store, queue):
    write_slice(store, queue, 2 * ENTRY_BYTES)
    before = decode_state(read_record(queue.encode_state(), 0).head)
    assert queue.plan_slice(1 << 20, 6) is not None
    after = decode_state(read_record(queue.encode_state(), 0).head)
    assert (after.tail_number, after.tail_bytes) == (before.tail_number, before.tail_bytes)
    assert after.tail_bytes < queue.writer.tail_bytes


def test_a_slice_is_not_written_again_from_before(store, queue):
    found = write_slice(store, queue)
    with pytest.raises(AssertionError, match="SL1"):
        queue.slice_written(found._replace(end=3))


def test_segments_with_messages_that_are_not_persistent_are_noted(store, queue):
    publish(queue, b"transient", header=TRANSIENT)
    store.log.write()
    write_slice(store, queue)
    assert queue.ledger.transient_segments == {0}


def test_a_segment_is_removed_when_all_its_positions_are_gone(store):
    with (
        patch.object(ledger, "SEGMENT_POSITIONS", 4),
        patch.object(segments, "SEGMENT_POSITIONS", 4),
    ):
        queue = store.queue()
        publish_numbered(queue, 10)
        store.log.write()
        write_slice(store, queue)
        assert queue.writer.numbers == {0, 1, 2}
        queue.ack(queue.fetch(5, True))
        assert store.removed == []
        store.log.write()
        assert store.removed == ["0000000000.segment"]
        assert queue.has_segments


@pytest.mark.parametrize("is_durable", [True, False])
def test_a_slice_of_a_long_queue_is_planned_at_once(store, is_durable):
    """In a turn of the event loop: the calls do not grow with the queue."""
    queue = store.queue(is_durable)
    for _ in range(40):
        publish(queue, *[b""] * 5000)
    store.log.write()
    slices = []
    assert calls_of(lambda: slices.append(queue.plan_slice(10_000, NO_POSITION))) < 30_000
    assert positions(slices[0].entries) == list(range(len(slices[0].entries)))


def test_the_rest_of_a_queue_is_found_in_windows(store, monkeypatch):
    monkeypatch.setattr(segment_slices, "WINDOW_POSITIONS", 10)
    monkeypatch.setattr(segment_slices, "WINDOWS_MAX", 3)
    queue = store.queue()
    publish_numbered(queue, 200)
    entries = queue.fetch(195, True)
    queue.ack([entry for entry in entries if entry.position not in (77, 150)])
    store.log.write()
    written = []
    while (found := write_slice(store, queue)) is not None:
        written += positions(found.entries)
    assert written == [77, 150, 195, 196, 197, 198, 199]
