"""`stop_app`, or the end of the process, comes while the node waits for others in its start."""

import asyncio
from pathlib import Path

import pytest

from leveret.broker.config import Config
from leveret.broker.node.broker import Broker
from leveret.cluster.startup.start_as import NORMALLY
from leveret.mgmt.running_node import NodeError, RunningNode, StartEnded
from leveret.storage.metadata.metadata import SqliteMetadata
from tests.unit.mgmt.starting_node import PATIENT, Starting


@pytest.fixture
async def starting():
    made = Starting()
    yield made
    await made.stop()


async def test_the_start_ends_and_the_node_is_stopped(starting):
    first = await starting.run(0)
    await starting.node.stop_broker()
    assert first.is_stopped
    assert starting.node.is_stopped
    assert not starting.node.is_booting
    with pytest.raises(StartEnded, match="the broker was stopped while it was starting"):
        await starting.start


async def test_the_node_starts_again_when_it_is_told_to(starting):
    await starting.run(0)
    await starting.node.stop_broker()
    starting.start = asyncio.ensure_future(starting.node.start_broker())
    second = await starting.run(1)
    second.may_start.set()
    broker = await starting.start
    assert starting.node.broker is broker
    assert [listener.port for listener in broker.listening_on] == [starting.port]


async def test_the_restart_of_a_node_that_pauses_ends(starting):
    first = await starting.run(0)
    first.may_start.set()
    await starting.start
    starting.node.restart(PATIENT)
    second = await starting.run(1)
    await starting.node.stop_broker()
    assert second.is_stopped
    assert starting.node.is_stopped
    assert not starting.node.stop_requested.is_set()
    starting.start = asyncio.ensure_future(starting.node.start_broker())
    third = await starting.run(2)
    assert (second.start_as, third.start_as) == (PATIENT, NORMALLY)


async def test_a_restart_that_still_stops_the_broker_starts_none(starting):
    first = await starting.run(0)
    first.may_start.set()
    await starting.start
    starting.node.restart(PATIENT)
    while starting.node.broker is not None:
        await asyncio.sleep(0)
    assert not first.is_stopped
    assert not starting.node.is_stopped
    await starting.node.stop_broker()
    assert first.is_stopped
    assert starting.node.is_stopped
    assert len(starting.runs) == 1


async def test_a_node_that_is_being_stopped_is_not_restarted(starting):
    first = await starting.run(0)
    first.may_start.set()
    await starting.start
    stopping = asyncio.ensure_future(starting.node.stop_broker())
    while starting.node.broker is not None:
        await asyncio.sleep(0)
    starting.node.restart(PATIENT)
    await stopping
    await starting.node.stop_broker()
    assert len(starting.runs) == 1


async def test_a_stop_counts_whether_the_restart_came_before_or_after_it(starting):
    await starting.run(0)
    starting.node.restart(PATIENT)
    stopping = asyncio.ensure_future(starting.node.stop_broker())
    await asyncio.sleep(0)
    starting.node.restart(PATIENT)
    await stopping
    assert len(starting.runs) == 1
    assert starting.node.take_start_as() == NORMALLY


async def test_a_second_stop_waits_for_the_end_of_the_first(starting):
    first = await starting.run(0)
    first.may_start.set()
    await starting.start
    stopping = asyncio.ensure_future(starting.node.stop_broker())
    while starting.node.broker is not None:
        await asyncio.sleep(0)
    await starting.node.stop_broker()
    assert first.is_stopped
    await stopping


async def test_the_files_of_a_node_that_starts_are_not_touched(starting):
    first = await starting.run(0)
    is_starting = r"the broker is starting: stop it first \(stop_app\)"
    with pytest.raises(NodeError, match=is_starting):
        starting.node.reset()
    with pytest.raises(NodeError, match=is_starting):
        await starting.node.while_stopped().__aenter__()
    first.may_start.set()
    await starting.start
    with pytest.raises(NodeError, match=r"the broker is running: stop it first \(stop_app\)"):
        starting.node.reset()


def open_files_below(directory):
    found = []
    for descriptor in Path("/proc/self/fd").iterdir():
        try:
            target = descriptor.readlink()
        except FileNotFoundError:
            continue
        if target.is_relative_to(directory):
            found.append(target)
    return found


async def test_a_start_that_ends_at_its_first_wait_has_closed_its_store(tmp_path):
    """The first wait is that for the disk, to which the declarations of a new node are written."""
    metadata = []

    def make_broker():
        metadata.append(SqliteMetadata(tmp_path / "metadata.sqlite"))
        return Broker(Config(), metadata[-1], data_dir=tmp_path)

    node = RunningNode(Config(), make_broker, tmp_path)
    start = asyncio.ensure_future(node.start_broker())
    while not metadata:
        await asyncio.sleep(0)
    await node.stop_broker()
    with pytest.raises(StartEnded):
        await start
    assert open_files_below(tmp_path) == []
