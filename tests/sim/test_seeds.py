"""Seeds of all simulations. `make sim SEEDS=100000`, `make sim-ring` and so on run more of them."""

from types import ModuleType
from typing import NamedTuple

import pytest

from tests.sim import (
    delayed_scenario,
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
    Seeds(scenario, 150, 50),
    Seeds(ring_scenario, 500, 250),
    Seeds(raft_scenario, 500, 250),
    Seeds(quorum_scenario, 80, 40),
    Seeds(delayed_scenario, 20, 20),
    Seeds(stream_scenario, 80, 40),
    Seeds(retained_scenario, 20, 10),
)
HAPPENS = {
    raft_scenario: {"elected", "removed", "reset", "truncated"},
    quorum_scenario: {
        "ActiveChanged", "TimedOut", "UnknownSender", "arrived", "clients made again",
        "died of DELIVERY_LIMIT", "died of EXPIRED", "died of MAXLEN", "died of REJECTED",
        "elected", "published as dead letters", "refused", "removed", "reset", "settled",
        "snapshots", "truncated",
    },
    delayed_scenario: {
        "DelaysEnded", "cancelled", "elected", "published as dead letters", "released", "removed",
        "reset", "snapshots", "truncated",
    },
    stream_scenario: {
        "began with the oldest", "elected", "removed", "reset", "saved", "sent again", "truncated",
    },
}  # fmt: skip
"""What the first test of a simulation is to come upon."""


@pytest.mark.parametrize(
    ("simulation", "first", "end"),
    [
        pytest.param(simulation, first, first + at_a_time, id=f"{simulation.__name__}-{first}")
        for simulation, count, at_a_time in ALL
        for first in range(1, count, at_a_time)
    ],
)
def test_the_promises_hold_in_every_run(simulation, first, end):
    happened = set()
    for seed in range(first, end):
        run = simulation.run_seed(seed)
        if simulation in HAPPENS:
            happened |= _happened(run.world)
    if first == 1 and simulation in HAPPENS:
        assert happened >= HAPPENS[simulation]


def _happened(world):
    books = getattr(world, "books", None)
    return {*world.history.counts, *(books.counts if books else ())}


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
