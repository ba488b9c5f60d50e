"""Writing a queue's messages to segments in slices, and removing segments."""

from unittest.mock import patch

import pytest

from leveret.storage import ledger, segments
from leveret.storage.message import ENTRY_BYTES
from tests.unit.storage.fake_store import (
    TRANSIENT,
    FakeStore,
    positions,
    publish,
    publish_numbered,
    write_slice,
)


@pytest.fixture
def store(tmp_path):
    return FakeStore(tmp_path)


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


def test_what_is_gone_is_not_written(store, queue):
    entries = queue.fetch(4, True)
    queue.ack(entries[1:3])
    assert positions(write_slice(store, queue).entries) == [0, 3, 4, 5]


def test_what_goes_while_it_is_written_is_not_counted(store, queue):
    found = queue.plan_slice(1 << 20, 6)
    queue.ack(queue.fetch(2, True))
    queue.slice_written(found)
    assert queue.ledger.segment_bytes == 4


def test_a_slice_is_not_written_again_from_before(store, queue):
    found = write_slice(store, queue)
    with pytest.raises(AssertionError, match="V1"):
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
