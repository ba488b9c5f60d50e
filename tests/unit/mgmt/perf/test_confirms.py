"""Confirms in order, out of order, several at once, and repeated."""

import pytest

from leveret.mgmt.perf.confirms import PerfConfirms

SECOND_NS = 10**9


@pytest.fixture
def confirms():
    """Two batches: messages 1 to 5 at 0 s, and 6 to 10 at 1 s."""
    made = PerfConfirms()
    made.publish(5, 0)
    made.publish(5, SECOND_NS)
    return made


def test_one_by_one(confirms):
    for tag in range(1, 11):
        assert confirms.settle(tag, multiple=False, now_ns=2 * SECOND_NS) == 1
    assert confirms.open == 0
    assert confirms.latencies.total == 10
    assert (confirms.latencies.minimum, confirms.latencies.maximum) == (1_000_000, 2_000_000)


def test_several_at_once(confirms):
    assert confirms.settle(7, multiple=True, now_ns=2 * SECOND_NS) == 7
    assert confirms.open == 3
    assert confirms.waited_s(3 * SECOND_NS) == 2
    assert confirms.settle(0, multiple=True, now_ns=2 * SECOND_NS) == 3
    assert (confirms.open, confirms.waited_s(9 * SECOND_NS)) == (0, 0)


def test_out_of_order(confirms):
    assert confirms.settle(3, multiple=False, now_ns=SECOND_NS) == 1
    assert confirms.settle(10, multiple=False, now_ns=SECOND_NS) == 1
    assert confirms.open == 8
    assert confirms.settle(4, multiple=True, now_ns=SECOND_NS) == 3
    assert confirms.settle(9, multiple=True, now_ns=SECOND_NS) == 5
    assert (confirms.open, confirms.latencies.total) == (0, 10)


def test_nothing_counts_twice(confirms):
    assert confirms.settle(2, multiple=False, now_ns=1) == 1
    assert confirms.settle(2, multiple=False, now_ns=1) == 0
    assert confirms.settle(5, multiple=True, now_ns=1) == 4
    assert confirms.settle(5, multiple=True, now_ns=1) == 0
    assert confirms.settle(3, multiple=False, now_ns=1) == 0
    assert confirms.latencies.total == 5


def test_what_was_never_published_is_not_confirmed(confirms):
    assert confirms.settle(11, multiple=False, now_ns=1) == 0
    assert confirms.settle(100, multiple=True, now_ns=1) == 10
    assert confirms.open == 0
