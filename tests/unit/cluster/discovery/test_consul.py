"""Nodes in Consul: how a node is registered, which instances are nodes, and the startup lock."""

import asyncio
import logging
import socket
from dataclasses import replace

import pytest

from leveret.broker.config.formation_settings import ConsulSettings
from leveret.broker.config.setting_error import SettingError
from leveret.broker.runtime.node_address import NodeAddress
from leveret.cluster.discovery.consul import Consul
from leveret.cluster.discovery.discovery import DiscoveryError
from leveret.cluster.discovery.node_names import NodeNames
from tests.unit.cluster.discovery.consul_server import ConsulServer
from tests.unit.cluster.discovery.fakes import SleepByHand
from tests.unit.cluster.discovery.json_server import Answer

OWN = NodeAddress("rabbit@one")
LOCK = "/v1/kv/rabbitmq/default/startup_lock"


@pytest.fixture
async def server():
    async with ConsulServer(token="t0ken").running() as server:
        yield server


@pytest.fixture
async def make(server):
    """Makes backends, given settings."""
    made = []

    def make_one(own=OWN, **settings):
        given = {"acl_token": "t0ken", **server.host_and_port, **settings}
        made.append(Consul(ConsulSettings(**given), own, NodeNames(own.name)))
        return made[-1]

    yield make_one
    for one in made:
        await one.close()


async def listed(consul):
    return [str(node) for node in (await consul.list_nodes()).nodes]


# Registration


async def test_a_node_registers_with_a_check_and_passes_it(server, make):
    await make(svc_addr="10.0.0.1", deregister_after_s=90).registration.register()
    assert server.lines == [
        "PUT /v1/agent/service/register",
        "PUT /v1/agent/check/pass/service:rabbitmq:10.0.0.1",
    ]
    assert server.asked[0].body == {
        "ID": "rabbitmq:10.0.0.1",
        "Name": "rabbitmq",
        "Port": 5672,
        "Address": "10.0.0.1",
        "Check": {
            "Notes": "Leveret peer discovery: the node renews this check while it runs",
            "TTL": "30s",
            "Status": "passing",
            "DeregisterCriticalServiceAfter": "90s",
        },
    }


async def test_a_service_without_an_address_has_the_name_of_the_service_as_its_id(server, make):
    await make(svc="burrow").registration.register()
    assert server.asked[0].body["ID"] == "burrow"
    assert "Address" not in server.asked[0].body


@pytest.mark.parametrize(
    ("cluster", "tags", "meta", "expected"),
    [
        ("default", (), (), (None, None)),
        ("west", ("amqp",), (), (["west", "amqp"], None)),
        ("default", (), (("zone", "b"),), (None, {"zone": "b"})),
        ("west", (), (("zone", "b"),), (["west"], {"cluster": "west", "zone": "b"})),
    ],
)
async def test_the_clusters_name_is_a_tag(server, make, cluster, tags, meta, expected):
    await make(cluster_name=cluster, svc_tags=tags, svc_meta=meta).registration.register()
    body = server.asked[0].body
    assert (body.get("Tags"), body.get("Meta")) == expected


@pytest.mark.parametrize(
    ("settings", "address"),
    [
        ({"svc_addr_auto": True}, socket.gethostname()),
        ({"svc_addr_auto": True, "svc_addr_use_nodename": True}, "one"),
        ({"svc_addr_nic": "lo"}, "127.0.0.1"),
        ({"svc_addr": "10.0.0.9", "svc_addr_nic": "lo"}, "127.0.0.1"),
    ],
)
async def test_the_address_can_be_found_out(server, make, settings, address):
    await make(**settings).registration.register()
    assert server.asked[0].body["Address"] == address


async def test_an_interface_that_is_missing_is_a_mistake_of_its_setting(make):
    with pytest.raises(SettingError, match="the interface no0 has no IPv4 address") as error:
        make(svc_addr_nic="no0")
    assert error.value.attribute == "cluster_formation.consul.svc_addr_nic"


async def test_the_check_is_passed_at_half_of_its_time(server, make):
    registration = make(svc_ttl_s=40).registration
    assert registration.renewal_interval_s == 20
    await registration.register()
    server.statuses["rabbitmq"] = "critical"
    await registration.renew()
    assert server.statuses["rabbitmq"] == "passing"


@pytest.mark.parametrize("status", [404, 500])
async def test_a_node_that_the_agent_does_not_know_registers_again(server, make, status):
    registration = make().registration
    await registration.register()
    server.services.clear()
    server.unknown_status = status
    await registration.renew()
    assert set(server.services) == {"rabbitmq"}


async def test_a_node_that_stops_is_removed(server, make):
    registration = make(svc_addr="10.0.0.1").registration
    await registration.register()
    await registration.unregister()
    assert server.services == {}
    assert server.lines[-1] == "PUT /v1/agent/service/deregister/rabbitmq:10.0.0.1"


# The list


async def test_nodes_are_named_by_their_addresses_or_by_the_hosts_of_their_agents(server, make):
    await make(svc_addr="two.example.org").registration.register()
    await make(svc="rabbitmq").registration.register()
    server.services["rabbitmq"]["Host"] = "three.internal.domain"
    assert await listed(make()) == ["rabbit@three", "rabbit@two"]
    assert server.asked[-1].query == {"passing": "1"}


async def test_the_port_of_a_nodes_links_is_kept(make):
    await make(OWN._replace(port=25673), svc_addr="one").registration.register()
    assert await listed(make()) == ["rabbit@one:25673"]


async def test_long_names_are_those_of_consuls_dns(server, make):
    await make().registration.register()
    server.services["rabbitmq"]["Host"] = "three"
    long = make(use_longname=True, domain_suffix="burrow")
    assert await listed(long) == ["rabbit@three.node.burrow"]


async def test_nodes_of_other_clusters_are_not_asked_for(server, make):
    await make(svc_addr="one", cluster_name="west").registration.register()
    await make(svc_addr="two", cluster_name="east").registration.register()
    assert await listed(make(cluster_name="east")) == ["rabbit@two"]
    assert server.asked[-1].query == {"passing": "1", "tag": "east"}


@pytest.mark.parametrize(("included", "expected"), [(False, []), (True, ["rabbit@one"])])
async def test_nodes_with_warnings_count_if_that_is_configured(server, make, included, expected):
    for number, status in (("one", "warning"), ("two", "critical")):
        await make(svc_addr=number).registration.register()
        server.statuses[f"rabbitmq:{number}"] = status
    assert await listed(make(include_nodes_with_warnings=included)) == expected


async def test_a_wrong_token_is_told_and_not_shown(make, caplog):
    with pytest.raises(DiscoveryError) as error:
        await make(acl_token="wr0ng").list_nodes()
    assert "answered with status 403 (Permission denied" in str(error.value)
    assert "check cluster_formation.consul.acl_token" in str(error.value)
    assert "wr0ng" not in str(error.value) + caplog.text


@pytest.mark.parametrize("content", [{}, [{"Service": {}}], [{"Node": {"Node": 7}, "Service": {}}]])
async def test_an_answer_of_another_shape_is_an_error(server, make, content):
    server.answers["GET /v1/health/service/rabbitmq"] = Answer(content)
    with pytest.raises(DiscoveryError, match="is not one of Consul"):
        await make().list_nodes()


# The lock


async def test_the_lock_is_a_key_that_a_session_of_the_node_holds(server, make):
    lock = make().lock
    await lock.acquire()
    assert server.sessions == {"session-0": {"Name": "rabbit@one", "TTL": "30s"}}
    assert server.holder == "session-0"
    assert server.lines == ["PUT /v1/session/create", f"PUT {LOCK}"]
    await lock.renew()
    assert server.lines[-1] == "PUT /v1/session/renew/session-0"
    await lock.release()
    assert (server.holder, server.sessions) == ("", {})


async def test_a_node_waits_until_the_holder_releases_the_lock(server, make, caplog):
    first, second = make().lock, make().lock
    await first.acquire()
    with caplog.at_level(logging.INFO):
        waiting = asyncio.ensure_future(second.acquire())
        while "another new node holds the startup lock" not in caplog.text:
            await asyncio.sleep(0)
        await first.release()
        await waiting
    assert server.holder == "session-1"


async def test_a_lock_without_a_holder_that_is_refused_is_asked_for_again_after_a_second(
    server, make
):
    lock = make().lock
    lock._sleep = sleep = SleepByHand()
    server.answers[f"PUT {LOCK}"] = Answer(False)
    asking = asyncio.ensure_future(lock.acquire())
    while len(sleep.slept) < 2:
        await asyncio.sleep(0)
    server.answers.clear()
    await asking
    assert set(sleep.slept) == {1.0}


async def test_a_lock_that_is_held_for_too_long_is_an_error_and_the_session_ends(server, make):
    server.holder = "of-another-node"
    with pytest.raises(DiscoveryError, match="another node has held rabbitmq/default/startup_lock"):
        await make(lock_timeout_s=0).lock.acquire()
    assert server.sessions == {}


async def test_a_lock_that_was_lost_is_told_when_it_is_released(server, make):
    lock = make().lock
    await lock.acquire()
    server.change("of-another-node")
    with pytest.raises(DiscoveryError, match="the session of the lock had expired"):
        await lock.release()


@pytest.mark.parametrize(("ttl_s", "expected"), [(1, "10s"), (100_000, "86400s")])
async def test_the_time_of_a_session_is_within_consuls_bounds(server, make, ttl_s, expected):
    await make(svc_ttl_s=ttl_s).lock.acquire()
    assert server.sessions["session-0"]["TTL"] == expected


def test_the_token_is_not_in_the_settings_text():
    assert "t0ken" not in repr(replace(ConsulSettings(), acl_token="t0ken"))
