"""Queues that have too few members get more, when there are nodes for them."""

import asyncio
from types import SimpleNamespace

import pytest

from leveret.broker.config.cluster_settings import MembershipReconciliation
from leveret.broker.runtime.virtual_clock import VirtualClock
from leveret.cluster.quorum.group_sizes import target_size
from leveret.cluster.replicated_queues.member_placement import NodeLoad
from leveret.cluster.replicated_queues.membership import ChangeRefused
from leveret.cluster.replicated_queues.membership_record import new_record
from leveret.cluster.replicated_queues.reconciliation import Reconciliation, missing

NODES = [
    NodeLoad("a", True, 9, 5),
    NodeLoad("b", True, 2, 2),
    NodeLoad("c", False, 0, 0),
    NodeLoad("d", True, 1, 2),
    NodeLoad("e", True, 5, 9),
]


@pytest.mark.parametrize(
    ("members", "target", "needed"),
    [
        ("a", 3, ("d", True)),
        ("ad", 3, ("b", True)),
        ("abd", 3, None),
        ("abd", 5, None),
        ("abdc", 5, ("e", True)),
        ("a", 0, None),
    ],
    ids=["fewest members", "next", "enough", "it would be even", "odd again", "no target"],
)
def test_a_queue_gets_members_on_the_nodes_that_have_few(members, target, needed):
    assert missing(tuple(members), NODES, target, removes=True) == needed


def test_members_on_nodes_that_are_gone_are_removed_if_that_is_wanted():
    assert missing(("a", "x"), NODES, 2, removes=True) == ("x", False)
    assert missing(("a", "x"), NODES, 2, removes=False) is None
    assert missing(("x",), NODES, 0, removes=True) is None, "the last one stays"


def test_the_target_is_the_highest_of_policy_and_argument():
    argument = {"x-quorum-target-group-size": ("l", 5)}
    assert target_size({}, {}) == 0
    assert target_size(argument, {}) == 5
    assert target_size(argument, {"target-group-size": 7}) == 7


class Cluster:
    """Nodes, one queue that is led here, and what is asked for."""

    def __init__(self):
        self.asked = []
        self.queue = SimpleNamespace(
            record=new_record(("a",)), vhost="/", queue=SimpleNamespace(name="q")
        )

    def loads(self):
        return NODES

    def led_here(self):
        return [self.queue]

    def target_size(self, queue):
        return 0

    async def add(self, vhost, name, node):
        self.asked.append((vhost, name, node))
        if len(self.asked) == 1:
            raise ChangeRefused("node_not_running")
        self.queue.record = self.queue.record.with_member(node)


async def test_it_looks_after_the_interval_and_soon_again_after_a_change():
    clock, cluster = VirtualClock(), Cluster()
    settings = MembershipReconciliation(
        is_enabled=True, interval_ms=1_000, trigger_interval_ms=10, target_group_size=3
    )
    looks = Reconciliation(settings, clock, cluster, cluster)
    clock.advance(0.999)
    assert cluster.asked == []
    for delay_ms, asked in ((1, 1), (10, 2), (10, 3), (10, 3)):
        clock.advance(delay_ms / 1000)
        for _ in range(5):
            await asyncio.sleep(0)
        assert len(cluster.asked) == asked
    assert cluster.queue.record.nodes == ("a", "d", "b")
    cluster.queue.record = new_record(("a",))
    looks.trigger()
    clock.advance(0.01)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert len(cluster.asked) == 4
    looks.close()


def test_without_the_setting_it_never_looks():
    clock = VirtualClock()
    looks = Reconciliation(MembershipReconciliation(), clock, None, None)
    looks.trigger()
    clock.advance(10_000)
    looks.close()
