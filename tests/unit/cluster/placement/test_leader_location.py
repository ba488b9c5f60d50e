"""On which node a queue that is declared is to live."""

import pytest

from leveret.broker.queues.contract.queue_kind import CLASSIC_QUEUE
from leveret.broker.queues.quorum_kind import QUORUM_QUEUE
from leveret.cluster.placement.leader_location import (
    BALANCED,
    CLIENT_LOCAL,
    MIN_MASTERS,
    RANDOM,
    RANDOM_FROM,
    choose_node,
    locator_of,
)

MASTER, LEADER = "queue-master-locator", "queue-leader-locator"


def argument(name, value):
    return {f"x-{name}": ("S", value)}


@pytest.mark.parametrize(
    ("kind", "arguments", "policy", "configured", "expected"),
    [
        (CLASSIC_QUEUE, {}, {}, "", CLIENT_LOCAL),
        (CLASSIC_QUEUE, {}, {}, "min-masters", MIN_MASTERS),
        (CLASSIC_QUEUE, {}, {MASTER: "random"}, "min-masters", RANDOM),
        (CLASSIC_QUEUE, argument(MASTER, "client-local"), {MASTER: "random"}, "", CLIENT_LOCAL),
        (CLASSIC_QUEUE, argument(MASTER, "elsewhere"), {MASTER: "random"}, "", RANDOM),
        (CLASSIC_QUEUE, argument(LEADER, "random"), {}, "", CLIENT_LOCAL),
        (QUORUM_QUEUE, argument(LEADER, "balanced"), {}, "", BALANCED),
        (QUORUM_QUEUE, argument(LEADER, "least-leaders"), {}, "", BALANCED),
        (QUORUM_QUEUE, {}, {LEADER: "random", MASTER: "min-masters"}, "", RANDOM),
    ],
)
def test_the_first_that_is_set_counts(kind, arguments, policy, configured, expected):
    assert locator_of(kind, arguments, policy, configured) == expected


def chosen(locator, this_node="b", number=0, **counts):
    return choose_node(locator, this_node, lambda: counts, lambda _: number)


def test_client_local_counts_nothing():
    assert choose_node(CLIENT_LOCAL, "b", None, None) == "b"


def test_min_masters_is_a_node_with_the_fewest_queues():
    assert chosen(MIN_MASTERS, a=3, b=2, c=1) == "c"
    assert chosen(MIN_MASTERS, a=1, b=2, c=1) == "a"


def test_of_several_with_the_fewest_it_is_the_clients_own():
    assert chosen(MIN_MASTERS, a=1, b=1, c=1) == "b"


def test_random_is_any_node_that_runs():
    assert [chosen(RANDOM, number=number, a=1, b=9, c=1) for number in range(3)] == ["a", "b", "c"]


def test_balanced_counts_only_while_there_are_few_queues():
    assert chosen(BALANCED, number=1, a=0, b=3) == "a"
    assert chosen(BALANCED, number=1, a=0, b=RANDOM_FROM) == "b"
