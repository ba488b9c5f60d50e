"""Clients of several nodes use a quorum queue while leaders and links fail, in seeded scenarios.

The group is one machine, to which committed entries are applied. The leader has proposed entries
that are not committed; the next one has a part of them. What is on the way over a link is lost from
some place on when the link falls.
"""

from collections import Counter, deque
from random import Random

import pytest

from leveret.broker.queues.contract.publication import publication_of
from leveret.broker.queues.contract.queue_client import QueueLength
from leveret.broker.runtime.counts import MessageCounts
from leveret.broker.runtime.pending import Answer
from leveret.cluster.quorum.client.quorum_queue_client import QuorumQueueClient
from leveret.cluster.quorum.effect_bytes import decode_effects, encode_effects
from leveret.cluster.quorum.machine.commands import (
    Configure,
    Enqueue,
    NodeDown,
    decode_command,
    encode_command,
    entry_of,
    messages_at,
)
from leveret.cluster.quorum.machine.effects import Effects
from leveret.cluster.quorum.machine.quorum_machine import QuorumMachine
from leveret.cluster.quorum.queue_groups.machine_options import QueueRules, machine_options
from leveret.cluster.remote_queues.message_runs import RunReader
from leveret.cluster.remote_queues.remote_hold import UntakenBytes
from leveret.cluster.replicated_queues.client.own_node import OwnNode
from leveret.cluster.replicated_queues.client.sender_numbers import SenderNumbers
from leveret.storage.messages.addresses import Addresses
from leveret.storage.messages.message import Message
from tests.unit.broker.queues.fakes import ADDRESS, HEADER, FakeVhost, specified
from tests.unit.cluster.quorum.group_of_one import ANSWER_MS, LimitedConsumer
from tests.unit.cluster.remote_queues.fakes import Publisher

NODES = ("a", "b", "c")
SPECIFICATION = specified({"x-queue-type": ("S", "quorum")}, durable=True)
STEPS = 250


class Node:
    """A node that uses the queue, and the service of its client. published: bodies, in order."""

    is_new = True

    def __init__(self, name, incarnation, world):
        self.name, self.incarnation, self.world = name, incarnation, world
        self.vhost = FakeVhost()
        own = OwnNode(
            name, ANSWER_MS, SenderNumbers(name, incarnation), Addresses(),
            UntakenBytes(lambda is_behind: None), MessageCounts(),
        )  # fmt: skip
        self.queue = QuorumQueueClient(self.vhost, SPECIFICATION, own, self)
        self.publisher = Publisher()
        self.published, self.consumers, self.cancelled, self.gets = [], [], [], []
        self.to_leader, self.from_leader = deque(), deque()
        self.is_linked, self.attached = False, (0, 0)

    # The service

    def attach(self, *attach):
        self.to_leader.append(("attach", *attach))

    def send(self, session, commands):
        self.to_leader.append(("send", session, commands))

    def ask_length(self, answer):
        answer.give(QueueLength(0, 0))

    def close(self, is_deleted):
        pass

    # The link to the leader

    def link(self):
        self.is_linked = True
        self.queue.leader_found()

    def cut(self, kept):
        """The link falls. kept: as many of the leader's frames arrive before."""
        while self.from_leader and kept:
            self.receive()
            kept -= 1
        self.to_leader.clear()
        self.from_leader.clear()
        self.is_linked, self.attached = False, (0, 0)
        self.queue.leader_lost()

    def receive(self):
        """A frame from the leader arrives."""
        session, effects = self.from_leader.popleft()
        self.queue.told(session, decode_effects(effects), self.world.entries)

    def serve(self):
        """The leader handles a frame of the node."""
        kind, session, *rest = self.to_leader.popleft()
        if kind == "attach":
            sender, seen, received = rest
            self.attached = (session, sender)
            effects = self.world.machine.attach(sender, seen, received)
            self.from_leader += [(session, encode_effects([effect])) for effect in effects]
        elif session == self.attached[0]:
            self.world.proposed += rest[0]


class World:
    """The group, and the nodes that use it. accepted: the bodies that it took, by node, in order.

    ended: the nodes that were taken for gone.
    """

    def __init__(self, seed):
        self.random = Random(seed)
        self.machine = QuorumMachine()
        self.entries = [b""]
        self.proposed = []
        self.accepted = {name: [] for name in NODES}
        self.ended = set()
        self.nodes = [Node(name, 1_700_000_000_000_000 + at, self) for at, name in enumerate(NODES)]
        self.commit(
            [encode_command(Configure(machine_options(SPECIFICATION.options, QueueRules.OF_3)))],
            None,
        )

    # The group

    def commit(self, commands, effects):
        """Entries are committed. effects: None if their leader is gone by then."""
        for data in commands:
            index = len(self.entries)
            self.entries.append(entry_of(data, index))
            command = decode_command(data)
            before = self._applied(command)
            self.machine.apply(index, self.entries[index], effects)
            if isinstance(command, Enqueue) and self._applied(command) != before:
                entry = self.entries[index]
                reader = RunReader(entry, messages_at(entry), Addresses())
                for message in reader.messages(sum(command.runs[::4])):
                    node, body = message.body.decode().split()
                    self.accepted[node].append(int(body))

    def _applied(self, command):
        sender = self.machine.senders.known.get(getattr(command, "sender", 0))
        return sender and sender.applied

    def commit_some(self, count):
        """The leader commits some entries, and tells the nodes."""
        effects = Effects()
        self.commit(self.proposed[:count], effects)
        del self.proposed[:count]
        for effect in effects.take():
            for node in self.nodes:
                session, sender = node.attached
                if session and sender == getattr(effect, "sender", 0):
                    node.from_leader.append((session, encode_effects([effect])))

    def change_leader(self):
        """Another node leads. It has some of the entries that were proposed."""
        for node in self.nodes:
            if node.is_linked:
                node.cut(self.random.randrange(3))
        self.commit(self.proposed[: self.random.randrange(len(self.proposed) + 1)], None)
        self.proposed = []

    def held_by(self, name):
        """How many messages the queue knows to be with clients of a node."""
        return sum(
            consumer.held.count
            for sender in self.machine.senders.of_node(name)
            for consumer in sender.consumers.values()
        )

    # What may happen

    def step(self):
        random = self.random
        action = random.choices(
            (self.use, self.move, self.commit_any, self.link_or_cut, self.fail), (40, 30, 30, 6, 2)
        )[0]
        action(random.choice(self.nodes))

    def move(self, _node):
        for node in self.nodes:
            if self.random.random() < 0.5:
                node.vhost.turns.run()
            for queue, handle in ((node.to_leader, node.serve), (node.from_leader, node.receive)):
                for _ in range(min(len(queue), self.random.randrange(8))):
                    handle()

    def commit_any(self, _node):
        self.commit_some(self.random.randrange(2 * len(self.proposed) + 1))

    def link_or_cut(self, node):
        if not node.is_linked:
            node.link()
        elif self.random.random() < 0.2:
            node.cut(self.random.randrange(4))

    def fail(self, node):
        if self.random.random() < 0.5:
            self.change_leader()
        else:
            self.ended.add(node.name)
            self.proposed.append(encode_command(NodeDown(node.name, node.incarnation)))

    # What clients do

    def use(self, node):
        random, queue = self.random, node.queue
        action = random.choices(
            ("publish", "consume", "ack", "requeue", "cancel", "get", "no ack"),
            (40, 4, 30, 6, 2, 4, 1),
        )[0]
        consumer = random.choice(node.consumers) if node.consumers else None
        if action == "publish":
            self._publish(node)
        elif action in {"consume", "no ack"}:
            prefetch = random.choice((1, 3, 50)) if action == "consume" else 1000
            added = LimitedConsumer(prefetch=prefetch, no_ack=action == "no ack")
            node.consumers.append(added)
            queue.subscribe(added, Answer())
        elif action == "get":
            answer = Answer()
            node.gets.append(answer)
            queue.get(True, answer)
        elif consumer is None or consumer.no_ack:
            return
        elif action == "cancel":
            node.consumers.remove(consumer)
            channel_ended = random.random() < 0.5
            queue.cancel(consumer, channel_ended)
            (queue.requeue if channel_ended else queue.ack)(consumer.entries)
            consumer.entries = []
            node.cancelled.append(consumer)
        elif consumer.entries:
            count = random.randrange(len(consumer.entries)) + 1
            taken, consumer.entries = consumer.entries[:count], consumer.entries[count:]
            consumer.credit += count
            (queue.ack if action == "ack" else queue.requeue)(taken)
            queue.credit(consumer)

    def _publish(self, node):
        first = len(node.published)
        numbers = range(first, first + self.random.choice((1, 1, 5)))
        node.published += numbers
        bodies = [b"%s %d" % (node.name.encode(), number) for number in numbers]
        messages = [Message(ADDRESS, HEADER, body) for body in bodies]
        node.queue.publish(publication_of(messages, None, node.publisher, first))

    def heal(self):
        """Everything works from now on, until nothing is left to do."""
        for node in self.nodes:
            if not node.is_linked:
                node.link()
        for _ in range(1000):
            busy = bool(self.proposed)
            self.commit_some(len(self.proposed))
            for node in self.nodes:
                busy |= bool(node.vhost.turns.woken or node.to_leader or node.from_leader)
                node.vhost.turns.run()
                while node.from_leader:
                    node.receive()
                while node.to_leader:
                    node.serve()
            if not busy:
                return
        raise AssertionError("the clients never come to rest")


@pytest.mark.parametrize(
    "seeds", [range(start, start + 20) for start in range(0, 100, 20)], ids=str
)
def test_nothing_is_lost_or_doubled_or_reordered(seeds):
    for seed in seeds:
        world = World(seed)
        for _ in range(STEPS):
            world.step()
        world.heal()
        held = Counter()
        for node in world.nodes:
            context = f"seed {seed}, node {node.name}"
            assert world.accepted[node.name] == node.published, context
            assert not node.publisher.owed, context
            assert not node.publisher.died, context
            for answer in node.gets:
                got = answer.result()
                held[node.name] += got is not None
            if node.name not in world.ended:
                consumers = [one for one in node.consumers if not one.no_ack] + node.cancelled
                held[node.name] += sum(len(one.entries) for one in consumers)
                assert world.held_by(node.name) == held[node.name], context
