"""While a stopped node changes its membership, nothing starts its broker or touches its files."""

import asyncio

import pytest

from leveret.broker.config import Config, TcpSettings
from leveret.broker.node.broker import Broker
from leveret.mgmt.running_node import NodeError, RunningNode

ANOTHER_COMMAND = "another command is changing the node's membership"


@pytest.fixture
async def node(tmp_path):
    config = Config(tcp=TcpSettings(listeners=()))
    made = RunningNode(config, lambda: Broker(config), tmp_path)
    yield made
    await made.stop_broker()


async def test_a_start_waits_for_the_change(node):
    async with node.while_stopped():
        start = asyncio.ensure_future(node.start_broker())
        for _ in range(10):
            await asyncio.sleep(0)
        assert node.broker is None
    assert await start is node.broker


async def test_a_stop_ends_a_start_that_waits_for_the_change(node):
    async with node.while_stopped():
        start = asyncio.ensure_future(node.start_broker())
        await asyncio.sleep(0)
        stop = asyncio.ensure_future(node.stop_broker())
        await asyncio.sleep(0)
    with pytest.raises(NodeError, match="was stopped while it was starting"):
        await start
    await stop
    assert node.is_stopped


async def test_another_change_is_refused_until_the_first_has_ended(node, tmp_path):
    (tmp_path / "store").write_text("definitions")
    async with node.while_stopped():
        with pytest.raises(NodeError, match=ANOTHER_COMMAND):
            node.reset()
        with pytest.raises(NodeError, match=ANOTHER_COMMAND):
            await node.while_stopped().__aenter__()
    assert (tmp_path / "store").exists()
    node.reset()
    assert not (tmp_path / "store").exists()


async def test_a_change_that_fails_leaves_the_node_stopped(node):
    with pytest.raises(OSError, match="no link"):
        async with node.while_stopped():
            raise OSError("no link")
    assert node.is_stopped
    await node.start_broker()
