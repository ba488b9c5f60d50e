"""The backend against etcd itself, where it is installed (Debian's package etcd-server)."""

import asyncio
import os
import shutil
import subprocess

import pytest

from leveret.broker.config.formation_settings import EtcdSettings
from leveret.broker.runtime.node_address import NodeAddress
from leveret.cluster.discovery.discovery import DiscoveryError
from leveret.cluster.discovery.etcd import Etcd
from tests.patience import PATIENCE_SECONDS
from tests.ports import free_ports

ETCD = shutil.which("etcd") or os.environ.get("LEVERET_TEST_ETCD")
ONE, TWO = NodeAddress("rabbit@one"), NodeAddress("rabbit@two", 25673)

pytestmark = pytest.mark.skipif(not ETCD, reason="etcd is not installed")


@pytest.fixture
async def endpoint(tmp_path):
    """An etcd server, once it answers."""
    client, peer = free_ports(2)
    url = f"http://127.0.0.1:{client}"
    process = await asyncio.create_subprocess_exec(
        ETCD, "--data-dir", tmp_path / "etcd", "--listen-client-urls", url,
        "--advertise-client-urls", url, "--listen-peer-urls", f"http://127.0.0.1:{peer}",
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    async with asyncio.timeout(PATIENCE_SECONDS):
        await answering(f"127.0.0.1:{client}")
    yield f"127.0.0.1:{client}"
    process.terminate()
    await process.wait()


async def answering(endpoint):
    etcd = backend(endpoint, ONE)
    while True:
        try:
            await etcd.list_nodes()
        except DiscoveryError:
            await asyncio.sleep(0.05)
        else:
            await etcd.close()
            return


def backend(endpoint, own):
    return Etcd(EtcdSettings(endpoints=(endpoint,)), own)


async def listed(etcd):
    return [str(node) for node in (await etcd.list_nodes()).nodes]


async def test_nodes_register_expire_come_back_and_take_turns(endpoint):
    one, two = backend(endpoint, ONE), backend(endpoint, TWO)
    for etcd in (one, two):
        await etcd.registration.register()
    assert await listed(one) == ["rabbit@one", "rabbit@two:25673"]
    await one._api.revoke_lease(one.registration._lease)
    assert await listed(two) == ["rabbit@two:25673"]
    await one.registration.renew()
    await two.registration.unregister()
    assert await listed(two) == ["rabbit@one"]

    await one.lock.acquire()
    waiting = asyncio.ensure_future(two.lock.acquire())
    await one.lock.renew()
    assert not waiting.done()
    await one.lock.release()
    await waiting
    await two.lock.release()
    await one.close()
    await two.close()
