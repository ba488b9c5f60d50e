"""Clients of a quorum queue on three nodes, over real links and disks, while leaders die."""

import asyncio

from leveret.broker.queues.contract.publication import publication_of
from leveret.broker.runtime.counts import MessageCounts
from leveret.broker.runtime.loop_watch import LoopWatch
from leveret.broker.runtime.pending import Answer
from leveret.broker.runtime.turns import Turns
from leveret.cluster.quorum.client.quorum_queue_client import QuorumQueueClient
from leveret.cluster.quorum.queue_group import QueueGroup
from leveret.cluster.quorum.queue_machines import QueueMachines
from leveret.cluster.remote_queues.remote_hold import UntakenBytes
from leveret.cluster.replicated_queues.client.own_node import OwnNode
from leveret.cluster.replicated_queues.client.sender_numbers import SenderNumbers
from leveret.storage.messages.addresses import Addresses
from leveret.storage.messages.message import Message
from tests.patience import until
from tests.unit.broker.queues.fakes import ADDRESS, HEADER, FakeVhost, specified
from tests.unit.cluster.groups.grouped_nodes import NAMES, GroupedNodes
from tests.unit.cluster.links.fakes import system_clock
from tests.unit.cluster.quorum.group_of_one import ANSWER_MS, LimitedConsumer
from tests.unit.cluster.remote_queues.fakes import Publisher

GROUP = 1
SPECIFICATION = specified({"x-queue-type": ("S", "quorum")}, durable=True)


class Use(FakeVhost):
    """A node's use of the queue. It stands for the member's side, too."""

    def __init__(self, node):
        super().__init__()
        loop = asyncio.get_running_loop()
        self.turns = Turns(loop, LoopWatch(loop.call_later))
        self.clock = system_clock()
        self.publisher = Publisher()
        self.last = 0
        senders = SenderNumbers(node.name, 1_700_000_000)
        untaken = UntakenBytes(lambda is_behind: None)
        own = OwnNode(node.name, ANSWER_MS, senders, Addresses(), untaken, MessageCounts())
        group = QueueGroup(self)
        self.queue = QuorumQueueClient(self, SPECIFICATION, own, group)
        group.begin(node.groups.use(GROUP, NAMES, self.queue))

    node, declared_at_s, is_new = "", 0, True

    def wall_ms(self):
        return 0

    def led(self):
        return None

    def watch(self, demand):
        return

    def configure(self, options):
        return

    def end(self, is_deleted):
        return

    def publish(self, count, size=10):
        """Publish messages with confirms, in runs of ten."""
        for first in range(self.last + 1, self.last + count + 1, 10):
            bodies = [b"%06d" % number + b"x" * size for number in range(first, first + 10)]
            messages = [Message(ADDRESS, HEADER, body) for body in bodies]
            self.queue.publish(publication_of(messages, None, self.publisher, first))
        self.last += count

    @property
    def is_confirmed(self):
        return not self.publisher.owed

    async def asked(self, ask, *arguments):
        answer = Answer()
        ask(*arguments, answer)
        await until(lambda: answer.is_given)
        return answer.result()


class AckingConsumer(LimitedConsumer):
    """Acknowledges half of what it gets. numbers: of the messages; held: the entries."""

    def __init__(self, use, prefetch):
        super().__init__(prefetch=prefetch)
        self.use, self.numbers, self.held = use, [], []

    def deliver(self, entries):
        self.numbers += [int(entry.message.body[:6]) for entry in entries]
        self.held += [entry for entry in entries if entry.position % 2]
        settled = [entry for entry in entries if not entry.position % 2]
        self.use.queue.ack(settled)
        self.credit -= len(entries) - len(settled)

    def settle_held(self):
        held, self.held = self.held, []
        self.use.queue.ack(held)
        self.credit += len(held)
        self.use.queue.credit(self)


async def others_than_the_leader(nodes):
    """The leader, and the two nodes that do not lead."""
    await nodes.led([GROUP])
    leader = nodes.leader(GROUP)
    return leader, [node for node in nodes if node is not leader]


async def test_clients_of_other_nodes_outlive_the_leader(tmp_path):
    async with GroupedNodes(tmp_path, kind=QueueMachines()) as nodes:
        await nodes.create([GROUP])
        leader, others = await others_than_the_leader(nodes)
        publishing, consuming = (Use(node) for node in others)
        consumer = AckingConsumer(consuming, prefetch=2000)
        await consuming.asked(consuming.queue.subscribe, consumer)
        publishing.publish(300)
        await until(lambda: consumer.numbers)
        publishing.publish(300)
        await nodes.kill(leader.name)
        publishing.publish(300)
        await until(lambda: publishing.is_confirmed and len(consumer.numbers) >= 900)
        assert consumer.numbers == list(range(1, 901)), "none lost, doubled or reordered"
        assert not publishing.publisher.died
        length = await publishing.asked(publishing.queue.length)
        assert tuple(length) == (0, 1)
        consumer.settle_held()
        await nodes.start(leader.name)
        publishing.publish(10)
        await until(lambda: len(consumer.numbers) == 910)
        consumer.settle_held()
        machine = nodes.leader(GROUP).groups.members[GROUP].machine.queue
        await until(lambda: machine.messages.held_count == 0)
        assert not any(entry.redelivered for entry in consumer.entries)


async def test_a_small_prefetch_on_another_node_takes_parts_of_large_entries(tmp_path):
    async with GroupedNodes(tmp_path, kind=QueueMachines()) as nodes:
        await nodes.create([GROUP])
        leader, others = await others_than_the_leader(nodes)
        here, there = Use(leader), Use(others[0])
        here.publish(200, size=500)
        await until(lambda: here.is_confirmed)
        consumer = AckingConsumer(there, prefetch=3)
        await there.asked(there.queue.subscribe, consumer)
        while len(consumer.numbers) < 200:
            await until(lambda: consumer.held or len(consumer.numbers) == 200)
            consumer.settle_held()
        assert consumer.numbers == list(range(1, 201))
        got = await here.asked(here.queue.get, True)
        assert got is None


async def test_without_a_majority_publishes_wait(tmp_path):
    async with GroupedNodes(tmp_path, kind=QueueMachines()) as nodes:
        await nodes.create([GROUP])
        leader, others = await others_than_the_leader(nodes)
        use = Use(others[0])
        use.publish(10)
        await until(lambda: use.is_confirmed)
        await nodes.kill(leader.name)
        await nodes.kill(others[1].name)
        use.publish(50)
        assert tuple(await use.asked(use.queue.length)) == (0, 0), "what was known before"
        assert not use.is_confirmed
        await nodes.start(others[1].name)
        await until(lambda: use.is_confirmed)
        assert tuple(await use.asked(use.queue.length)) == (60, 0)
