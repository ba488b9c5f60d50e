"""Values that change with time, and the number of messages due at a rate."""

import pytest

from leveret.mgmt.perf.schedule import (
    NO_LIMIT,
    TICK_SECONDS_MAX,
    TICK_SECONDS_MIN,
    Pace,
    Schedule,
)

UP_AND_DOWN = Schedule([(100, 2), (0, 1), (50, 1)])


@pytest.mark.parametrize(
    ("elapsed_s", "value"), [(0, 100), (1.9, 100), (2, 0), (3.5, 50), (4, 100), (42.5, 0)]
)
def test_the_parts_follow_each_other_over_and_over(elapsed_s, value):
    assert UP_AND_DOWN.value_at(elapsed_s) == value


@pytest.mark.parametrize(
    ("elapsed_s", "total"), [(0, 0), (1, 100), (2.5, 200), (4, 250), (5, 350), (8, 500)]
)
def test_a_rate_adds_up(elapsed_s, total):
    assert UP_AND_DOWN.sum_until(elapsed_s) == pytest.approx(total)


def test_a_fixed_value_stands_for_a_schedule():
    assert Schedule.of([], 7).value_at(1234.5) == 7
    assert Schedule.of([(1, 1)], 7).value_at(0) == 1


def test_the_first_message_is_due_at_once_and_the_others_in_time():
    pace = Pace(Schedule.of([], 10))
    assert [pace.due(at) for at in (0, 0.01, 0.1, 0.11, 1)] == [0, 1, 1, 2, 10]


def test_a_rate_of_nothing_makes_nothing_due():
    pace = Pace(Schedule.of([], 0))
    assert pace.is_limited
    assert pace.due(1000) == 0
    assert pace.tick_s(1000) == TICK_SECONDS_MAX


def test_no_limit_is_no_pace():
    assert not Pace(Schedule.of([], NO_LIMIT)).is_limited


def test_one_looks_again_neither_too_often_nor_too_rarely():
    assert Pace(Schedule.of([], 1_000_000)).tick_s(0) == TICK_SECONDS_MIN
    assert Pace(Schedule.of([], 50)).tick_s(0) == pytest.approx(0.02)
    assert Pace(Schedule.of([], 0.1)).tick_s(0) == TICK_SECONDS_MAX
