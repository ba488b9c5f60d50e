"""When a link is idle, silent or stuck: net_ticktime as Erlang has it, with a clock of numbers."""

import random

import pytest

from leveret.cluster.links.ticks import TICK_OCTETS, TickResult, Ticks, interval_s, was_suspended

TICK_TIME = 60.0


class Timeline:
    """A link with a check every quarter of the tick time."""

    def __init__(self):
        self.ticks = Ticks()
        self.now = 0.0
        self.received = self.sent = self.taken = 0

    def check(self):
        self.now += interval_s(TICK_TIME)
        verdict = self.ticks.check(self.received, self.sent, self.taken)
        if verdict is TickResult.SEND_TICK:
            self.taken += TICK_OCTETS * (self.taken == self.sent)
            self.sent += TICK_OCTETS
        return verdict


def test_an_idle_link_sends_a_tick_at_every_check():
    link = Timeline()
    verdicts = []
    for _ in range(6):
        link.received += 5
        verdicts.append(link.check())
    # At the first check the handshake was just sent.
    assert verdicts == [TickResult.ALIVE] + [TickResult.SEND_TICK] * 5


def test_a_link_that_sends_needs_no_tick():
    link = Timeline()
    for _ in range(6):
        link.received += 5
        link.sent += 1000
        link.taken = link.sent
        assert link.check() is TickResult.ALIVE


@pytest.mark.parametrize("seed", range(200))
def test_a_silent_peer_is_found_between_one_and_one_and_a_quarter_tick_times(seed):
    chance = random.Random(seed)
    link = Timeline()
    for _ in range(chance.randrange(1, 10)):
        link.received += 1
        link.check()
    link.received += 1
    heard_last = link.now + chance.uniform(0, interval_s(TICK_TIME))
    while link.check() is not TickResult.SILENT:
        assert link.now - heard_last <= 1.25 * TICK_TIME
    assert TICK_TIME <= link.now - heard_last <= 1.25 * TICK_TIME


@pytest.mark.parametrize("seed", range(200))
def test_a_peer_that_is_heard_once_in_three_quarters_is_never_silent(seed):
    chance = random.Random(seed)
    link = Timeline()
    silent_for = 0
    for _ in range(200):
        silent_for = 0 if chance.random() < 0.5 or silent_for == 3 else silent_for + 1
        link.received += silent_for == 0
        assert link.check() is not TickResult.SILENT


def test_a_peer_that_takes_nothing_of_what_waits_does_not_read():
    link = Timeline()
    link.sent = 1_000_000
    link.taken = 300_000
    verdicts = []
    for _ in range(6):
        link.received += 5
        verdicts.append(link.check())
    assert (
        verdicts == [TickResult.ALIVE] + [TickResult.SEND_TICK] * 3 + [TickResult.DOES_NOT_READ] * 2
    )


def test_a_peer_that_takes_a_little_now_and_then_reads():
    link = Timeline()
    link.sent = 1_000_000
    for number in range(50):
        link.received += 5
        link.taken += number % 4 == 0
        assert link.check() is not TickResult.DOES_NOT_READ


def test_a_check_that_comes_late_counts_once():
    """What arrived while this process was suspended is still in the socket."""
    link = Timeline()
    link.received += 1
    link.check()
    link.now += 10 * TICK_TIME
    assert link.check() is not TickResult.SILENT


def test_a_process_that_did_not_run_for_the_tick_time_was_suspended():
    assert not was_suspended(TICK_TIME, 0, interval_s(TICK_TIME))
    assert not was_suspended(TICK_TIME, 0, TICK_TIME)
    assert was_suspended(TICK_TIME, 0, 1.3 * TICK_TIME)
