"""What counts as left of objects that were deleted."""

import gc

from tests.churn.measuring import Windows

CYCLES = 100


class Node:
    """One with nothing in it. kept: what kinds keep there."""

    def __init__(self):
        self.kept = []

    async def rest(self):
        pass

    def empty_caches(self):
        pass


class Thing:
    pass


async def left_of(cycle):
    """What is left of a kind of object; cycle: of the node and a number."""

    async def kind(node, first, count):
        for n in range(first, first + count):
            cycle(node, n)

    return await Windows(kind, Node()).measured(CYCLES, warm_up=CYCLES)


async def test_freed_objects_do_not_accumulate():
    left = await left_of(lambda node, n: Thing())
    assert left.is_flat


async def test_an_object_that_is_kept_of_each_cycle_is_not():
    left = await left_of(lambda node, n: node.kept.append(Thing()))
    assert not left.is_flat
    assert left.kept > 0.9
    assert "Thing 1.0" in left.kept_types
    assert left.in_cycles == 0


async def test_an_object_that_refers_to_itself_is_not():
    def cycle(node, n):
        thing = Thing()
        thing.itself = thing

    left = await left_of(cycle)
    assert not left.is_flat
    assert left.in_cycles >= 1
    assert "Thing 1.0" in left.cycle_types


async def test_what_fills_once_is_flat():
    def cycle(node, n):
        if len(node.kept) < 2.5 * CYCLES:
            node.kept.append(Thing())

    left = await left_of(cycle)
    assert left.is_flat


async def test_the_garbage_collector_is_on_afterwards():
    await left_of(lambda node, n: None)
    assert gc.isenabled()
