"""Turns: the order of execution, on a loop that the test runs step by step."""

import logging

import pytest

from leveret.broker.runtime import turns as turns_module
from leveret.broker.runtime.turns import WORK_MAX, Actor, Flushable, Turns


class FakeLoop:
    """An event loop of which only `call_soon` is used."""

    def __init__(self):
        self.soon = []

    def call_soon(self, callback):
        self.soon.append(callback)

    def step(self):
        """Execute one iteration like a real loop."""
        soon, self.soon = self.soon, []
        for callback in soon:
            callback()

    def run(self, steps_max=100):
        while self.soon and steps_max:
            self.step()
            steps_max -= 1
        assert not self.soon


class Journal(list):
    """What happened, in order."""


class FakeActor(Actor):
    """Takes a number of turns, and records them."""

    def __init__(self, turns, journal, name, count=1):
        super().__init__()
        self.turns, self.journal, self.name, self.count = turns, journal, name, count

    def take_turn(self):
        assert not self.is_awake
        self.journal.append(self.name)
        self.count -= 1
        if self.count > 0:
            self.turns.wake(self)


class FakeFlushable(Flushable):
    def __init__(self, journal, name="flush"):
        super().__init__()
        self.journal, self.name = journal, name

    def flush(self):
        assert not self.is_dirty
        self.journal.append(self.name)


class FakeTime:
    """A clock that advances by a fixed amount with each call."""

    def __init__(self, step_s=0.0):
        self.now_s, self.step_s = 0.0, step_s

    def __call__(self):
        self.now_s += self.step_s
        return self.now_s


@pytest.fixture
def time():
    """Rounds have unlimited time, unless a test advances the clock."""
    return FakeTime()


@pytest.fixture
def loop():
    return FakeLoop()


class FakeWatch(list):
    """The pieces of work that took long."""

    def note(self, seconds, cause):
        self.append((seconds, cause))


@pytest.fixture
def turns(loop, time):
    return Turns(loop, FakeWatch(), clock_s=time)


@pytest.fixture
def journal():
    return Journal()


def test_nothing_happens_until_the_loop_comes_round(turns, loop, journal):
    turns.wake(FakeActor(turns, journal, "a"))
    assert journal == []
    loop.run()
    assert journal == ["a"]
    assert turns.rounds == 1


def test_actors_have_their_turns_in_the_order_in_which_they_woke(turns, loop, journal):
    for name in "cab":
        turns.wake(FakeActor(turns, journal, name))
    assert len(loop.soon) == 1
    loop.run()
    assert journal == ["c", "a", "b"]


def test_an_actor_that_is_awake_is_not_woken_again(turns, loop, journal):
    actor = FakeActor(turns, journal, "a")
    turns.wake(actor)
    turns.wake(actor)
    loop.run()
    assert journal == ["a"]


def test_one_that_has_more_to_do_waits_behind_the_others(turns, loop, journal):
    turns.wake(FakeActor(turns, journal, "busy", count=3))
    turns.wake(FakeActor(turns, journal, "other", count=2))
    loop.run()
    assert journal == ["busy", "other", "busy", "other", "busy"]
    assert turns.rounds == 3


def test_an_actor_woken_in_a_round_has_its_turn_in_the_next(turns, loop, journal):
    late = FakeActor(turns, journal, "late")
    first = FakeActor(turns, journal, "first")
    first.take_turn = lambda: (journal.append("first"), turns.wake(late))
    turns.wake(first)
    turns.wake(FakeActor(turns, journal, "second"))
    loop.step()
    assert journal == ["first", "second"]
    loop.run()
    assert journal == ["first", "second", "late"]


def test_a_round_gives_way_when_its_time_is_over(turns, loop, journal, time):
    time.step_s = turns_module.ROUND_SECONDS_MAX
    for name in "abcd":
        turns.wake(FakeActor(turns, journal, name))
    rounds = []
    while loop.soon:
        loop.step()
        rounds.append("".join(journal))
        journal.clear()
    assert "".join(rounds) == "abcd"
    assert len(rounds) > 1


def test_actors_that_had_no_turn_are_first_in_the_next_round(turns, loop, journal, time):
    time.step_s = 2 * turns_module.ROUND_SECONDS_MAX
    turns.wake(FakeActor(turns, journal, "busy", count=2))
    turns.wake(FakeActor(turns, journal, "other"))
    loop.run()
    assert journal == ["busy", "other", "busy"]


def test_a_turn_that_takes_long_is_noted_with_its_actor(turns, loop, journal, time):
    slow, quick = FakeActor(turns, journal, "slow"), FakeActor(turns, journal, "quick")
    take_turn = slow.take_turn
    slow.take_turn = lambda: (take_turn(), setattr(time, "now_s", time.now_s + 0.5))
    turns.wake(quick)
    turns.wake(slow)
    loop.run()
    assert turns.watch == [(0.5, slow)]


def test_output_that_takes_long_is_noted(turns, loop, journal, time):
    connection = FakeFlushable(journal)
    connection.flush = lambda: setattr(time, "now_s", time.now_s + 0.5)
    turns.flush_later(connection)
    loop.run()
    assert [seconds for seconds, _ in turns.watch] == [0.5]


def test_connections_are_flushed_once_after_the_turns(turns, loop, journal):
    connection = FakeFlushable(journal)
    turns.flush_later(connection)
    turns.wake(FakeActor(turns, journal, "a"))
    turns.flush_later(connection)
    turns.wake(FakeActor(turns, journal, "b"))
    loop.run()
    assert journal == ["a", "b", "flush"]


def test_each_round_is_flushed(turns, loop, journal):
    connection = FakeFlushable(journal)
    busy = FakeActor(turns, journal, "busy", count=2)
    take_turn = busy.take_turn
    busy.take_turn = lambda: (take_turn(), turns.flush_later(connection))
    turns.wake(busy)
    loop.run()
    assert journal == ["busy", "flush", "busy", "flush"]


def test_flushing_without_any_turn(turns, loop, journal):
    turns.flush_later(FakeFlushable(journal))
    loop.run()
    assert journal == ["flush"]


def test_callbacks_after_the_round(turns, loop, journal):
    turns.after_round(lambda: journal.append("after"))
    turns.wake(FakeActor(turns, journal, "a"))
    turns.flush_later(FakeFlushable(journal))
    loop.run()
    assert journal == ["a", "flush", "after"]


def test_it_waits_until_actors_without_a_turn_have_had_one(turns, loop, journal, time):
    time.step_s = 2 * turns_module.ROUND_SECONDS_MAX
    turns.after_round(lambda: journal.append("after"))
    for name in "abc":
        turns.wake(FakeActor(turns, journal, name))
    loop.run()
    assert journal == ["a", "b", "c", "after"]


def test_it_may_ask_for_another_round(turns, loop, journal):
    def again():
        journal.append("after")
        if len(journal) < 3:
            turns.after_round(again)

    turns.after_round(again)
    loop.run()
    assert journal == ["after"] * 3


def test_each_actor_has_a_turn_s_work(turns, loop, journal):
    for name in "ab":
        actor = FakeActor(turns, journal, name)
        actor.take_turn = lambda: (
            journal.append(turns.work_left),
            setattr(turns, "work_left", turns.work_left - 2 * WORK_MAX),
        )
        turns.wake(actor)
    loop.run()
    assert journal == [WORK_MAX, WORK_MAX]
    assert turns.work_left == WORK_MAX


def test_callbacks_after_the_round_share_the_work_of_a_turn(turns, loop, journal):
    """Each does half of a turn's work four times, and waits behind the others after each."""

    def work(name, times):
        journal.append(name)
        turns.work_left -= WORK_MAX // 2
        if times > 1:
            turns.after_round(lambda: work(name, times - 1))

    for name in "abc":
        turns.after_round(lambda name=name: work(name, 4))
    rounds = []
    while loop.soon:
        loop.step()
        rounds.append("".join(journal))
        journal.clear()
    assert rounds == ["ab", "ca", "bc"] * 2


@pytest.mark.parametrize(
    ("work_left", "work", "count"), [(100, 10, 10), (99, 10, 9), (5, 10, 1), (0, 10, 0), (-9, 1, 0)]
)
def test_what_can_be_afforded(turns, work_left, work, count):
    turns.work_left = work_left
    assert turns.affordable(work) == count


def test_an_actor_that_fails_stops_no_other(turns, loop, journal, caplog):
    bad = FakeActor(turns, journal, "bad")
    bad.take_turn = lambda: 1 / 0
    turns.wake(bad)
    turns.wake(FakeActor(turns, journal, "good"))
    with caplog.at_level(logging.ERROR, "leveret.broker"):
        loop.run()
    assert journal == ["good"]
    assert "failed in its turn" in caplog.text
    turns.wake(FakeActor(turns, journal, "later"))
    loop.run()
    assert journal == ["good", "later"]


def test_a_flush_that_fails_stops_no_other(turns, loop, journal, caplog):
    bad = FakeFlushable(journal)
    bad.flush = lambda: 1 / 0
    turns.flush_later(bad)
    turns.flush_later(FakeFlushable(journal, "good"))
    with caplog.at_level(logging.ERROR, "leveret.broker"):
        loop.run()
    assert journal == ["good"]
    assert "could not be flushed" in caplog.text


def test_a_callback_that_fails_stops_no_other(turns, loop, journal):
    turns.after_round(lambda: 1 / 0)
    turns.after_round(lambda: journal.append("good"))
    loop.run()
    turns.wake(FakeActor(turns, journal, "later"))
    loop.run()
    assert journal == ["good", "later"]


class TestReads:
    """What a read gave to do is done in a round: at once, if the read is small and comes alone."""

    def test_a_small_read_that_comes_alone_has_its_round_at_once(self, turns, loop, journal):
        turns.begin_read()
        turns.wake(FakeActor(turns, journal, "queue"))
        assert not journal
        turns.end_read(started=1.0, size=100)
        assert journal == ["queue"]
        assert not loop.soon

    @pytest.mark.parametrize(("started", "size"), [(1.000_01, 100), (2.0, 100_000)])
    def test_other_reads_wait_for_those_of_the_same_turn(self, turns, loop, journal, started, size):
        turns.begin_read()
        turns.end_read(started=1.0, size=100)
        turns.begin_read()
        turns.wake(FakeActor(turns, journal, "queue"))
        turns.end_read(started, size)
        assert not journal
        assert loop.soon

    def test_much_work_is_not_followed_by_a_round_in_the_same_turn(self, turns, loop, journal):
        turns.begin_read()
        turns.work_left -= 5000
        turns.wake(FakeActor(turns, journal, "queue"))
        turns.end_read(started=1.0, size=100)
        assert not journal
        assert loop.soon

    def test_a_round_that_is_due_is_not_run_twice(self, turns, loop, journal):
        turns.wake(FakeActor(turns, journal, "first"))
        turns.begin_read()
        turns.wake(FakeActor(turns, journal, "second"))
        turns.end_read(started=1.0, size=100)
        assert not journal
        assert len(loop.soon) == 1
