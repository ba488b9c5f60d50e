"""The watch on the event loop: what it counts and logs, on clocks that the test moves."""

import gc
import logging

import pytest

from leveret.broker.runtime import loop_watch
from leveret.broker.runtime.loop_watch import CHECK_SECONDS, LOGGED_SECONDS, UNKNOWN, LoopWatch


class FakeLoop:
    """An event loop that the test keeps busy; its timers are called late then."""

    def __init__(self, monkeypatch):
        self.now = self.processor = 0.0
        self.timers = []
        monkeypatch.setattr(loop_watch, "perf_counter", lambda: self.now)
        monkeypatch.setattr(loop_watch, "thread_time", lambda: self.processor)

    def call_later(self, delay, callback):
        self.timers.append((self.now + delay, callback))
        return self

    def cancel(self):
        self.timers.clear()

    def work(self, seconds):
        """Use the processor; no timer is called meanwhile."""
        self.now += seconds
        self.processor += seconds

    def wait(self, seconds):
        """Wait for the disk; no timer is called meanwhile."""
        self.now += seconds

    def come_round(self):
        """Call the timer, not before it is due."""
        (due, callback), self.timers = self.timers[0], []
        self.now = max(self.now, due)
        callback()

    def rest(self, seconds):
        """Nothing happens."""
        end = self.now + seconds
        while self.timers[0][0] < end:
            self.come_round()


@pytest.fixture
def loop(monkeypatch):
    return FakeLoop(monkeypatch)


@pytest.fixture
def watch(loop, caplog):
    caplog.set_level(logging.WARNING, "leveret.broker")
    watch = LoopWatch(loop.call_later)
    watch.start()
    yield watch
    watch.stop()


def counted(watch):
    return watch.long_turns, round(watch.long_seconds, 3), round(watch.longest_seconds, 3)


def test_short_turns_are_not_counted(watch, loop, caplog):
    for _ in range(1000):
        watch.run(lambda: loop.work(0.004))
        if loop.now >= loop.timers[0][0]:
            loop.come_round()
    assert (watch.long_turns, watch.waits, caplog.messages) == (0, 0, [])


def test_a_long_piece_of_work_is_counted_and_logged_with_its_cause(watch, loop, caplog):
    watch.run(lambda: loop.work(0.025), cause="a queue")
    loop.come_round()
    assert counted(watch) == (1, 0.025, 0.025)
    assert caplog.messages == [
        "turns of the event loop took more than 20 ms of processor time: 1, the longest of them "
        "25 ms, for 'a queue'"
    ]


def test_each_long_piece_of_work_is_counted(watch, loop):
    for _ in range(2):
        watch.run(lambda: loop.work(0.03))
    loop.come_round()
    assert counted(watch) == (2, 0.06, 0.03)


def test_an_unmeasured_task_is_counted_when_the_timer_is_late(watch, loop, caplog):
    loop.work(CHECK_SECONDS + 0.3)
    loop.come_round()
    assert counted(watch) == (1, 0.3, 0.3)
    assert UNKNOWN in caplog.text


def test_a_turn_of_many_short_pieces_is_counted(watch, loop, caplog):
    for number in range(40):
        watch.run(lambda: loop.work(0.015), cause=f"connection {number}")
    loop.come_round()
    assert watch.long_turns == 1
    assert UNKNOWN in caplog.text


def test_a_wait_for_the_disk_is_counted_apart(watch, loop, caplog):
    watch.run(lambda: loop.wait(0.3))
    loop.come_round()
    assert (watch.long_turns, watch.waits, caplog.messages) == (0, 1, [])


def test_the_garbage_collector_is_named(watch, loop, caplog):
    def collect():
        for callback in gc.callbacks:
            callback("start", {})
        loop.work(0.06)
        for callback in gc.callbacks:
            callback("stop", {})

    watch.run(collect, cause="a queue")
    loop.come_round()
    assert "60 ms, for garbage collection (60 ms), in 'a queue'" in caplog.text


def test_one_line_a_second_is_logged_with_the_longest_turn(watch, loop, caplog):
    watch.run(lambda: loop.work(0.03), cause="first")
    loop.come_round()
    for cause, seconds in (("second", 0.04), ("third", 0.1), ("fourth", 0.05)):
        watch.run(lambda seconds=seconds: loop.work(seconds), cause=cause)
        loop.come_round()
    assert len(caplog.messages) == 1
    loop.rest(2 * LOGGED_SECONDS)
    assert caplog.messages[1:] == [
        "turns of the event loop took more than 20 ms of processor time: 3, the longest of them "
        "100 ms, for 'third'"
    ]


def test_a_failing_piece_of_work_is_measured_and_fails(watch, loop):
    def fail():
        loop.work(0.05)
        raise ValueError

    with pytest.raises(ValueError):
        watch.run(fail)
    loop.come_round()
    assert watch.long_turns == 1


def test_nothing_is_left_behind(watch, loop):
    watch.stop()
    assert loop.timers == []
    assert watch._collecting not in gc.callbacks
