"""Entries in blocks: as one sorted sequence, wherever a block ends."""

import pytest

from leveret.storage.messages import entry_blocks
from leveret.storage.messages.entry_blocks import EntryBlocks
from leveret.storage.messages.message import Entry, Message
from tests.unit.storage.fakes import ADDRESS

MESSAGE = Message(ADDRESS, None, b"")


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch):
    monkeypatch.setattr(entry_blocks, "BLOCK_ENTRIES", 3)


def filled(*positions):
    blocks = EntryBlocks()
    for position in positions:
        blocks.tail.append(Entry(MESSAGE, position))
        blocks.bound()
    return blocks


def positions(entries):
    return [entry.position for entry in entries]


def sizes(blocks):
    return list(map(len, blocks.blocks))


def test_a_full_block_is_followed_by_a_new_one():
    blocks = filled(*range(7))
    assert sizes(blocks) == [3, 3, 1]
    assert (positions(blocks), len(blocks), blocks.first.position) == (list(range(7)), 7, 0)
    assert not EntryBlocks()


def test_entries_are_removed_from_the_front_and_added_at_the_end():
    blocks = filled(*range(5))
    assert positions(blocks.popleft() for _ in range(5)) == [0, 1, 2, 3, 4]
    assert (sizes(blocks), bool(blocks)) == ([0], False)
    blocks.tail.append(Entry(MESSAGE, 9))
    assert positions(blocks) == [9]


def test_blocks_are_removed_from_the_front_and_a_last_one_remains():
    blocks = filled(*range(5))
    assert positions(blocks.pop_block()) == [0, 1, 2]
    assert positions(blocks.pop_block()) == [3, 4]
    assert (sizes(blocks), bool(blocks)) == ([0], False)
    blocks.tail.append(Entry(MESSAGE, 9))
    assert positions(blocks) == [9]


def test_a_part_of_them_by_position():
    blocks = filled(1, 3, 5, 7, 9, 11, 13)
    assert positions(blocks.between(3, 13)) == [3, 5, 7, 9, 11]
    assert positions(blocks.between(6, 7)) == []
    assert positions(blocks.between(20, 30)) == []
    assert positions(blocks.start_at(8)) == [9, 11, 13]
    assert positions(blocks.start_at(0)) == positions(blocks)


def test_empty_blocks_do_not_stay():
    blocks = filled(*range(7))
    for block in list(blocks.blocks)[1:]:
        block.clear()
    blocks.drop_empty()
    assert sizes(blocks) == [3, 0]
    blocks.clear()
    assert sizes(blocks) == [0]


def test_entries_are_taken_from_the_middle_of_blocks(monkeypatch):
    monkeypatch.setattr(entry_blocks, "BLOCKS_NEAR", 1)
    blocks = filled(*range(0, 60, 2))
    assert positions(blocks.take([0, 1, 2, 7, 30, 31, 32, 34, 58, 60, 99])) == [
        0,
        2,
        30,
        32,
        34,
        58,
    ]
    left = [one for one in range(0, 60, 2) if one not in {0, 2, 30, 32, 34, 58}]
    assert positions(blocks) == left
    assert positions(blocks.take(left)) == left
    assert (sizes(blocks), bool(blocks)) == ([0], False)


def test_large_blocks_from_which_entries_are_taken_are_divided(monkeypatch):
    monkeypatch.setattr(entry_blocks, "BLOCK_ENTRIES", 100)
    monkeypatch.setattr(entry_blocks, "LOOSE_BLOCK_ENTRIES", 10)
    blocks = filled(*range(250))
    assert positions(blocks.take([5, 42])) == [5, 42]
    assert sizes(blocks) == [9, 10, 10, 10, 9, *[10] * 5, 100, 50]
    assert positions(blocks) == [one for one in range(250) if one not in {5, 42}]
