"""Which queues are moved so that all nodes lead about as many."""

import random
from collections import Counter

import pytest

from leveret.cluster.placement.rebalancing import Move, RebalancedQueue, rebalancing


def queues(*where):
    """Queues that are written down as `Abc`: led by a, and able to be led by b and c."""
    return [RebalancedQueue(one[0].lower(), tuple(one[1:])) for one in where]


def test_nodes_lead_as_many_afterwards():
    assert rebalancing(queues("Abc", "Abc", "Abc")) == [Move(0, "b"), Move(1, "c")]


@pytest.mark.parametrize(
    "where",
    [
        (),
        ("Abc",),
        ("Abc", "Bac", "Cab"),
        ("Abc", "Abc", "Bac", "Cab"),
    ],
)
def test_a_balanced_placement_stays(where):
    assert rebalancing(queues(*where)) == []


def test_a_queue_without_a_synchronised_mirror_stays():
    assert rebalancing(queues("A", "A", "A", "Ab")) == [Move(3, "b")]


def test_a_queue_may_make_room_for_another_one():
    assert rebalancing(queues("Ab", "Ab", "Ac", "Ac", "Bc", "Bc")) == [
        Move(0, "b"),
        Move(2, "c"),
        Move(4, "c"),
    ]


@pytest.mark.parametrize("seed", range(50))
def test_where_every_node_could_lead_they_differ_by_one_at_most(seed):
    chance = random.Random(seed)
    nodes = "abcde"[: chance.randint(2, 5)]
    found = []
    for _ in range(chance.randint(0, 60)):
        leader = chance.choice(nodes[: chance.randint(1, len(nodes))])
        found.append(RebalancedQueue(leader, tuple(node for node in nodes if node != leader)))
    after = [queue.leader for queue in found]
    for move in rebalancing(found):
        after[move.place] = move.node
    counts = [Counter(after)[node] for node in nodes]
    assert max(counts) - min(counts) <= 1
