"""Nodes in etcd: their keys and leases, the user, and the startup lock."""

import asyncio
import base64
import json

import pytest

from leveret.broker.config.formation_settings import EtcdSettings
from leveret.broker.config.tls_settings import ClientTlsOptions
from leveret.broker.runtime.node_address import NodeAddress
from leveret.cluster.discovery.discovery import DiscoveryError
from leveret.cluster.discovery.etcd import Etcd
from leveret.cluster.discovery.etcd_api import EtcdApi
from leveret.cluster.discovery.etcd_lock import EtcdLock
from tests.unit.cluster.discovery.etcd_server import EtcdServer
from tests.unit.cluster.discovery.json_server import Answer

OWN, OTHER = NodeAddress("rabbit@one"), NodeAddress("rabbit@two", 25673)
NODES = "/rabbitmq/discovery/rabbitmq/clusters/default/nodes"


@pytest.fixture
async def server():
    async with EtcdServer().running() as server:
        yield server


@pytest.fixture
async def make():
    """Makes backends, given a server and settings."""
    made = []

    def make_one(server, own=OWN, **settings):
        endpoints = (server.url.removeprefix("http://"),)
        made.append(Etcd(EtcdSettings(endpoints=endpoints, **settings), own))
        return made[-1]

    yield make_one
    for one in made:
        await one.close()


def text_of(encoded):
    return base64.b64decode(encoded).decode()


def encoded(text):
    return base64.b64encode(text.encode()).decode()


async def listed(etcd):
    return [str(node) for node in (await etcd.list_nodes()).nodes]


# Keys and leases


async def test_a_node_registers_with_a_key_that_hangs_on_a_lease(server, make):
    await make(server, OTHER).registration.register()
    assert server.lines == ["POST /v3/lease/grant", "POST /v3/kv/put"]
    assert server.asked[0].body == {"TTL": 61}
    put, (lease,) = server.asked[1].body, server.leases
    assert text_of(put["key"]) == f"{NODES}/rabbit@two"
    assert json.loads(text_of(put["value"])) == {
        "node": "rabbit@two", "lease_id": int(lease), "ttl": 61, "port": 25673,
    }  # fmt: skip
    assert put["lease"] == lease


async def test_nodes_of_the_cluster_are_listed_with_their_ports(server, make):
    for own in (OTHER, OWN):
        await make(server, own).registration.register()
    await make(server, cluster_name="other").registration.register()
    assert await listed(make(server)) == ["rabbit@one", "rabbit@two:25673"]


async def test_no_keys_are_no_nodes(server, make):
    assert await listed(make(server)) == []


async def test_the_prefix_is_a_word_of_the_keys(server, make):
    await make(server, key_prefix="burrow", cluster_name="west").registration.register()
    key = text_of(server.asked[-1].body["key"])
    assert key == "/rabbitmq/discovery/burrow/clusters/west/nodes/rabbit@one"


@pytest.mark.parametrize("value", ["", "no json", "{}", '{"node": 7}', '{"node": "nameless"}'])
async def test_a_value_that_names_no_node_is_left_out(server, make, value, caplog):
    await make(server).registration.register()
    server.keys[encoded(f"{NODES}/rabbit@two")] = encoded(value)
    assert await listed(make(server)) == ["rabbit@one"]
    assert "ignoring a key in etcd that does not name a node" in caplog.text


async def test_the_lease_is_kept_alive_at_a_third_of_its_time(server, make):
    registration = make(server, node_ttl_s=90).registration
    assert registration.renewal_interval_s == 30
    await registration.register()
    await registration.renew()
    assert server.lines[-1] == "POST /v3/lease/keepalive"


async def test_a_lease_is_not_shorter_than_15_seconds(server, make):
    await make(server, node_ttl_s=1).registration.register()
    assert server.asked[0].body == {"TTL": 15}


async def test_a_node_whose_lease_expired_registers_again(server, make):
    etcd = make(server)
    await etcd.registration.register()
    server.expire(*server.leases)
    assert await listed(etcd) == []
    await etcd.registration.renew()
    assert await listed(etcd) == ["rabbit@one"]


async def test_a_node_that_could_not_register_does_so_at_its_renewal(server, make):
    etcd = make(server)
    await etcd.registration.renew()
    assert await listed(etcd) == ["rabbit@one"]


async def test_a_node_that_stops_removes_its_key_and_its_lease(server, make):
    etcd = make(server)
    await etcd.registration.register()
    await etcd.registration.unregister()
    assert (server.keys, server.leases) == ({}, {})


# Users and servers


async def test_a_token_is_fetched_once_and_again_when_it_is_no_longer_known(make):
    async with EtcdServer({"leporid": "passw0rd"}).running() as server:
        etcd = make(server, username="leporid", password="passw0rd")
        await etcd.list_nodes()
        await etcd.list_nodes()
        server.tokens[0] = "expired"
        await etcd.list_nodes()
    authentications = server.lines.count("POST /v3/auth/authenticate")
    assert (authentications, server.tokens) == (2, ["expired", "token-1"])


@pytest.mark.parametrize("settings", [{}, {"username": "leporid", "password": "wr0ng"}])
async def test_a_wrong_user_is_told_without_the_password(make, settings):
    async with EtcdServer({"leporid": "passw0rd"}).running() as server:
        with pytest.raises(DiscoveryError) as error:
            await make(server, **settings).list_nodes()
    assert "check cluster_formation.etcd.username and password" in str(error.value)
    assert "wr0ng" not in str(error.value)


async def test_the_host_is_one_more_server(server, make):
    down = EtcdSettings(endpoints=("127.0.0.1:1",), **server.host_and_port)
    etcd = Etcd(down, OWN)
    assert await listed(etcd) == []
    await etcd.close()


@pytest.mark.parametrize(
    ("settings", "scheme"),
    [
        ({}, "http"),
        ({"scheme": "https"}, "https"),
        ({"tls": ClientTlsOptions(verify="verify_none")}, "https"),
    ],
)
async def test_tls_is_used_if_one_of_its_options_is_set(settings, scheme):
    api = EtcdApi(EtcdSettings(endpoints=("127.0.0.1:1",), **settings))
    with pytest.raises(DiscoveryError, match=f"POST {scheme}://127.0.0.1:1/v3/lease/grant"):
        await api.grant_lease(15)
    await api.close()


# The lock


async def test_the_lock_hangs_on_a_lease_that_is_kept_alive(server, make):
    lock = make(server).lock
    await lock.acquire()
    assert server.lines == [
        "POST /v3/lease/grant", "POST /v3/lock/lock", "POST /v3/lease/keepalive"
    ]  # fmt: skip
    assert server.asked[0].body == {"TTL": 70}
    name = text_of(server.asked[1].body["name"])
    assert name == "/rabbitmq/locks/rabbitmq/clusters/default/registration"
    await lock.release()
    key = text_of(server.asked[3].body["key"])
    assert key.startswith(f"{name}/")
    assert (server.holder, server.leases) == ("", {})


async def test_a_node_waits_until_the_holder_unlocks(server, make):
    first, second = make(server).lock, make(server).lock
    await first.acquire()
    waiting = asyncio.ensure_future(second.acquire())
    while not server.waiting:
        await asyncio.sleep(0)
    assert not waiting.done()
    await first.release()
    await waiting
    assert server.holder in server.leases


async def test_a_lock_that_is_not_to_be_had_is_an_error_and_its_lease_ends(server, make):
    await make(server).lock.acquire()
    (held,) = server.leases
    endpoints = (server.url.removeprefix("http://"),)
    api = EtcdApi(EtcdSettings(endpoints=endpoints), request_s=0.5)
    lock = EtcdLock(EtcdSettings(lock_timeout_s=0), api, timeout_min_s=0)
    with pytest.raises(
        DiscoveryError, match="the lock /rabbitmq/locks/.* another node is starting"
    ):
        await lock.acquire()
    assert set(server.leases) == {held}
    await api.close()


async def test_a_lock_that_was_lost_is_told(server, make):
    lock = make(server).lock
    await lock.acquire()
    server.expire(*server.leases)
    with pytest.raises(DiscoveryError, match="the lease of the lock had expired"):
        await lock.renew()


async def test_an_answer_of_another_shape_is_an_error(server, make):
    server.answers["POST /v3/lease/grant"] = Answer({"lease": 1})
    with pytest.raises(DiscoveryError, match="is not one of etcd .*missing required field `ID`"):
        await make(server).registration.register()
