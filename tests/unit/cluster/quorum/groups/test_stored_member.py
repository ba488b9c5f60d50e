"""Snapshots of members, which are made while the node goes on."""

import asyncio

from leveret.cluster.quorum.groups.stored_member import TURN_BYTES, joined
from leveret.cluster.quorum.machine.commands import (
    NO_LIMIT,
    Enqueue,
    EnqueuedRun,
    Join,
    encode_command,
    runs_of,
)
from leveret.cluster.quorum.queue_machines import QueueMachines

MESSAGES = 60_000


async def test_a_long_queue_gives_its_snapshot_in_many_turns():
    machine = QueueMachines().new()
    machine.apply(1, machine.entry(encode_command(Join(7, 1, 0, "a", 1)), 1), False)
    for number in range(2, MESSAGES + 2):
        runs = runs_of([EnqueuedRun(1, number % 999, NO_LIMIT, 0)])
        publish = encode_command(Enqueue(7, number, 0, runs), bytes(number % 999 + 5))
        machine.apply(number, machine.entry(publish, 1), False)
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
