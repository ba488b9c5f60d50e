"""Seeds of the simulated cluster. `make sim SEEDS=100000` runs more of them."""

import pytest

from tests.sim.scenario import run_seed

SEEDS = 250
AT_A_TIME = 50


@pytest.mark.parametrize("first", range(1, SEEDS, AT_A_TIME))
def test_the_promises_hold_in_every_run(first):
    for seed in range(first, first + AT_A_TIME):
        run_seed(seed)


@pytest.mark.parametrize("seed", [304077, 306466, 309208, 311672, 342622, 3385, 3874, 354993])
def test_the_promises_hold_for_seeds_that_once_broke_them(seed):
    run_seed(seed)


def test_a_seed_gives_the_same_run_each_time():
    assert list(run_seed(7).events.lines()) == list(run_seed(7).events.lines())
