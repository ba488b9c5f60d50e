"""A node without a broker whose classic queue is converted, and the clients of the queue."""

import asyncio

from leveret.broker.runtime.pending import Answer
from leveret.broker.sessions.unacked_record import Unacked
from leveret.cluster.quorum.conversion.classic_messages import ClassicMessages
from leveret.cluster.quorum.conversion.copying import Copying
from leveret.cluster.quorum.conversion.home_hold import ClassicHold
from leveret.cluster.quorum.conversion.successors import QuorumSuccessor
from leveret.cluster.quorum.machine.commands import Configure
from leveret.cluster.quorum.queue_groups.machine_options import QueueRules, machine_options
from tests.unit.broker.queues.fakes import declared
from tests.unit.cluster.quorum.group_of_one import LimitedConsumer, Use


class Clients:
    """The sessions of a node, as `NodeHolds` and `RemoteQueues` show them.

    records: what they hold. hosted: what clients of other nodes hold.
    """

    def __init__(self):
        self.consumers, self.records, self.hosted, self.replaced_by = [], [], [], []

    def consumers_of(self, queue):
        return self.consumers

    def records_of(self, queue):
        return [one for one in self.records if one.queue is queue]

    def held_of(self, queue):
        return self.hosted

    def replaced(self, before, queue):
        self.replaced_by.append(queue)


def result_of(steps, take_turn):
    """The result of a coroutine, while a node has its turns."""

    async def run():
        task = asyncio.ensure_future(steps)
        while not task.done():
            take_turn()
            await asyncio.sleep(0)
        return task.result()

    return asyncio.run(run())


class Node:
    """A classic queue in a vhost, and a quorum queue that is to succeed it.

    rules: those of quorum queues.
    """

    rules = QueueRules.OF_3

    def __init__(self):
        self.use = Use()
        self.vhost = self.use.vhost
        self.queue = declared(self.vhost)
        self.successor = self.use.queue
        self._configure(is_successor=True)
        self.vhost.queues = {"q": self.queue}
        self.vhost.replace_queue = lambda queue: self.vhost.queues.update(q=queue)
        self.clients = Clients()
        self.messages = ClassicMessages(self.queue, self.clients, self.clients)
        self.copying = Copying(QuorumSuccessor(self.successor), self.vhost.clock)
        self.hold = ClassicHold(self.vhost, self.queue, self.clients)

    def _configure(self, is_successor):
        options = machine_options(self.successor.options, self.rules, is_successor=is_successor)
        self.use.group.propose(Configure(options))

    def take(self, count):
        """Have a client take messages; returns its records. There are fewer if some expire."""
        records = []
        for _ in range(count):
            got = Answer()
            self.queue.get(True, got)
            if got.result() is None:
                break
            records.append(Unacked(got.result().entry, self.queue, None, 0))
        self.clients.records += records
        return records

    def copy(self):
        """Hold the queue and copy it."""
        self.hold.begin()
        self.hold.freeze(self.clients, self.messages)
        self.run(self._copy())

    async def _copy(self):
        held, copying = self.hold.held_entries, self.copying
        left = await self.messages.left(held, copying.copied_to, copying.taken_to)
        self.hold.moved = await copying.finish(left)

    def run(self, steps):
        """The result of a coroutine, while the node has its turns."""
        return result_of(steps, self.use.settle)

    def replace(self):
        """The successor has the name from now on."""
        self.vhost.queues["q"] = self.successor
        self._configure(is_successor=False)
        self.hold.held.delete_now()
        self.use.settle()

    @property
    def left(self):
        """The bodies that the successor has ready, in order."""
        consumer = self.use.consuming(LimitedConsumer())
        return consumer.bodies
