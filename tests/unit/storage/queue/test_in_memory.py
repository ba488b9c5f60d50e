"""The ready entries in memory, in the order of their positions."""

import pytest

from leveret.storage.messages.intervals import NO_POSITION
from leveret.storage.messages.message import ENTRY_BYTES, Entry, Message
from leveret.storage.queue.in_memory import InMemory
from tests.unit.storage.fakes import ADDRESS


def entry(position, size=10):
    return Entry(Message(ADDRESS, None, bytes(size)), position)


def memory_with(q4=(), q1=(), requeued=()):
    memory = InMemory()
    memory.q4.extend(map(entry, q4))
    memory.q1.tail.extend(map(entry, q1))
    memory.requeued.add(list(map(entry, requeued)))
    return memory


def positions(entries):
    return [one.position for one in entries]


def never_gone(position):
    return False


def test_what_came_back_is_merged_with_q4_by_position():
    memory = memory_with(q4=(3, 5, 9), requeued=(7, 1, 4))
    assert memory.first().position == 1
    assert positions(memory.fetch(4, NO_POSITION)) == [1, 3, 4, 5]
    assert positions(memory.fetch(10, NO_POSITION)) == [7, 9]
    assert memory.first() is None


def test_nothing_is_fetched_from_beyond_the_bound():
    memory = memory_with(q4=(3, 5, 9), requeued=(4, 8))
    assert positions(memory.fetch(10, before=5)) == [3, 4]
    assert memory.q4_before(9) == 1
    assert len(memory) == 3


def test_q1_is_fetched_from_when_q4_is_empty_and_nothing_is_between():
    memory = memory_with(q1=(7, 8))
    assert memory.fetch(1, NO_POSITION) == []
    memory.make_q1_q4()
    assert positions(memory.fetch(2, NO_POSITION)) == [7, 8]
    memory = memory_with(q4=(1,), q1=(7,))
    with pytest.raises(AssertionError, match="IM1"):
        memory.make_q1_q4()


def test_entries_are_taken_out_of_the_middle_of_each_part():
    memory = memory_with(q4=range(10, 20), q1=range(30, 40), requeued=(1, 2, 3))
    assert positions(memory.take([2, 12, 13, 19, 25, 35])) == [2, 12, 13, 19, 35]
    assert positions(memory.q4) == [10, 11, 14, 15, 16, 17, 18]
    assert positions(memory.q1) == [30, 31, 32, 33, 34, 36, 37, 38, 39]
    assert positions(memory.fetch(3, NO_POSITION)) == [1, 3, 10]


def test_reading_goes_by_position_and_bytes_and_leaves_everything():
    memory = memory_with(q4=(3, 5), q1=(8, 9), requeued=(4, 1))
    each = 10 + ENTRY_BYTES
    assert positions(memory.read(2, NO_POSITION, 3 * each)) == [3, 4, 5]
    assert positions(memory.read(2, NO_POSITION, 1)) == [3]
    assert positions(memory.read(2, 5, 100 * each)) == [3, 4]
    assert positions(memory.read(6, NO_POSITION, 100 * each)) == [8, 9]
    assert memory.next_position(6) == 8
    assert memory.next_position(10) == NO_POSITION
    assert len(memory) == 6


def test_messages_that_are_fetched_last_are_paged_out_first():
    memory = memory_with(q4=(3, 4, 5), q1=(8, 9, 10), requeued=(1, 2))
    each = 10 + ENTRY_BYTES
    assert positions(memory.page_out(10, 100 * each, never_gone)) == [8, 9]
    assert positions(memory.page_out(10, 2 * each, never_gone)) == [4, 5]
    assert positions(memory.page_out(10, 100 * each, never_gone)) == [3]
    assert positions(memory.page_out(10, 1, never_gone)) == [2]
    assert positions(memory.page_out(10, 1, lambda position: position == 1)) == []
    assert positions(memory) == [1, 10]


def test_what_came_back_behind_q1_is_not_paged_out():
    memory = memory_with(q1=(8,), requeued=(9,))
    assert memory.page_out(8, 10_000, never_gone) == []
    assert memory.page_out(10, 10_000, never_gone)[0].position == 8
    assert list(memory.q1) == []


def test_entries_between_positions():
    memory = memory_with(q4=(3, 4), q1=(8, 9), requeued=(6, 1, 5))
    assert sorted(positions(memory.between(4, 9))) == [4, 5, 6, 8]
    assert sorted(positions(memory.between(10, 20))) == []
    assert positions(memory.fetch(4, NO_POSITION)) == [1, 3, 4, 5]


def test_the_positions_of_all_entries():
    memory = memory_with(q4=(3, 4, 5), q1=(8, 10), requeued=(7, 1, 6))
    assert list(memory.positions()) == [(1, 2), (3, 9), (10, 11)]
    assert not memory_with().positions()
