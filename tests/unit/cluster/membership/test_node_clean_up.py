"""Members that are down and no longer listed are removed after each interval."""

import asyncio

import pytest

from leveret.broker.config.formation_settings import FormationSettings
from leveret.broker.runtime.virtual_clock import VirtualClock
from leveret.cluster.discovery.cleanup import CleanUp
from leveret.cluster.membership.membership_changes import ClusterError
from leveret.cluster.membership.node_clean_up import NodeCleanUp
from tests.unit.cluster.discovery.fakes import FakeDiscovery

REMOVING = FormationSettings(cleanup_interval_s=5, cleanup_only_logs=False)


class CleanedCluster:
    """A cluster of three, and what the clean-up of one of them does. alive: a runs."""

    def __init__(self, discovery, settings=REMOVING):
        self.members = {"a@host", "b@host", "c@host"}
        self.alive = {"a@host"}
        self.refused = set()
        self.clock = VirtualClock()
        self.clean_up = NodeCleanUp(
            CleanUp(settings, discovery), self.clock, lambda: tuple(self.members),
            lambda: frozenset(self.alive), self.forget,
        )  # fmt: skip
        self.clean_up.start()

    async def forget(self, name):
        if name in self.refused:
            raise ClusterError(f"node {name} is running")
        self.members.remove(name)

    async def pass_interval(self):
        self.clock.advance(5_000)
        for _ in range(5):
            await asyncio.sleep(0)


async def test_a_node_that_is_gone_for_good_is_removed():
    cluster = CleanedCluster(FakeDiscovery("a@host", "b@host"))
    assert len(cluster.members) == 3
    await cluster.pass_interval()
    assert cluster.members == {"a@host", "b@host"}
    await cluster.clean_up.stop()


async def test_a_node_that_starts_is_not_removed_though_it_is_not_listed_yet():
    cluster = CleanedCluster(FakeDiscovery("a@host", "b@host"))
    cluster.alive.add("c@host")
    await cluster.pass_interval()
    assert len(cluster.members) == 3
    await cluster.clean_up.stop()


async def test_it_is_only_logged_by_default(caplog):
    cluster = CleanedCluster(
        FakeDiscovery("a@host", "b@host"), FormationSettings(cleanup_interval_s=5)
    )
    await cluster.pass_interval()
    assert len(cluster.members) == 3
    assert "node c@host is down and not listed by fake" in caplog.text
    await cluster.clean_up.stop()


async def test_one_that_cannot_be_removed_is_logged_and_the_others_are_removed(caplog):
    cluster = CleanedCluster(FakeDiscovery("a@host"))
    cluster.refused.add("b@host")
    await cluster.pass_interval()
    assert cluster.members == {"a@host", "b@host"}
    assert "failed to remove node b@host: node b@host is running" in caplog.text
    await cluster.clean_up.stop()


@pytest.mark.parametrize("answer", ["it answered 500", ()])
async def test_a_backend_that_fails_is_asked_again_after_the_next_interval(answer):
    cluster = CleanedCluster(FakeDiscovery("a@host", "b@host", answers=[answer]))
    await cluster.pass_interval()
    assert len(cluster.members) == 3
    await cluster.pass_interval()
    assert cluster.members == {"a@host", "b@host"}
    await cluster.clean_up.stop()


async def test_it_does_not_look_after_the_end():
    discovery = FakeDiscovery("a@host")
    cluster = CleanedCluster(discovery)
    await cluster.clean_up.stop()
    await cluster.pass_interval()
    assert discovery.lists == 0
