"""Seeds of the simulated copies of retained messages. `make sim-retained` runs more of them."""

import pytest

from tests.sim.retained_scenario import run_seed

SEEDS = 40
AT_A_TIME = 10


@pytest.mark.parametrize("first", range(1, SEEDS, AT_A_TIME))
def test_all_nodes_have_the_newest_versions_in_the_end(first):
    for seed in range(first, first + AT_A_TIME):
        run_seed(seed)


def test_a_seed_gives_the_same_run_each_time():
    assert list(run_seed(7).lines()) == list(run_seed(7).lines())
