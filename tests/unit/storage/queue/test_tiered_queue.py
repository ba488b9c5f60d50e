"""The tiered queue: what it tells the log and the pager, and what a restart gives it."""

import random

import pytest

from leveret.storage.messages.formats import StateRecord
from leveret.storage.messages.intervals import NO_POSITION, Intervals
from leveret.storage.messages.message import ENTRY_BYTES, Entry, Message
from tests.call_counts import calls_of
from tests.unit.storage.fake_store import (
    ADDRESS,
    PERSISTENT,
    TRANSIENT,
    page_out,
    positions,
    publish,
    publish_numbered,
    write_slice,
)


class TestTheLog:
    def test_it_has_the_persistent_messages_of_a_durable_queue(self, store):
        queue = store.queue()
        assert publish(queue, b"1", b"2", expires_at_ms=5)
        assert not publish(queue, b"3", header=TRANSIENT)
        assert not publish(store.queue(is_durable=False), b"4")
        assert store.queue_log.runs == [(0, 2, store.wall_offset_ms + 5)]

    def test_it_is_told_once_a_batch_that_something_changed(self, store):
        queue = store.queue()
        publish_numbered(queue, 5)
        queue.ack(queue.fetch(2, True))
        queue.fetch(1, False)
        assert store.queue_log.dirty == [queue]
        store.log.write()
        assert queue.are_gone(0, 3)
        assert not queue.are_gone(0, 4)
        assert queue.take_progress() is None

    def test_segments_have_nothing_that_the_log_has_not(self, store):
        queue = store.queue()
        publish_numbered(queue, 2)
        assert queue.waits_for_log
        assert write_slice(store, queue) is None
        store.log.write()
        publish_numbered(queue, 2)
        assert write_slice(store, queue).end == 2

    def test_a_state_is_needed_once_something_is_in_segments(self, store):
        queue = store.queue()
        publish_numbered(queue, 2)
        assert queue.encode_state() is None
        page_out(store, queue)
        assert queue.encode_state() is not None


class TestThePager:
    def test_it_knows_what_could_be_on_disk_only(self, store):
        queue = store.queue()
        publish_numbered(queue, 4)
        assert (queue.pageable_bytes, queue.unpageable_bytes) == (4 * (1 + ENTRY_BYTES), 0)
        queue.fetch(1, True)
        assert queue.pageable_bytes == 3 * (1 + ENTRY_BYTES)
        page_out(store, queue)
        assert (queue.pageable_bytes, queue.unpageable_bytes) == (0, 1 + ENTRY_BYTES)

    def test_a_queue_that_is_not_durable_keeps_no_ledger_before_it_goes_to_disk(self, store):
        queue = store.queue(is_durable=False)
        publish_numbered(queue, 6)
        one, two = queue.fetch(2, True)
        queue.ack([one])
        assert not queue.ledger.fresh
        page_out(store, queue)
        assert list(queue.ledger.gone) == [(0, 2)]
        queue.requeue([two])
        assert queue.page_out(1 << 20) == 0
        assert positions(queue.fetch(9, True)) == [1, 2, 3, 4, 5]

    def test_a_deleted_queue_has_nothing_to_write(self, store):
        queue = store.queue()
        publish_numbered(queue, 2)
        store.log.write()
        queue.delete()
        assert store.forgotten == [queue]
        assert queue.plan_slice(1 << 20, NO_POSITION) is None
        assert (queue.ready_count, queue.delta.count) == (0, 0)


class TestPositionsOfAnotherQueue:
    def test_an_empty_queue_leaves_none_out(self, store):
        queue = store.queue(is_durable=False)
        queue.go_on_at(7)
        publish_numbered(queue, 3)
        page_out(store, queue)
        assert positions(queue.fetch(9, False)) == [7, 8, 9]
        queue.leave_segments()
        assert queue.next_position == 10

    def test_those_that_are_left_out_before_it_goes_to_disk_are_gone(self, store):
        queue = store.queue(is_durable=False)
        publish_numbered(queue, 1)
        queue.go_on_at(100_000)
        publish_numbered(queue, 1)
        page_out(store, queue)
        assert list(queue.ledger.gone) == [(1, 100_000)]
        assert positions(queue.fetch(9, False)) == [0, 100_000]


class TestARestart:
    def test_what_segments_and_the_log_have_is_ready_again(self, store):
        queue = store.queue()
        publish_numbered(queue, 6)
        queue.ack(queue.fetch(2, True))
        page_out(store, queue)

        again = store.queue()
        again.writer.numbers, again.writer.number = queue.writer.numbers, queue.writer.number
        again.writer.tail_bytes = queue.writer.tail_bytes
        again.ledger.restore(StateRecord(256, 6, 2, 4, 0, 0, False, [], Intervals([(0, 2)])))
        message = Message(ADDRESS, PERSISTENT, b"logged")
        again.restore([Entry(message, 7)])
        assert (again.ready_count, again.ready_bytes, again.next_position) == (5, 10, 8)
        assert positions(again.fetch(9, True)) == [2, 3, 4, 5, 7]
        assert again.ledger.is_gone(6)


def test_its_persistent_messages_are_counted(store):
    queue = store.queue()
    publish(queue, b"1", b"2")
    publish(queue, b"333", header=TRANSIENT)
    assert queue.counts().persistent == 2
    queue.fetch(2, True)
    queue.fetch(1, True)
    queue.purge()
    assert queue.counts().persistent_bytes == 2


def with_gaps(store, count):
    """A queue of which every second message is acknowledged, and the others are requeued."""
    queue = store.queue()
    publish_numbered(queue, count)
    entries = queue.fetch(count, True)
    queue.ack(entries[1::2])
    while store.queue_log.dirty:
        store.log.write()
    queue.requeue(entries[::2])
    return queue


class TestMessagesWithGapsBetweenThem:
    def test_a_purge_looks_at_none_of_them(self, store):
        queue = with_gaps(store, 20_000)
        assert calls_of(queue.purge) < 300
        assert calls_of(store.log.write) < 300
        assert queue.are_gone(0, 20_000)

    def test_a_purge_looks_at_none_of_those_on_disk(self, store):
        queue = with_gaps(store, 20_000)
        page_out(store, queue)
        assert calls_of(queue.purge) < 300
        assert calls_of(store.log.write) < 300
        assert queue.are_gone(0, 20_000)

    def test_messages_consumed_in_order_are_recorded_as_one_interval(self, store):
        queue = with_gaps(store, 20_000)
        for first in range(0, 20_000, 2000):
            assert len(queue.fetch(1000, False)) == 1000
            assert calls_of(store.log.write) < 300
            assert queue.are_gone(0, first + 2000)


class TestVeryManyIntervals:
    """Ready messages and unacked ones take turns: nothing is done with all of them in one turn."""

    COUNT = 24_000
    CALLS_MAX = 70_000
    """Of Python, in a turn: a dozen milliseconds without the profiler."""

    def queue_of(self, store, is_durable=True, count=COUNT):
        queue = store.queue(is_durable)
        publish_numbered(queue, count)
        entries = queue.fetch(count, True)
        queue.requeue(entries[::2])
        return queue, entries[1::2]

    @pytest.mark.parametrize("is_on_disk", [False, True])
    def test_a_purge(self, store, is_on_disk):
        queue, held = self.queue_of(store)
        if is_on_disk:
            page_out(store, queue)
        purged = []
        assert calls_of(lambda: purged.append(queue.purge())) < 1000
        assert purged[0].dropped == self.COUNT // 2
        work = [0]
        while work[-1] is not None:
            assert calls_of(lambda: work.append(next(purged[0].freeing, None))) < self.CALLS_MAX / 4
        while store.queue_log.dirty:
            assert calls_of(store.log.write) < self.CALLS_MAX
        assert list(queue.ledger.gone) == [(place, place + 1) for place in range(0, self.COUNT, 2)]
        queue.ack(held)
        while store.queue_log.dirty:
            assert calls_of(store.log.write) < self.CALLS_MAX
        assert queue.are_gone(0, self.COUNT)

    def test_acks_in_any_order(self, store):
        queue, held = self.queue_of(store)
        random.Random(1).shuffle(held)
        queue.ack(held)
        assert queue.ledger.is_gone(1)
        while store.queue_log.dirty:
            assert queue.ledger.is_gone(self.COUNT - 1)
            assert calls_of(store.log.write) < self.CALLS_MAX / 2
        assert queue.are_gone(1, 2)
        assert not queue.are_gone(2, 3)

    def test_the_first_slice_of_a_queue_that_is_not_durable(self, store):
        queue, held = self.queue_of(store, is_durable=False)
        assert calls_of(lambda: write_slice(store, queue, 1000)) < 2 * self.CALLS_MAX
        assert [held[0].position in queue.ledger.gone, 2 in queue.ledger.gone] == [True, False]

    def test_what_a_queue_that_is_not_durable_has_on_disk(self, store):
        queue, held = self.queue_of(store, is_durable=False, count=20)
        while write_slice(store, queue) is not None:
            pass
        assert list(queue.ledger.gone) == [(place, place + 1) for place in range(1, 20, 2)]
        queue.requeue(held)
        queue.page_out(1 << 40)
        # Those that were unacked are not on disk.
        assert queue.delta.count == 10
        assert positions(queue.fetch(20, False)) == list(range(20))


@pytest.mark.parametrize("is_requeued", [False, True])
def test_a_purge_looks_at_no_message_until_it_is_freed(store, is_requeued):
    queue = store.queue()
    publish_numbered(queue, 5000)
    if is_requeued:
        queue.requeue(queue.fetch(5000, True))
    queue.fetch(10, True)
    purged = []
    assert calls_of(lambda: purged.append(queue.purge())) < 200
    assert purged[0].dropped == sum(purged[0].freeing) == 4990
    store.log.write()
    assert (queue.are_gone(10, 5000), queue.are_gone(9, 10)) == (True, False)
