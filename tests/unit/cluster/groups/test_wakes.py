"""The times of all groups of a node."""

import pytest

from leveret.broker.runtime.virtual_clock import VirtualClock
from leveret.cluster.groups.wakes import Wakes


def test_an_error_of_one_group_stops_no_other():
    clock, woken = VirtualClock(), []
    wakes = Wakes(clock)

    def fail(now_ms):
        raise ValueError

    now_ms = clock.now_ms()
    wakes.at(now_ms + 10, fail)
    wakes.at(now_ms + 20, woken.append)
    with pytest.raises(ValueError):
        clock.advance(0.010)
    clock.advance(0.010)
    assert woken == [now_ms + 20]
