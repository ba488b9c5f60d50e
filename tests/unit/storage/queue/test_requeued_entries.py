"""Requeued entries, which come back in any order, are kept in the order of their positions."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leveret.storage.messages.intervals import NO_POSITION
from leveret.storage.messages.message import ENTRY_BYTES, Entry, Message
from leveret.storage.queue import requeued_entries
from leveret.storage.queue.requeued_entries import RequeuedEntries
from tests.unit.storage.fakes import ADDRESS

POSITIONS = st.lists(st.integers(0, 60), unique=True)
OPERATIONS = st.lists(
    st.tuples(st.sampled_from(["fetch", "take", "page_out"]), st.integers(0, 60), st.integers(0, 9))
)


def entry(position):
    return Entry(Message(ADDRESS, None, b""), position)


def positions(entries):
    return [one.position for one in entries]


@settings(deadline=None)
@given(POSITIONS, OPERATIONS, st.integers(0, 60))
def test_it_is_a_sorted_list(added, operations, kept):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(requeued_entries, "BLOCK_ENTRIES_MAX", 3)
        check(added, operations, kept)


def check(added, operations, kept):
    requeued, model = RequeuedEntries(), sorted(added)
    requeued.add(list(map(entry, added[:5])))
    requeued.add(list(map(entry, added[5:])))
    for operation, position, count in operations:
        below = [one for one in model if one < position]
        if operation == "fetch":
            wanted = below[:count]
            found = requeued.fetch(count, position)
        elif operation == "take":
            wanted = [one for one in model if position <= one < position + count]
            found = requeued.take(frozenset(range(position, position + count)))
        else:
            wanted = [one for one in below if one != kept][::-1][:count][::-1]
            found = requeued.page_out(position, count * ENTRY_BYTES, lambda one: one == kept)
        assert positions(found) == wanted
        model = [one for one in model if one not in wanted]
        assert positions(requeued) == model
        assert (len(requeued), bool(requeued)) == (len(model), bool(model))
        assert positions(requeued.start_at(position)) == [one for one in model if one >= position]
    assert requeued.positions().count == len(model)
    assert not model or requeued.first.position == model[0]
    pieces = list(requeued.hand_over())
    assert sorted(positions(one for piece in pieces for one in piece)) == model
    assert positions(requeued.fetch(9, NO_POSITION)) == []
