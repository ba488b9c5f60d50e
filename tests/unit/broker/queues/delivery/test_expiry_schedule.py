"""The earliest expiry times of a queue, by ticks, in bounded memory."""

from random import Random

import pytest

from leveret.broker.queues.delivery import expiry_schedule
from leveret.broker.queues.delivery.expiry_schedule import (
    LEVEL_BITS,
    PERIOD_MS_BITS,
    TICK_MS,
    ExpirySchedule,
)

PERIOD_MS = 1 << PERIOD_MS_BITS
NOW_MS = 1_000_000


def add_each(schedule, times, position):
    """Add messages at consecutive positions."""
    for place, expires_at_ms in enumerate(times):
        schedule.add(expires_at_ms, position + place)


def due(schedule, now_ms):
    """All positions that are due."""
    while schedule.spread(now_ms):
        pass
    found = []
    while positions := schedule.take_due(now_ms):
        found += positions
    return found


def test_a_position_is_due_when_its_tick_is_over_and_not_before():
    schedule = ExpirySchedule()
    tick_ms = NOW_MS // TICK_MS * TICK_MS
    schedule.add(tick_ms + TICK_MS, 1)
    schedule.add(tick_ms, 3)
    schedule.add(tick_ms + 5, 2)
    assert schedule.next_ms <= tick_ms + TICK_MS
    assert due(schedule, tick_ms + TICK_MS - 1) == [], "ES3"
    assert due(schedule, tick_ms + TICK_MS) == [2, 3]
    assert schedule.next_ms == tick_ms + 2 * TICK_MS
    assert due(schedule, tick_ms + 2 * TICK_MS) == [1]
    assert (schedule.next_ms, schedule.count) == (0, 0)


@pytest.mark.parametrize("level", [0, 1, 255])
def test_times_in_this_period_and_in_later_ones(level):
    random = Random(7)
    schedule = ExpirySchedule()
    first = level << LEVEL_BITS
    times = [NOW_MS + random.randrange(5 * PERIOD_MS) for _ in range(1000)]
    add_each(schedule, times[:500], first)
    assert due(schedule, NOW_MS) == []
    add_each(schedule, times[500:], first + 500)
    for now_ms in range(NOW_MS, NOW_MS + 5 * PERIOD_MS + 2000, 977):
        found = due(schedule, now_ms)
        over = now_ms // TICK_MS * TICK_MS
        assert all(times[one - first] < over for one in found)
        assert schedule.count == sum(one >= over for one in times)
    assert schedule.next_ms == 0


def test_messages_of_one_time_are_added_together():
    schedule = ExpirySchedule()
    schedule.add(NOW_MS, 100, 1000)
    schedule.add(NOW_MS + PERIOD_MS, 5000, 3)
    assert due(schedule, NOW_MS + TICK_MS) == list(range(100, 1100))
    schedule.add(NOW_MS + TICK_MS, 7, 2)
    assert due(schedule, NOW_MS + 2 * TICK_MS) == [7, 8]
    assert due(schedule, NOW_MS + PERIOD_MS + TICK_MS) == [5000, 5001, 5002]


def test_a_position_that_was_added_again_is_due_once():
    schedule = ExpirySchedule()
    for position in (7, 8, 7):
        schedule.add(NOW_MS, position)
    assert due(schedule, NOW_MS + TICK_MS) == [7, 8]
    assert schedule.count == 0


def test_a_period_is_opened_in_steps():
    schedule = ExpirySchedule()
    schedule.add(NOW_MS, 0, 2500)
    assert [schedule.spread(NOW_MS + TICK_MS) for _ in range(4)] == [1000, 1000, 500, 0]
    assert schedule.take_due(NOW_MS + TICK_MS) == list(range(2500))


def test_the_earliest_of_many_are_kept_and_the_horizon_is_where_the_others_begin():
    random = Random(4)
    schedule = ExpirySchedule(count_max=100)
    times = [NOW_MS + random.randrange(100 * PERIOD_MS) for _ in range(5000)]
    for position, expires_at_ms in enumerate(times):
        schedule.add(expires_at_ms, position)
        assert schedule.count <= 100, "ES2"
    horizon_ms = schedule.horizon_ms
    expected = sorted(position for position, one in enumerate(times) if one < horizon_ms)
    assert len(expected) == schedule.count >= 1
    assert not schedule.is_at_horizon(horizon_ms)
    assert sorted(due(schedule, horizon_ms)) == expected, "ES1"
    assert schedule.next_ms == horizon_ms + TICK_MS
    assert schedule.is_at_horizon(horizon_ms + TICK_MS)
    assert not schedule.is_at_horizon(horizon_ms + TICK_MS - 1)


def test_very_many_of_the_same_time_are_behind_the_horizon():
    schedule = ExpirySchedule(count_max=10)
    for position in range(100):
        schedule.add(NOW_MS, position)
    assert schedule.count <= 10
    assert schedule.horizon_ms <= NOW_MS
    due(schedule, NOW_MS + 2 * TICK_MS)
    assert schedule.is_at_horizon(NOW_MS + 2 * TICK_MS)
    schedule.begin_reading()
    assert schedule.next_ms == 0


def test_the_latest_periods_are_forgotten(monkeypatch):
    monkeypatch.setattr(expiry_schedule, "PERIODS_MAX", 4)
    schedule = ExpirySchedule()
    start = NOW_MS // PERIOD_MS
    add_each(schedule, [(start + one) * PERIOD_MS for one in range(5)], 0)
    assert schedule.horizon_ms == (start + 2) * PERIOD_MS, "ES2: there are too many periods"
    assert schedule.count == 2
    schedule.add((start + 9) * PERIOD_MS, 10)
    assert due(schedule, (start + 10) * PERIOD_MS) == [0, 1]


def test_positions_of_consumed_messages_are_forgotten():
    schedule = ExpirySchedule()
    level = 3 << LEVEL_BITS
    for first in (0, level):
        add_each(schedule, [NOW_MS + 10 * PERIOD_MS] * 500, first)
    add_each(schedule, [NOW_MS] * 100, 500)
    due(schedule, NOW_MS)
    assert sum(schedule.forget_before({0: 400, 3: level + 499})) == 1100
    assert schedule.count == 100 + 1 + 100
    assert list(schedule.forget_before({3: level})) == [100, 101]
    assert schedule.count == 1
    assert due(schedule, NOW_MS + 11 * PERIOD_MS) == [level + 499]
