"""The first start of a node: lock or delay, lists and questions, joining, registering."""

import logging

import pytest

from leveret.broker.config.formation_settings import RAM, FormationSettings
from leveret.cluster.discovery.discovery import DiscoveryError
from leveret.cluster.discovery.formation import PeerState
from leveret.cluster.discovery.forming import Forming
from leveret.cluster.discovery.presence import Presence
from tests.unit.cluster.discovery.fakes import (
    FakeDiscovery,
    FakeLock,
    FakePeers,
    FakeRegistration,
    SleepByHand,
)

SETTINGS = FormationSettings(
    discovery_retry_limit=3,
    discovery_retry_interval_ms=250,
    lock_retry_limit=2,
    lock_retry_timeout_ms=7000,
)
OWN, OTHER = "b@host", "c@host"


class Start:
    """A node that starts, with what it did in `calls` and how long it slept in `slept`."""

    def __init__(self, discovery, peers, settings=SETTINGS):
        sleep = SleepByHand()
        self.slept, self.peers, self.discovery = sleep.slept, peers, discovery
        self.presence = Presence(discovery, OWN, SleepByHand(is_held=True))
        self.forming = Forming(
            OWN, settings, discovery, peers, self.presence, sleep, lambda least, most: least + most
        )

    async def run(self):
        await self.forming.run()
        await self.presence.stop()


async def test_a_node_without_peers_forms_a_cluster_and_is_a_member():
    start = Start(FakeDiscovery(OWN), FakePeers())
    assert start.forming.state_for(OTHER) is PeerState.BLANK
    await start.run()
    assert start.peers.calls == ["form"]
    assert start.forming.state_for(OTHER) is PeerState.MEMBER
    assert start.slept == []


async def test_a_node_joins_as_what_the_backend_says():
    discovery = FakeDiscovery(OWN, OTHER, node_type=RAM)
    start = Start(discovery, FakePeers({OTHER: PeerState.MEMBER}))
    await start.run()
    assert start.peers.calls == [f"join {OTHER} as ram"]
    assert start.forming.state_for(OTHER) is PeerState.MEMBER


async def test_a_backend_that_fails_is_asked_again_after_the_interval():
    start = Start(FakeDiscovery(OWN, answers=["it answered 500", "no answer"]), FakePeers())
    await start.run()
    assert start.peers.calls == ["form"]
    assert start.slept == [0.25, 0.25]


async def test_a_backend_that_always_fails_stops_the_start():
    start = Start(FakeDiscovery(answers=["it answered 500"] * 3), FakePeers())
    with pytest.raises(DiscoveryError, match="b@host neither forms nor joins.*it answered 500"):
        await start.run()
    assert start.peers.calls == []
    assert start.discovery.lists == 3


async def test_nodes_that_cannot_be_reached_are_waited_for_up_to_the_limit():
    start = Start(FakeDiscovery(OWN, OTHER), FakePeers({}))
    await start.run()
    assert start.peers.calls == ["form"]
    assert start.slept == [0.25, 0.25]


async def test_a_cluster_that_refuses_the_node_stops_the_start():
    peers = FakePeers({OTHER: PeerState.MEMBER}, refusing=[OTHER])
    with pytest.raises(DiscoveryError, match="c@host is in a cluster.*the cookies differ"):
        await Start(FakeDiscovery(OWN, OTHER), peers).run()
    assert peers.calls == [f"join {OTHER} as disc"] * 3


async def test_the_lock_is_held_from_before_the_list_until_after_the_registration():
    calls = []
    discovery = FakeDiscovery(
        OWN, lock=FakeLock(calls), registration=FakeRegistration(calls), answers=["no answer"]
    )
    start = Start(discovery, FakePeers(calls=calls))
    await start.run()
    kept = [call for call in calls if call != "renew the lock"]
    assert kept == ["acquire", "form", "register", "release", "unregister"]


async def test_the_lock_is_renewed_while_it_is_held():
    calls = []
    discovery = FakeDiscovery(OWN, OTHER, lock=FakeLock(calls))
    start = Start(discovery, FakePeers({}))
    await start.run()
    assert "renew the lock" in calls[calls.index("acquire") : calls.index("release")]
    assert FakeLock.renewal_interval_s in start.slept


async def test_the_lock_is_released_when_the_start_fails():
    calls = []
    discovery = FakeDiscovery(answers=["no answer"] * 3, lock=FakeLock(calls))
    with pytest.raises(DiscoveryError):
        await Start(discovery, FakePeers()).run()
    assert calls[-1] == "release"


async def test_a_lock_that_is_not_to_be_had_is_tried_again_and_then_stops_the_start():
    calls = []
    discovery = FakeDiscovery(OWN, lock=FakeLock(calls, ["another node has it"] * 2))
    start = Start(discovery, FakePeers())
    with pytest.raises(DiscoveryError, match="did not get the startup lock.*another node has it"):
        await start.run()
    assert start.slept == [7.0]
    assert calls == ["acquire", "acquire"]


async def test_a_backend_without_a_lock_is_asked_after_the_random_delay():
    settings = FormationSettings(startup_delay_min_s=2, startup_delay_max_s=9)
    start = Start(FakeDiscovery(OWN), FakePeers(), settings)
    await start.run()
    assert start.slept == [11]


async def test_a_list_without_the_node_itself_is_warned_of_once(caplog):
    start = Start(FakeDiscovery(OTHER), FakePeers({}))
    with caplog.at_level(logging.WARNING):
        await start.run()
    assert sum("not among the nodes that fake lists" in line for line in caplog.messages) == 1


async def test_a_registration_that_fails_is_an_error_in_the_log_and_the_node_starts(caplog):
    calls = []
    registration = FakeRegistration(calls, failing=["register"])
    await Start(FakeDiscovery(OWN, registration=registration), FakePeers()).run()
    assert "node b@host is not registered with fake: the server is down" in caplog.messages
