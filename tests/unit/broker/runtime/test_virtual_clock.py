"""A clock that stands still until it is moved."""

import pytest

from leveret.broker.runtime.virtual_clock import VirtualClock


@pytest.fixture
def clock():
    return VirtualClock()


@pytest.fixture
def calls():
    return []


def test_time_stands_still(clock):
    assert clock.now_ms() == clock.now_ms()
    assert clock.wall_time_s() == clock.wall_time_s()


def test_now_is_not_0_which_would_stand_for_no_time(clock):
    assert clock.now_ms() > 0


def test_advance_moves_both_times(clock):
    now_ms, wall_s = clock.now_ms(), clock.wall_time_s()
    clock.advance(1.5)
    assert clock.now_ms() == now_ms + 1500
    assert clock.wall_time_s() == pytest.approx(wall_s + 1.5)


def test_a_timer_calls_once_when_it_is_due(clock, calls):
    clock.call_later_ms(100, lambda: calls.append("rang"))
    clock.advance(0.099)
    assert calls == []
    clock.advance(0.001)
    clock.advance(10)
    assert calls == ["rang"]


def test_nothing_is_called_before_the_clock_is_moved(clock, calls):
    clock.call_later_ms(0, lambda: calls.append("now"))
    clock.call_later_ms(-5, lambda: calls.append("late"))
    assert calls == []
    clock.advance(0)
    assert calls == ["now", "late"]


def test_timers_call_in_the_order_of_their_times(clock, calls):
    for name, delay_ms in (("c", 30), ("a", 10), ("b", 20), ("B", 20)):
        clock.call_later_ms(delay_ms, lambda name=name: calls.append((name, clock.now_ms())))
    start = clock.now_ms()
    clock.advance(1)
    assert calls == [("a", start + 10), ("b", start + 20), ("B", start + 20), ("c", start + 30)]
    assert clock.now_ms() == start + 1000


def test_a_timer_set_on_the_way_calls_in_its_turn(clock, calls):
    def again():
        calls.append(clock.now_ms())
        clock.call_later_ms(400, again)

    start = clock.now_ms()
    clock.call_later_ms(400, again)
    clock.advance(1)
    assert calls == [start + 400, start + 800]


def test_a_cancelled_timer_does_not_call(clock, calls):
    timer = clock.call_later_ms(10, lambda: calls.append("rang"))
    timer.cancel()
    timer.cancel()
    clock.advance(1)
    assert calls == []


def test_a_timer_may_be_cancelled_by_another_one_and_after_its_call(clock, calls):
    later = clock.call_later_ms(20, lambda: calls.append("later"))
    first = clock.call_later_ms(10, later.cancel)
    clock.advance(1)
    first.cancel()
    assert calls == []
