"""Long work over several turns, which the test gives."""

from leveret.broker.runtime.long_work import LongWork
from leveret.broker.runtime.turns import WORK_MAX
from tests.turns_by_hand import TurnsByHand


def steps(done, count, work):
    for number in range(count):
        done.append(number)
        yield work


def test_what_there_is_work_left_for_is_done_at_once():
    turns, done = TurnsByHand(), []
    LongWork(turns, "counting", steps(done, 3, 10)).start()
    assert done == [0, 1, 2]
    assert not turns.woken
    assert turns.work_left == WORK_MAX - 30


def test_the_rest_is_done_in_turns():
    turns, done = TurnsByHand(), []
    LongWork(turns, "counting", steps(done, 5, WORK_MAX // 2)).start()
    assert done == [0, 1]
    turns.run_round()
    assert done == [0, 1, 2, 3]
    turns.run_round()
    turns.run_round()
    assert done == [0, 1, 2, 3, 4]
    assert not turns.woken


def test_it_says_what_it_is():
    assert "counting" in repr(LongWork(TurnsByHand(), "counting", iter(())))
