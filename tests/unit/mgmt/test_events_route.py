"""Start and end of the event stream, with a node in the test's process."""

import asyncio
import json
import socket

import aiohttp
import pytest

from leveret.broker.config import Config, Listener, TcpSettings
from leveret.broker.node.broker import Broker
from leveret.mgmt.api.server import ManagementServer
from leveret.mgmt.api_names import CONTROL_SOCKET
from leveret.mgmt.running_node import RunningNode
from tests.patience import PATIENCE_SECONDS

URL = "http://node/api/node/events"


@pytest.fixture
async def node():
    config = Config(tcp=TcpSettings(listeners=(Listener("127.0.0.1", 0),)))
    made = RunningNode(config, lambda: Broker(config), None)
    await made.start_broker()
    yield made
    await made.stop_broker()


@pytest.fixture
async def control_socket(node, tmp_path):
    server = ManagementServer(node)
    await server.listen_for_control(tmp_path)
    yield tmp_path / CONTROL_SOCKET
    await server.close()


@pytest.fixture
async def client(control_socket):
    connector = aiohttp.UnixConnector(path=str(control_socket))
    async with aiohttp.ClientSession(connector=connector) as session:
        yield session


async def until(condition):
    """Wait for a condition."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not condition():
            await asyncio.sleep(0.01)


async def test_events_come_as_they_happen(node, client):
    events = node.broker.services.events
    async with client.get(URL) as response:
        assert response.content_type == "application/x-ndjson"
        for number in range(3):
            events.notify("queue.created", {"name": f"q{number}"})
            async with asyncio.timeout(PATIENCE_SECONDS):
                event = json.loads(await response.content.readline())
            assert (event["event"], event["name"]) == ("queue.created", f"q{number}")


async def test_a_client_that_has_gone_is_forgotten_though_nothing_happens(node, client):
    events = node.broker.services.events
    async with client.get(URL):
        assert events.are_wanted
    await until(lambda: not events.are_wanted)


async def test_the_stream_ends_with_the_broker(node, client):
    async with client.get(URL) as response:
        await node.stop_broker()
        async with asyncio.timeout(PATIENCE_SECONDS):
            assert await response.content.read() == b""


async def test_a_client_that_does_not_read_does_not_keep_the_node_from_stopping(
    node, control_socket
):
    events = node.broker.services.events
    with socket.socket(socket.AF_UNIX) as lazy:
        lazy.setblocking(False)
        loop = asyncio.get_running_loop()
        await loop.sock_connect(lazy, str(control_socket))
        await loop.sock_sendall(lazy, b"GET /api/node/events HTTP/1.1\r\nHost: node\r\n\r\n")
        await until(lambda: events.are_wanted)
        for number in range(20_000):
            events.notify("queue.created", {"name": f"{number:01000}"})
            if number % 100 == 0:
                await asyncio.sleep(0)
        assert events.are_wanted
        node.stop_requested.set()
        await until(lambda: not events.are_wanted)
