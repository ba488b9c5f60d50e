"""Nodes by DNS: with a resolver that answers what the test says, and with a name server."""

import asyncio
import shutil
import socket
import subprocess
import sys

import pytest

from leveret.broker.config.formation_settings import FormationSettings
from leveret.broker.runtime.node_address import NodeAddress
from leveret.cluster.discovery.discovery import DiscoveryError
from leveret.cluster.discovery.dns import Dns, SystemResolver
from leveret.cluster.discovery.node_names import NodeNames
from tests.patience import PATIENCE_SECONDS

SETTINGS = FormationSettings(dns_hostname="nodes.example.org", node_type="ram")
NAMES = NodeNames("rabbit@one")


class FakeResolver:
    """addresses: a list, or an error. hosts: by address; an address without one has no name."""

    def __init__(self, addresses, hosts=()):
        self.addresses, self.hosts = addresses, dict(hosts)

    async def addresses_of(self, host):
        assert host == "nodes.example.org"
        if isinstance(self.addresses, Exception):
            raise self.addresses
        return self.addresses

    async def name_of(self, address):
        if address not in self.hosts:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return self.hosts[address]


async def test_nodes_are_the_names_of_the_addresses():
    hosts = {"10.0.0.1": "one.example.org", "10.0.0.2": "two.example.org", "fd00::2": "two"}
    found = await Dns(SETTINGS, NAMES, FakeResolver(list(hosts), hosts)).list_nodes()
    assert found.nodes == (NodeAddress("rabbit@one"), NodeAddress("rabbit@two"))
    assert found.node_type == "ram"


async def test_a_name_without_addresses_lists_no_nodes(caplog):
    error = socket.gaierror(socket.EAI_NONAME, "Name or service not known")
    found = await Dns(SETTINGS, NAMES, FakeResolver(error)).list_nodes()
    assert found.nodes == ()
    assert "the name nodes.example.org (cluster_formation.dns.hostname) has no" in caplog.text


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution"), "Temporary"),
        (TimeoutError(), "no answer within 15 seconds"),
        (UnicodeError("label too long"), "label too long"),
    ],
)
async def test_a_name_server_that_fails_is_an_error(error, reason):
    with pytest.raises(DiscoveryError, match=f"cannot be looked up: {reason}.*check cluster_form"):
        await Dns(SETTINGS, NAMES, FakeResolver(error)).list_nodes()


async def test_an_address_without_a_name_is_left_out(caplog):
    resolver = FakeResolver(["10.0.0.1", "10.0.0.2"], {"10.0.0.2": "two.example.org"})
    found = await Dns(SETTINGS, NAMES, resolver).list_nodes()
    assert found.nodes == (NodeAddress("rabbit@two"),)
    assert "ignoring the address 10.0.0.1 of nodes.example.org" in caplog.text


async def test_addresses_without_any_name_are_an_error():
    with pytest.raises(DiscoveryError, match="none of the addresses 10.0.0.1 .* add PTR records"):
        await Dns(SETTINGS, NAMES, FakeResolver(["10.0.0.1"])).list_nodes()


async def test_the_system_looks_up_addresses_and_names():
    addresses = await SystemResolver().addresses_of("localhost")
    assert set(addresses) & {"127.0.0.1", "::1"}
    assert len(set(addresses)) == len(addresses)


IN_A_NAMESPACE = """
ip link set lo up
mount --bind {resolv} /etc/resolv.conf && mount --bind {hosts} /etc/hosts
mount --bind {switch} /etc/nsswitch.conf
exec {python} -m tests.unit.cluster.discovery.dns_server
"""
NAMESPACE = ["unshare", "--user", "--map-root-user", "--mount", "--net"]


def may_make_namespaces():
    if shutil.which("unshare") is None or shutil.which("ip") is None:
        return False
    tried = subprocess.run([*NAMESPACE, "ip", "link"], capture_output=True, check=False)
    return tried.returncode == 0


@pytest.mark.skipif(not may_make_namespaces(), reason="this user may not make namespaces")
async def test_a_name_server_is_asked_for_a_aaaa_and_ptr_records(tmp_path):
    texts = {
        "resolv": "nameserver 127.0.0.1\n",
        "hosts": "127.0.0.1 localhost\n",
        "switch": "hosts: dns\n",
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    files = {name: tmp_path / name for name in texts}
    script = IN_A_NAMESPACE.format(python=sys.executable, **files)
    process = await asyncio.create_subprocess_exec(
        *NAMESPACE, "sh", "-c", script,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    said, complained = await asyncio.wait_for(process.communicate(), PATIENCE_SECONDS)
    assert said.decode().split() == ["rabbit@one", "rabbit@three", "rabbit@two"], (
        complained.decode()
    )
