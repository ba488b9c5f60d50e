"""Seeds of all simulations. `make sim SEEDS=100000`, `make sim-ring` and so on run more of them."""

from collections import Counter
from types import ModuleType
from typing import NamedTuple

import pytest

from tests.sim import (
    quorum_scenario,
    raft_scenario,
    retained_scenario,
    ring_scenario,
    scenario,
    stream_scenario,
)


class Seeds(NamedTuple):
    """The seeds of a simulation, from 1 on. at_a_time: the number of seeds in one test."""

    simulation: ModuleType
    count: int
    at_a_time: int


ALL = (
    Seeds(scenario, 250, 50),
    Seeds(ring_scenario, 1_000, 250),
    Seeds(raft_scenario, 1_000, 250),
    Seeds(quorum_scenario, 120, 40),
    Seeds(stream_scenario, 120, 40),
    Seeds(retained_scenario, 40, 10),
)


@pytest.mark.parametrize(
    ("simulation", "first", "end"),
    [
        pytest.param(simulation, first, first + at_a_time, id=f"{simulation.__name__}-{first}")
        for simulation, count, at_a_time in ALL
        for first in range(1, count, at_a_time)
    ],
)
def test_the_promises_hold_in_every_run(simulation, first, end):
    for seed in range(first, end):
        simulation.run_seed(seed)


@pytest.mark.parametrize(
    "simulation", [one.simulation for one in ALL], ids=lambda one: one.__name__
)
def test_a_seed_gives_the_same_run_each_time(simulation):
    first, second = (list(simulation.run_seed(7).lines()) for _ in range(2))
    assert first == second


@pytest.mark.parametrize("seed", [304077, 306466, 309208, 311672, 342622, 3385, 3874, 354993])
def test_the_promises_hold_for_seeds_of_clusters_that_once_broke_them(seed):
    scenario.run_seed(seed)


def test_an_empty_new_member_lacks_broadcasts_confirmed_to_a_dead_one():
    """A group of one declares it dead, before it knows of the new member that takes its place."""
    ring_scenario.run_seed(10639)


@pytest.mark.parametrize(
    ("simulation", "seeds", "expected"),
    [
        (raft_scenario, 100, {"elected", "removed", "reset", "truncated"}),
        (quorum_scenario, 40, {
            "ActiveChanged", "TimedOut", "UnknownSender", "arrived", "clients made again",
            "died of DELIVERY_LIMIT", "died of EXPIRED", "died of MAXLEN", "died of REJECTED",
            "elected", "published as dead letters", "refused", "removed", "reset", "settled",
            "snapshots", "truncated",
        }),
        (stream_scenario, 40, {
            "began with the oldest", "elected", "removed", "reset", "saved", "sent again",
            "truncated",
        }),
    ],
)  # fmt: skip
def test_the_runs_have_everything_that_they_are_to_test(simulation, seeds, expected):
    counts = Counter()
    for seed in range(1, seeds + 1):
        world = simulation.run_seed(seed).world
        counts.update(world.history.counts)
        if simulation is not raft_scenario:
            counts.update(world.books.counts)
    assert counts.keys() >= expected
