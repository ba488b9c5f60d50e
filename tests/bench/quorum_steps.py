"""Processor time and memory of the state machine of a quorum queue, for each message.

    python -m tests.bench.quorum_steps [--messages 300000]

Of the member that leads: entries are encoded before, and effects are thrown away.
"""

from collections.abc import Iterator
from pathlib import Path
from resource import getpagesize
from time import process_time

import typer

from leveret.cluster.quorum.machine.commands import (
    NO_LIMIT,
    Checkout,
    Command,
    Enqueue,
    EnqueuedRun,
    Join,
    Options,
    Settle,
    encode_command,
    entry_of,
    runs_of,
)
from leveret.cluster.quorum.machine.effects import Effects
from leveret.cluster.quorum.machine.quorum_machine import QuorumMachine
from leveret.cluster.quorum.machine.snapshots import QueueSnapshot, restore

BODY = b"x" * 1024


def entries(commands: Iterator[Command]) -> list[bytes]:
    """Commands as entries."""
    return [entry_of(encode_command(one, BODY * isinstance(one, Enqueue)), 5) for one in commands]


def setting_up(consumers: int, credit: int) -> Iterator[Command]:
    """A client, and its consumers."""
    yield Join(1, 1, 0, "one", 1)
    for number in range(2, 2 + consumers):
        yield Checkout(1, number, 0, "tag", credit, 0, False, NO_LIMIT, b"")


def publishing(count: int, batch: int, sizes: int, number: int) -> Iterator[Command]:
    """Publishes of a batch each, of messages of some sizes."""
    for at in range(count // batch):
        runs = [
            EnqueuedRun(batch // sizes, 1024 + (at * sizes + one) % 97 * (sizes > 1), NO_LIMIT, 0)
            for one in range(sizes)
        ]
        yield Enqueue(1, number + at, 0, runs_of(runs))


def consuming(count: int, batch: int, sizes: int, consumers: int) -> Iterator[Command]:
    """A publish of a batch, which is delivered at once, and its settlement."""
    number = 2 + consumers
    position = 1
    for publish in publishing(count, batch, sizes, 0):
        yield Enqueue(1, number, 0, publish.runs)
        number += 1
        for consumer in range(2, 2 + consumers):
            yield Settle(1, number, 0, consumer, [position, position + batch - 1])
            number += 1
        position += batch


def measured(commands: Iterator[Command], consumers: int, is_leader: bool) -> float:
    """The seconds of all commands."""
    machine, effects = QuorumMachine(Options()), Effects()
    index = 0
    for entry in entries(setting_up(consumers, 2000)):
        index += 1
        machine.apply(index, entry)
    steps = entries(commands)
    begin = process_time()
    for entry in steps:
        index += 1
        if is_leader:
            machine.apply(index, entry, effects)
            effects.take()
        else:
            machine.apply(index, entry)
    seconds = process_time() - begin
    assert not machine.messages.ready.count, "not everything was delivered"
    assert not machine.messages.held_count, "not everything was settled"
    return seconds


def resident_bytes() -> int:
    """The memory of this process."""
    return int(Path("/proc/self/statm").read_text("ascii").split()[1]) * getpagesize()


def backlog(count: int, batch: int, sizes: int) -> None:
    """Memory, snapshots and the way back, of a queue without consumers."""
    machine = QuorumMachine(Options())
    index = 0
    for entry in entries(setting_up(0, 1)):
        index += 1
        machine.apply(index, entry)
    before = resident_bytes()
    begin = process_time()
    for command in publishing(count, batch, sizes, 2):
        index += 1
        machine.apply(index, entry_of(encode_command(command), 5 + index // 10))
    seconds = process_time() - begin
    size = resident_bytes() - before
    begin = process_time()
    snapshot = QueueSnapshot(machine)
    captured = process_time() - begin
    data = b"".join(snapshot.pieces())
    written = process_time() - begin
    begin = process_time()
    restore(data)
    restored = process_time() - begin
    begin = process_time()
    live = machine.live()
    lived = process_time() - begin
    print(
        f"{count:,} unread in batches of {batch}, {sizes} sizes: {size / count:.0f} bytes and "
        f"{seconds / count * 1e6:.2f} us each; snapshot {len(data):,} bytes, "
        f"{captured * 1e3:.1f} ms to take, {written * 1e3:.1f} ms to write, "
        f"{restored * 1e3:.0f} ms to restore; live {len(live)} numbers in {lived * 1e3:.1f} ms"
    )


def run(messages: int = 300_000) -> None:
    """Print the figures."""
    backlog(messages, 1, 1)
    backlog(messages, 10, 10)
    for batch, sizes, consumers in ((10, 1, 1), (10, 10, 1), (10, 1, 4), (1, 1, 1), (100, 1, 1)):
        seconds = [
            measured(consuming(messages, batch, sizes, consumers), consumers, is_leader)
            for is_leader in (True, False)
        ]
        leader, follower = [one / messages * 1e6 for one in seconds]
        print(
            f"batches of {batch} in {sizes} sizes to {consumers} consumers: leader {leader:.2f}, "
            f"follower {follower:.2f} us a message"
        )


if __name__ == "__main__":
    typer.run(run)
