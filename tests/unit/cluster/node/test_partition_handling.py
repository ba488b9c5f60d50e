"""`cluster_partition_handling` at running nodes: who goes on, who pauses, who gives way."""

import asyncio
from types import SimpleNamespace

import pytest

from leveret.broker.config.cluster_settings import (
    AUTOHEAL,
    IGNORE,
    PAUSE_IF_ALL_DOWN,
    ClusterSettings,
)
from leveret.broker.runtime.node_address import NodeAddress
from leveret.broker.runtime.virtual_clock import VirtualClock
from leveret.cluster.metadata.messages import ViewMember
from leveret.cluster.metadata.ordered_log import OrderedLog
from leveret.cluster.metadata.replication import MetadataReplication
from leveret.cluster.node.partition_handling import PartitionHandling
from leveret.cluster.partitions.healing import ROUND_MS
from leveret.cluster.rpc.rpc import Rpc
from tests.linked_nodes import LinkServices
from tests.linked_rpc import FakePeer

CLUSTER = {"a": True, "b": True, "c": True}


class Sync:
    def when_synced(self, callback):
        callback(None)


class Node:
    """A node that runs alone on its side. restarts: how it was to start again, each time."""

    def __init__(self, name, recover, connections):
        self.restarts, self.clock, self.gave_way_to = [], VirtualClock(), ()
        counts = SimpleNamespace(connections_opened=connections, connections_closed=0)
        self.rpc = Rpc(LinkServices())
        settings = ClusterSettings(
            partition_handling=PAUSE_IF_ALL_DOWN, pause_if_all_down_recover=recover,
            pause_if_all_down_nodes=(NodeAddress("a", None), NodeAddress("b", None)),
        )  # fmt: skip
        self.handling = PartitionHandling(
            settings, SimpleNamespace(clock=self.clock, counts=counts), self.rpc, name,
            SimpleNamespace(all={"a": True, "b": True}), SimpleNamespace(), self, Sync(),
            self.restarts.append,
        )  # fmt: skip
        replication = MetadataReplication(
            ViewMember(name, 1), OrderedLog(10), None, frozenset(CLUSTER)
        )
        replication.form()
        self.handling.begin(replication)

    def give_way(self, takes_from):
        self.gave_way_to = takes_from


async def after_contact(recover):
    """Two listed nodes that have gone on without each other, some rounds after contact."""
    a, b = Node("a", recover, 1), Node("b", recover, 5)
    to_a, to_b = FakePeer("a"), FakePeer("b")
    to_b.other_end, to_a.other_end = (b.rpc, to_a), (a.rpc, to_b)
    a.rpc.peer_up(to_b)
    b.rpc.peer_up(to_a)
    for one, other in ((a, "b"), (b, "a")):
        one.handling.partitioned((other,))
    for _ in range(3):
        for one in (a, b):
            one.clock.advance(ROUND_MS / 1000)
            one.handling.tick()
        for _ in range(20):
            await asyncio.sleep(0)
    for one in (a, b):
        await one.handling.stop()
    return a, b


async def test_sides_that_both_had_a_listed_node_heal_by_themselves():
    a, b = await after_contact(AUTOHEAL)
    assert a.gave_way_to == ("b",)
    assert [(one.is_patient, one.takes_from) for one in a.restarts[:1]] == [(True, ("b",))]
    assert b.restarts == []


async def test_sides_that_both_had_a_listed_node_wait_for_an_operator():
    a, b = await after_contact(IGNORE)
    assert a.restarts == b.restarts == []
    assert a.handling.partitioned_from == ("b",)
    assert b.handling.partitioned_from == ("a",)


@pytest.mark.parametrize("recover", [AUTOHEAL, IGNORE])
async def test_a_side_without_a_listed_node_does_not_go_on(recover, caplog):
    node = Node("c", recover, 0)
    assert node.handling.may_go_on(frozenset("bc"))
    assert not node.handling.may_go_on(frozenset("c"))
    node.handling.pause(("c",))
    assert [(one.is_patient, one.takes_from) for one in node.restarts] == [(True, ())]
    assert "cluster_partition_handling is pause_if_all_down" in caplog.text
