"""A set of positions stored as intervals behaves like a set of numbers."""

from hypothesis import given, settings
from hypothesis import strategies as st

from leveret.storage.intervals import Intervals

OPERATIONS = st.lists(
    st.tuples(st.sampled_from(["add", "remove", "one"]), st.integers(0, 60), st.integers(0, 15))
)


@settings(deadline=None)
@given(OPERATIONS, st.integers(0, 70), st.integers(0, 70))
def test_it_is_a_set(operations, start, end):
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
    assert list(intervals) == list(Intervals(zip(intervals.starts, intervals.ends, strict=True)))
    assert all(a < b for a, b in zip(intervals.ends, intervals.starts[1:], strict=False))


def numbers(ranges):
    return {number for start, end in ranges for number in range(start, end)}


def test_positions_settled_in_order_are_one_interval():
    settled = Intervals()
    for position in range(1000):
        settled.add(position)
    assert list(settled) == [(0, 1000)]
