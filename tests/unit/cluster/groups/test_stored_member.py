"""Snapshots of members, which are made and restored while the node goes on."""

import asyncio

import pytest

from leveret.cluster.groups.stored_member import (
    STEPS_A_TURN,
    TURN_BYTES,
    joined,
    restored,
)
from leveret.cluster.quorum.machine.commands import (
    NO_LIMIT,
    Enqueue,
    EnqueuedRun,
    Join,
    encode_command,
    runs_of,
)
from leveret.cluster.quorum.machine.run_queue import BLOCK_RUNS
from leveret.cluster.quorum.queue_machines import QueueMachines

MESSAGES = 60_000


@pytest.fixture(scope="module")
def machine():
    """The machine of a long queue, of which no two messages in a row are alike."""
    machine = QueueMachines().new()
    machine.apply(1, machine.entry(encode_command(Join(7, 1, 0, "a", 1)), 1), False)
    for number in range(2, MESSAGES + 2):
        runs = runs_of([EnqueuedRun(1, number % 999, NO_LIMIT, 0)])
        publish = encode_command(Enqueue(7, number, 0, runs), bytes(number % 999 + 5))
        machine.apply(number, machine.entry(publish, 1), False)
    return machine


async def test_a_long_queue_gives_its_snapshot_in_many_turns(machine):
    sizes, turn = [0], 0

    def pieces():
        for piece in machine.snapshot():
            while len(sizes) <= turn:
                sizes.append(0)
            sizes[turn] += len(piece)
            yield piece

    making = asyncio.ensure_future(joined(pieces()))
    while not making.done():
        await asyncio.sleep(0)
        turn += 1
    assert making.result() == b"".join(machine.snapshot())
    assert max(sizes) < 1.2 * TURN_BYTES
    assert len(making.result()) > TURN_BYTES, "it is more than one turn gives"


async def test_a_long_queue_is_restored_in_many_turns(machine):
    state = b"".join(machine.snapshot())
    taken, turn = [0], 0

    def steps():
        for step in QueueMachines().restore(state):
            while len(taken) <= turn:
                taken.append(0)
            taken[turn] += 1
            yield step

    restoring = asyncio.ensure_future(restored(steps()))
    while not restoring.done():
        await asyncio.sleep(0)
        turn += 1
    assert b"".join(restoring.result().snapshot()) == state
    assert max(taken) == STEPS_A_TURN
    assert sum(taken) > MESSAGES // BLOCK_RUNS - 3, "each block is a step"
