"""A node that was suspended finds it out before it handles anything, and holds its clients."""

import asyncio
from time import perf_counter

import pytest

from leveret.broker.runtime.loop_watch import LoopWatch
from leveret.broker.runtime.turns import NEVER, WORK_MAX, Turns
from leveret.cluster.partitions.suspension import Suspension

TICK_TIME_S = 60


class Node:
    """A node whose others know its place when the test says so. asked: how often they were."""

    def __init__(self):
        loop = asyncio.get_running_loop()
        self.turns = Turns(loop, LoopWatch(loop.call_later))
        self.asked = 0
        self.is_known = False
        self.suspension = Suspension(self.turns, TICK_TIME_S, self.ask, lambda: self.is_known)
        self.suspension.start()

    def ask(self):
        self.asked += 1
        self.suspension.look()

    def was_suspended(self):
        """As if the last tick had been longer ago than the tick time."""
        self.turns.overdue_at = perf_counter() - 1


def read(node):
    """A read of a client's socket; what work it may do."""
    started = node.turns.begin_read()
    work = node.turns.work_left
    node.turns.end_read(started, 10)
    return work


@pytest.fixture
async def node():
    return Node()


async def test_nothing_is_asked_while_the_node_runs(node):
    node.suspension.tick()
    assert read(node) == WORK_MAX
    assert node.asked == 0


@pytest.mark.parametrize("what", ["read", "look", "tick"])
async def test_whatever_comes_first_finds_it_out_once(node, what):
    node.was_suspended()
    if what == "read":
        read(node)
    else:
        getattr(node.suspension, what)()
    assert node.turns.is_held
    assert read(node) == 0
    node.suspension.look()
    node.suspension.tick()
    assert node.asked == 1


async def test_input_waits_until_the_node_knows_its_place(node):
    handled = []
    node.was_suspended()
    assert read(node) == 0
    node.turns.after_round(lambda: handled.append("input"))
    for _ in range(20):
        await asyncio.sleep(0)
        node.suspension.tick()
    assert handled == []
    node.is_known = True
    node.suspension.tick()
    for _ in range(20):
        await asyncio.sleep(0)
    assert handled == ["input"]
    assert read(node) == WORK_MAX


async def test_a_node_without_others_suspends_no_client(node):
    node.is_known = True
    node.was_suspended()
    assert read(node) == WORK_MAX
    assert node.asked == 1


async def test_a_node_that_stops_suspends_no_client(node):
    node.was_suspended()
    read(node)
    node.suspension.stop()
    assert read(node) == WORK_MAX
    assert node.turns.overdue_at == NEVER


async def test_management_waits_until_the_node_knows_its_place(node):
    await node.suspension.place_known()
    assert not node.suspension.is_holding
    node.was_suspended()
    assert node.suspension.is_holding
    waiting = asyncio.ensure_future(node.suspension.place_known())
    for _ in range(20):
        await asyncio.sleep(0)
        node.suspension.tick()
    assert not waiting.done()
    assert node.suspension.is_holding
    assert node.asked == 1
    node.is_known = True
    node.suspension.tick()
    await waiting
    assert not node.suspension.is_holding


async def test_management_goes_on_when_the_node_stops(node):
    node.was_suspended()
    waiting = asyncio.ensure_future(node.suspension.place_known())
    await asyncio.sleep(0)
    node.suspension.stop()
    await waiting
