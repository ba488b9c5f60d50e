"""The queue's own machine in groups on three nodes: publishes are applied, delivered and
settled.
"""

from leveret.cluster.quorum.machine.commands import (
    NO_LIMIT,
    Checkout,
    Enqueue,
    EnqueuedRun,
    Join,
    Settle,
    encode_command,
    runs_of,
)
from leveret.cluster.quorum.machine.effects import Applied, Deliver
from leveret.cluster.quorum.queue_machines import QueueMachines
from tests.patience import until
from tests.unit.cluster.groups.grouped_nodes import NAMES, GroupedNodes

SENDER = 9


class QueueClient:
    """Sends its commands once. delivered: the positions."""

    def __init__(self, node, commands):
        self.commands = commands
        self.applied = 0
        self.delivered = []
        self.entries = {}
        self.use = node.groups.use(1, NAMES, self)

    def leader_found(self):
        self.use.attach(1, SENDER, 0, {3: 0})
        self.use.send(1, self.commands[self.applied :])

    def leader_lost(self):
        return

    def told(self, session, effects, entries):
        self.entries.update(entries)
        for effect in effects:
            if isinstance(effect, Applied):
                self.applied = effect.through
            elif isinstance(effect, Deliver):
                for run in effect.runs:
                    assert run.index in entries
                    self.delivered += range(run.position, run.position + run.count)


async def test_messages_are_delivered_from_the_log_of_the_leader(tmp_path):
    run = EnqueuedRun(3, 5, NO_LIMIT, 0)
    commands = [
        encode_command(Join(SENDER, 1, 0, NAMES[0], 1)),
        encode_command(Enqueue(SENDER, 2, 0, runs_of([run])), b".....hello" * 3),
        encode_command(Checkout(SENDER, 3, 0, "tag", 10, 0, False, NO_LIMIT, b"")),
        encode_command(Settle(SENDER, 4, 0, 3, [1, 2])),
    ]
    async with GroupedNodes(tmp_path, kind=QueueMachines()) as nodes:
        await nodes.create([1])
        client = QueueClient(nodes.by_name[NAMES[0]], commands)
        await until(lambda: client.applied == 4)
        assert client.delivered == [1, 2, 3]
        assert any(entry.endswith(b".....hello" * 3) for entry in client.entries.values())
        await nodes.equal([1])
        for one in nodes:
            await one.store.rounds.free_space([1])
        for name in NAMES:
            await nodes.kill(name)
        for name in NAMES:
            await nodes.start(name)
        client = QueueClient(nodes.by_name[NAMES[1]], [])
        await until(lambda: client.delivered)
        assert client.delivered == [3]
