"""A cluster may ask its node to start again while the node is still starting."""

import asyncio

import pytest

from leveret.broker.config import SettingError
from leveret.broker.node.broker import Broker
from leveret.cluster.startup.start_as import NORMALLY, StartAs
from tests.unit.mgmt.starting_node import PATIENT, Starting


@pytest.fixture
async def starting():
    made = Starting()
    yield made
    await made.stop()


async def test_the_start_ends_and_another_one_follows(starting):
    first = await starting.run(0)
    starting.node.restart(PATIENT)
    second = await starting.run(1)
    assert first.is_stopped
    assert (first.start_as, second.start_as) == (NORMALLY, PATIENT)
    second.may_start.set()
    broker = await starting.start
    assert starting.node.broker is broker
    assert not second.is_stopped


async def test_what_runs_after_the_listeners_are_open_is_ended_too(starting):
    held = asyncio.Event()

    async def hold(broker):
        held.set()
        await asyncio.Event().wait()

    starting.node.after_start = hold
    first = await starting.run(0)
    first.may_start.set()
    await held.wait()
    starting.node.after_start = None
    starting.node.restart(PATIENT)
    second = await starting.run(1)
    assert first.is_stopped
    second.may_start.set()
    broker = await starting.start
    assert [listener.port for listener in broker.listening_on] == [starting.port]


async def test_a_node_that_runs_again_and_is_asked_to_restart_in_that_start(starting):
    first = await starting.run(0)
    first.may_start.set()
    await starting.start
    starting.node.restart(PATIENT)
    await starting.run(1)
    starting.node.restart(StartAs(takes_from=("a",)))
    third = await starting.run(2)
    assert third.start_as.takes_from == ("a",)
    third.may_start.set()
    while starting.node.broker is None or starting.node.is_booting:
        await asyncio.sleep(0)
    assert len(starting.runs) == 3


async def test_two_wishes_to_restart_end_one_start(starting):
    await starting.run(0)
    starting.node.restart(PATIENT)
    starting.node.restart(PATIENT)
    second = await starting.run(1)
    second.may_start.set()
    await starting.start
    assert len(starting.runs) == 2


async def test_a_process_that_has_to_end_starts_no_more(starting):
    first = await starting.run(0)
    starting.node.restart(PATIENT)
    starting.start.cancel()
    await asyncio.wait((starting.start,))
    assert starting.start.cancelled()
    assert first.is_stopped
    assert len(starting.runs) == 1


async def test_nothing_is_left_of_a_start_whose_port_is_taken(starting):
    first = await starting.run(0)
    other = Broker(starting.config)
    await other.start()
    first.may_start.set()
    await asyncio.wait((starting.start,))
    assert isinstance(starting.start.exception(), SettingError)
    assert first.is_stopped
    await other.stop()
