"""Connections of the stream protocol in the management API, their publishers and consumers."""

import asyncio
from base64 import b64encode

import aiohttp
import pytest

from leveret.broker.queues.contract.queue_kinds import INSTALLED
from leveret.testing.embedded import EmbeddedBroker
from tests.fakes.stream_queue import STREAMS
from tests.mgmt.ctl_command import run_command
from tests.protocol.stream_peer import StreamPeer

QUEUE = {"name": "s", "vhost": "/"}


@pytest.fixture
async def embedded(monkeypatch):
    monkeypatch.setitem(INSTALLED.own, "stream", lambda: STREAMS)
    async with EmbeddedBroker(management_port=0) as embedded:
        yield embedded


@pytest.fixture
async def client(embedded):
    """A client with a publisher and a consumer of the stream `s`."""
    client = await StreamPeer(embedded.broker).open()
    await client.create("s")
    await client.declare_publisher(7, "s", "orders")
    await client.subscribe(3, "s", credit=2, name="app")
    client.publish(7, (1, "a"), (2, "b"))
    await client.frames()
    return client


@pytest.fixture
async def get(embedded):
    """The JSON at a path of the API."""
    login = {"Authorization": "Basic " + b64encode(b"guest:guest").decode()}
    async with aiohttp.ClientSession(embedded.management_url, headers=login) as session:

        async def get(path, method="GET"):
            async with session.request(method, f"/api{path}") as response:
                return await response.json() if response.content_length else response.status

        yield get


async def test_connections(client, get):
    (shown,) = await get("/stream/connections/%2F")
    assert (shown["protocol"], shown["frame_max"], shown["user"]) == ("stream", 1_048_576, "guest")
    assert "type" not in shown
    assert shown["client_properties"] == {"product": "test"}
    assert [one["name"] for one in await get("/connections")] == [shown["name"]]
    assert (await get(f"/stream/connections/%2F/{shown['name']}"))["name"] == shown["name"]
    assert (await get("/stream/connections/%2F/none"))["error"] == "Object Not Found"


async def test_publishers(client, get):
    (shown,) = await get("/stream/publishers")
    assert shown.pop("connection_details")["name"] == client.connection.name
    assert shown == {
        "queue": QUEUE, "publisher_id": 7, "reference": "orders", "published": 2, "confirmed": 2,
        "errored": 0,
    }  # fmt: skip
    assert len(await get("/stream/publishers/%2F/s")) == 1
    assert await get("/stream/publishers/%2F/other") == []
    name = client.connection.name
    assert len(await get(f"/stream/connections/%2F/{name}/publishers")) == 1


async def test_consumers(client, get):
    (shown,) = await get("/stream/consumers")
    assert shown.pop("connection_details")["user"] == "guest"
    assert shown == {
        "queue": QUEUE, "subscription_id": 3, "credits": 1, "consumed": 2, "offset": 2,
        "offset_lag": 0, "offset_lag_ms": 0, "active": True, "activity_status": "up",
        "properties": {"name": "app"},
    }  # fmt: skip
    name = client.connection.name
    assert len(await get(f"/stream/connections/%2F/{name}/consumers")) == 1
    assert len(await get("/stream/consumers/%2F/s")) == 1
    assert await get("/stream/consumers/%2F/other") == []


async def test_consumers_are_listed_beside_those_of_channels(client, get):
    await client.subscribe(4, "s")
    first, second = await get("/consumers/%2F")
    channel = first.pop("channel_details")
    assert (channel["connection_name"], channel["name"], channel["number"]) == (
        client.connection.name, "", 0,
    )  # fmt: skip
    assert first == {
        "arguments": {"name": "app"}, "ack_required": False, "active": True,
        "activity_status": "up", "consumer_tag": "stream.subid-3", "consumer_timeout": None,
        "exclusive": False, "prefetch_count": 0, "queue": QUEUE, "credit": 1,
        "messages_unacknowledged": 0, "stalled_since": None, "has_channel": False, "offset": 2,
        "offset_lag": 0, "offset_lag_ms": 0,
    }  # fmt: skip
    assert second["consumer_tag"] == "stream.subid-4"
    details = (await get("/queues/%2F/s"))["consumer_details"]
    assert [one["consumer_tag"] for one in details] == ["stream.subid-3", "stream.subid-4"]


async def test_consumers_that_are_behind(client, get):
    client.publish(7, (3, "c"))
    await client.frames()
    for number, credit in ((4, 0), (5, 1)):
        await client.subscribe(number, "s", credit=credit)
    await client.frames()
    shown = {one["subscription_id"]: one for one in await get("/stream/consumers")}
    assert (shown[4]["offset_lag"], shown[4]["offset_lag_ms"]) == (3, None)
    assert shown[5]["offset_lag"] == 1
    assert shown[5]["offset_lag_ms"] >= 0


async def test_closing_a_connection(client, get):
    name = client.connection.name
    assert await get(f"/stream/connections/%2F/{name}", "DELETE") == 204
    assert await client.frames() == []
    assert await get("/stream/connections") == []


@pytest.fixture
async def ctl(embedded):
    """Runs a command on the node; returns its rows."""
    login = ("--url", embedded.management_url, "--username", "guest", "--password", "guest")

    async def run(*arguments):
        done = await asyncio.to_thread(run_command, "--quiet", *login, *arguments)
        assert done.returncode == 0, done
        return [line.split("\t") for line in done.stdout.splitlines()]

    return run


@pytest.fixture
async def ctl_fails(embedded):
    """Runs a command that fails; returns its exit code and its error."""
    login = ("--url", embedded.management_url, "--username", "guest", "--password", "guest")

    async def run(*arguments):
        done = await asyncio.to_thread(run_command, "--quiet", *login, *arguments)
        return done.returncode, done.stderr

    return run


async def test_commands_that_list_them(client, ctl):
    name = client.connection.name
    assert await ctl("list_stream_connections") == [["conn_name"], [name]]
    columns = ("stream", "publisher_id", "reference", "messages_confirmed")
    assert (await ctl("list_stream_publishers", *columns))[1:] == [["s", "7", "orders", "2"]]
    columns = ("subscription_id", "messages_consumed", "active", "properties")
    assert (await ctl("list_stream_consumers", *columns))[1:] == [["3", "2", "true", "name: app"]]
    header, row = await ctl("list_stream_consumers")
    assert dict(zip(header, row, strict=True))["offset_lag"] == "0"


async def test_commands_for_groups_of_consumers(client, ctl, ctl_fails):
    assert await ctl("list_stream_consumer_groups") == []
    group = {"single_active_consumer": "true", "name": "app"}
    for number in (4, 5):
        await client.subscribe(number, "s", **group)
    await client.frames()
    assert (await ctl("list_stream_consumer_groups"))[1:] == [["s", "app", "-1", "2"]]
    of_group = ("--stream", "s", "--reference", "app")
    rows = await ctl("list_stream_group_consumers", *of_group, "subscription_id", "state")
    assert rows[1:] == [["4", "active"], ["5", "inactive"]]
    assert await ctl("activate_stream_consumer", *of_group) == [["OK"]]
    other = ("--stream", "s", "--reference", "other")
    for name in ("list_stream_group_consumers", "activate_stream_consumer"):
        assert await ctl_fails(name, *other) == (69, "Error:\nThe group does not exist\n")
        code, said = await ctl_fails(name, "--stream", "s")
        assert (code, "not enough arguments." in said) == (64, True)
