"""What the replication is told: in order, and not more in a turn than its work."""

import pytest

from leveret.broker.runtime.turns import WORK_MAX
from leveret.cluster.metadata.inputs import INPUT_WORK, Inputs
from tests.turns_by_hand import TurnsByHand

IN_A_TURN = -(-WORK_MAX // INPUT_WORK)


@pytest.fixture
def turns():
    return TurnsByHand()


def test_an_input_is_given_at_once(turns):
    given = []
    Inputs(turns).add(lambda: given.append(1))
    assert given == [1]
    assert not turns.woken


def test_work_beyond_that_of_a_turn_waits_for_the_next(turns):
    given, inputs = [], Inputs(turns)
    for number in range(2 * IN_A_TURN + 1):
        inputs.add(lambda number=number: given.append(number))
    assert given == list(range(IN_A_TURN))
    turns.run_round()
    assert given == list(range(2 * IN_A_TURN))
    turns.run_round()
    assert given == list(range(2 * IN_A_TURN + 1))
    assert not turns.woken


def test_what_an_input_leads_to_is_given_after_it(turns):
    given, inputs = [], Inputs(turns)

    def first():
        inputs.add(lambda: given.append("second"))
        given.append("first")

    inputs.add(first)
    assert given == ["first", "second"]


def test_an_input_that_fails_keeps_no_other_waiting(turns):
    given, inputs = [], Inputs(turns)

    def fails():
        inputs.add(lambda: given.append("after"))
        raise OSError("the disk is full")

    with pytest.raises(OSError, match="the disk is full"):
        inputs.add(fails)
    turns.run()
    assert given == ["after"]


def test_nothing_is_given_after_the_end(turns):
    given, inputs = [], Inputs(turns)
    turns.work_left = 0
    inputs.add(lambda: given.append(1))
    inputs.close()
    turns.run()
    assert given == []
