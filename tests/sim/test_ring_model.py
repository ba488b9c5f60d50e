"""All orders of what happens to small groups. `python -m tests.sim.ring_model` has larger ones."""

import pytest

from tests.sim.ring_model import LARGE, SMALL, check


@pytest.mark.parametrize("case", SMALL, ids=str)
def test_the_promises_hold_in_every_order(case):
    assert check(case) > 100


def test_the_promises_hold_in_the_first_states_of_a_larger_case():
    assert check(LARGE[0], 5000) >= 5000
