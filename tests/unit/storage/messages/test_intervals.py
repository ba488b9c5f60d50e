"""A set of positions stored as intervals behaves like a set of numbers."""

import itertools
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leveret.storage.messages import intervals as intervals_module
from leveret.storage.messages.intervals import Intervals

OPERATIONS = st.lists(
    st.tuples(st.sampled_from(["add", "remove", "one"]), st.integers(0, 60), st.integers(0, 15))
)


@settings(deadline=None)
@given(OPERATIONS, st.integers(0, 70), st.integers(0, 70))
def test_it_is_a_set(operations, start, end):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(intervals_module, "BLOCK_INTERVALS_MAX", 3)
        check(operations, start, end)


def check(operations, start, end):
    model: set[int] = set()
    intervals = Intervals()
    for operation, number, length in operations:
        if operation == "one":
            model.add(number)
            if number not in intervals:
                intervals.add(number)
        elif operation == "add":
            model |= set(range(number, number + length))
            intervals.add_range(number, number + length)
        else:
            model -= set(range(number, number + length))
            intervals.remove_range(number, number + length)
    wanted = set(range(start, end))
    assert numbers(intervals) == model
    assert intervals.count == len(model)
    assert {number for number in range(80) if number in intervals} == model
    assert numbers(intervals.within(start, end)) == model & wanted
    assert numbers(intervals.gaps(start, end)) == wanted - model
    assert intervals.covers(start, end) == (wanted <= model)
    assert intervals == Intervals(list(intervals)) == intervals.copy()
    assert all(a[1] < b[0] for a, b in itertools.pairwise(intervals))
    assert intervals.interval_count == len(list(intervals))
    assert all(1 <= len(block.starts) <= 3 for block in intervals.blocks)
    assert intervals.start_of(start) == min(set(range(start + 1)) - gapless(model, start))
    assert intervals.next_gap(start) == min(set(range(start, 99)) - model)


def gapless(model, start):
    """The numbers below which one is missing before the start."""
    missing = [number for number in range(start) if number not in model]
    return set(range(missing[-1] + 1)) if missing else set()


def test_a_change_among_very_many_intervals_touches_few_of_them():
    intervals = Intervals((number, number + 1) for number in range(0, 100_000, 2))
    order = list(range(1, 100_000, 2))
    random.Random(1).shuffle(order)
    for number in order[:1000]:
        before = [len(block.starts) for block in intervals.blocks]
        intervals.add(number)
        after = [len(block.starts) for block in intervals.blocks]
        assert max(before + after) <= intervals_module.BLOCK_INTERVALS_MAX
        assert len(before) == len(after)
    assert intervals.interval_count == 49_000
    intervals.add_range(0, 100_000)
    assert list(intervals) == [(0, 100_000)]


def numbers(ranges):
    return {number for start, end in ranges for number in range(start, end)}


def test_positions_settled_in_order_are_one_interval():
    settled = Intervals()
    for position in range(1000):
        settled.add(position)
    assert list(settled) == [(0, 1000)]
