"""Links are watched once for all groups: signs of life, silence, and one that is heard again."""

from types import SimpleNamespace

from leveret.broker.runtime.virtual_clock import VirtualClock
from leveret.cluster.groups.link_watch import LinkWatch
from leveret.cluster.groups.wakes import Wakes


class Host:
    def __init__(self):
        self.calls = []
        self.has_groups = True

    def has_groups_on(self, node):
        return self.has_groups

    def is_silent(self, node):
        self.calls.append("silent")

    def is_heard(self, node):
        self.calls.append("heard")

    def send_sign_of_life(self, peer):
        self.calls.append("sign")


def watched():
    host, clock = Host(), VirtualClock()
    watch = LinkWatch(host, clock)
    watch.link_up(SimpleNamespace(name="b"))
    return host, clock, watch


def test_a_link_without_frames_gets_signs_of_life_and_is_silent_after_two_checks():
    host, clock, watch = watched()
    clock.advance(1)
    assert host.calls == ["sign"]
    assert watch.silent == set()
    clock.advance(1)
    assert host.calls == ["sign", "silent", "sign"]
    assert watch.silent == {"b"}
    clock.advance(5)
    assert host.calls.count("silent") == 1


def test_a_link_with_frames_is_not_silent_and_needs_no_sign():
    host, clock, watch = watched()
    for _ in range(5):
        watch.received("b")
        watch.sent("b")
        clock.advance(1)
    assert host.calls == []


def test_a_silent_link_is_heard_before_its_frame_is_taken():
    host, clock, watch = watched()
    clock.advance(2)
    watch.received("b")
    assert host.calls[-1] == "heard"


def test_a_link_that_no_group_needs_is_not_watched():
    host, clock, _ = watched()
    host.has_groups = False
    clock.advance(5)
    assert host.calls == []


def test_a_check_that_comes_late_is_one_check():
    host, clock, watch = watched()
    watch._clock = SimpleNamespace(call_later_ms=lambda delay, callback: None)
    clock.advance(60)
    assert "silent" not in host.calls


def test_one_timer_serves_all_times():
    clock = VirtualClock()
    wakes, rung = Wakes(clock), []
    for at_ms in (500, 100, 300):
        wakes.at(at_ms, rung.append)
    clock.advance(0.2)
    assert len(rung) == 1
    clock.advance(1)
    assert len(rung) == 3
    assert wakes._timer is None


def test_a_cancelled_time_keeps_nothing():
    clock = VirtualClock()
    wakes, rung = Wakes(clock), []
    first, second, third = (wakes.at(at_ms, rung.append) for at_ms in (100, 200, 300))
    wakes.cancel(second)
    assert len(wakes._callbacks) == 2
    wakes.cancel(first)
    assert [number for _, number in wakes._heap] == [third]
    clock.advance(1)
    assert len(rung) == 1
    wakes.cancel(third)
    assert wakes._timer is None
