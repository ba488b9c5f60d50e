"""Autoheal between nodes whose links pass requests on at once."""

import asyncio

import pytest

from leveret.broker.runtime.virtual_clock import VirtualClock
from leveret.cluster.partitions.autoheal import PartitionReport
from leveret.cluster.partitions.healing import ROUND_MS, Healing
from leveret.cluster.rpc.rpc import Rpc
from tests.linked_nodes import LinkServices
from tests.linked_rpc import FakePeer


class Node:
    """A node, which a test tells how it stands. gave_way_to: the winners, each time it lost."""

    def __init__(self, cluster, name, side, connections=0):
        self.name = name
        self.gave_way_to = []
        self.clock = VirtualClock()
        others = tuple(sorted(set(cluster.names) - set(side)))
        self.report = PartitionReport(name, tuple(side), (5, side[0], 1), others, connections)
        self.rpc = Rpc(LinkServices())
        self.healing = Healing(
            self.rpc, self.clock, name, lambda: frozenset(cluster.names),
            lambda: self.report, self.gave_way_to.append,
        )  # fmt: skip

    def link(self, other):
        to_other, back = FakePeer(other.name), FakePeer(self.name)
        to_other.other_end, back.other_end = (other.rpc, back), (self.rpc, to_other)
        self.rpc.peer_up(to_other)
        other.rpc.peer_up(back)


class Cluster:
    """Nodes on sides, each a word of their names, with a link between any two."""

    def __init__(self, *sides, **connections):
        self.names = sorted("".join(sides))
        self.nodes = {
            name: Node(self, name, side, connections.get(name, 0))
            for side in sides
            for name in side
        }
        nodes = list(self.nodes.values())
        for number, node in enumerate(nodes):
            for other in nodes[number + 1 :]:
                node.link(other)

    async def rounds(self, count):
        """Let some time pass, and everything due happen."""
        for _ in range(count):
            for node in self.nodes.values():
                node.clock.advance(ROUND_MS / 1000)
                node.healing.tick()
            for _ in range(20):
                await asyncio.sleep(0)

    def losers(self):
        return {name: node.gave_way_to for name, node in self.nodes.items() if node.gave_way_to}


async def test_the_losing_side_gives_way_to_the_winners():
    cluster = Cluster("ab", "c", a=1)
    await cluster.rounds(1)
    assert cluster.losers() == {"c": [("a", "b")]}


async def test_the_node_that_decides_may_lose_itself():
    cluster = Cluster("a", "bc", b=1)
    await cluster.rounds(1)
    assert cluster.losers() == {"a": [("b", "c")]}


async def test_no_node_asks_while_there_is_no_partition():
    cluster = Cluster("abc")
    await cluster.rounds(3)
    assert cluster.losers() == {}
    assert all(node.rpc._number == 0 for node in cluster.nodes.values())


@pytest.mark.parametrize("missing", ["a", "b", "c"])
async def test_a_node_that_is_in_no_view_is_waited_for(missing):
    cluster = Cluster("ab", "c", a=1)
    node = cluster.nodes[missing]
    report, node.report = node.report, None
    await cluster.rounds(2)
    assert cluster.losers() == {}
    node.report = report
    await cluster.rounds(1)
    assert cluster.losers() == {"c": [("a", "b")]}


async def test_a_verdict_about_another_view_is_not_obeyed():
    cluster = Cluster("ab", "c", a=1)
    c = cluster.nodes["c"]
    reported = c.report
    answers = iter([reported, PartitionReport("c", ("c",), (6, "c", 1), ("a", "b"), 0)])
    c.healing._own_report = lambda: next(answers)
    await cluster.rounds(1)
    assert cluster.losers() == {}
