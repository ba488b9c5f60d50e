"""Random lives of a mirrored queue: nodes publish, consume, hand over and die, links break and come
back.

What was confirmed is there, once, or was acknowledged; what was refused may be there. All members
have the same messages in the end.
"""

import os
import random

import pytest

from leveret.broker.runtime.pending import Answer
from tests.unit.broker.queues.fakes import FakeConsumer, publish
from tests.unit.cluster.mirrors.mirrored_nodes import MirroredNodes
from tests.unit.cluster.remote_queues.fakes import Publisher

SEEDS = range(int(os.environ.get("LEVERET_MIRROR_SEEDS", "40")))
NAMES = ("a@host", "b@host", "c@host", "d@host")


class Life:
    """One life of a queue. acked: bodies that consumers have acknowledged."""

    def __init__(self, seed):
        self.chance = random.Random(seed)
        self.nodes = MirroredNodes(*NAMES[: self.chance.choice((2, 3, 4))])
        _, *others = self.nodes.by_name
        self.nodes.mirror(*[name for name in others if self.chance.random() < 0.8])
        self.nodes.settle()
        self.publishers = {name: Publisher() for name in self.nodes.by_name}
        self.consumers = {name: [] for name in self.nodes.by_name}
        self.published = dict.fromkeys(self.nodes.by_name, 0)
        self.acked = set()
        self.broken = set()
        self.bodies = {}

    def any_node(self):
        return self.chance.choice(list(self.nodes.by_name))

    def publish(self):
        name = self.any_node()
        first = self.published[name] + 1
        count = self.chance.choice((1, 1, 3))
        self.published[name] += count
        bodies = [f"{name} {number}".encode() for number in range(first, first + count)]
        queue = self.nodes.by_name[name].queue()
        publish(queue, *bodies, publisher=self.publishers[name], first=first)
        self.bodies.update({(name, number): body for number, body in enumerate(bodies, first)})

    def consume(self):
        name = self.any_node()
        consumer = FakeConsumer(credit=self.chance.choice((1, 3)))
        self.nodes.by_name[name].queue().subscribe(consumer, Answer())
        self.consumers[name].append(consumer)

    def settle_some(self):
        name = self.any_node()
        queue = self.nodes.by_name[name].queue()
        for consumer in self.consumers[name]:
            entries = consumer.entries[:2]
            del consumer.entries[:2]
            if entries and self.chance.random() < 0.7:
                self.acked.update(entry.message.body for entry in entries)
                queue.ack(entries)
            elif entries:
                queue.requeue(entries)
            if entries:
                consumer.credit += len(entries)
                queue.credit(consumer)

    def break_link(self):
        one, other = sorted((self.any_node(), self.any_node()))
        if (one, other) in self.nodes.ends:
            self.nodes.unlink(one, other)
            self.broken.add((one, other))

    def mend_links(self):
        for one, other in self.broken:
            if one in self.nodes.by_name and other in self.nodes.by_name:
                self.nodes.link(one, other)
        self.broken.clear()

    def hand_over(self):
        """The leader hands over to a synchronised mirror, or is asked to when it cannot."""
        self.nodes.hand_over(self.any_node())

    def die(self):
        """A node dies, unless it is the only one with all messages."""
        record, name = self.nodes.record, self.any_node()
        synchronised = [one for one in record.members if one.is_synchronised]
        is_last = len(synchronised) == 1 and synchronised[0].id.node == name
        if self.broken or is_last or len(self.nodes.by_name) == 1:
            return
        self.publishers.pop(name)
        self.nodes.kill(name)
        self.nodes.make_stable()

    def run(self):
        steps = [self.publish] * 6 + [self.settle_some] * 3 + [self.consume, self.nodes.step]
        steps += [self.break_link, self.mend_links, self.die, self.nodes.replica, self.hand_over]
        for _ in range(60):
            step = self.chance.choice(steps)
            if step == self.nodes.replica:
                self.nodes.synchronise(self.any_node())
            else:
                step()
            if self.chance.random() < 0.3:
                self.nodes.step()
        self.mend_links()
        self.nodes.settle()
        self.nodes.make_stable()


@pytest.mark.parametrize("seed", SEEDS)
def test_what_was_confirmed_is_there_once(seed):
    life = Life(seed)
    life.run()
    nodes = life.nodes
    leader = nodes.record.leader.node
    backing = nodes.replica(leader).leading.backing
    held = [entry.message.body for _, entry in backing.unacked_between(0, 1 << 62)]
    ready = nodes.bodies(leader)
    assert len(set(held + ready)) == len(held + ready), "a message is there twice"
    there = life.acked.union(held, ready)
    for name, publisher in life.publishers.items():
        assert not publisher.owed, (name, publisher.owed)
        safe = set(publisher.confirmed) - set(publisher.refused)
        assert {life.bodies[name, number] for number in safe} <= there
    nodes.synchronise(leader)
    nodes.settle()
    for member in nodes.record.mirrors:
        assert member.is_synchronised
        mirror = nodes.replica(member.id.node).mirror
        assert nodes.bodies(member.id.node) == ready
        assert mirror.queue.unacked_count == len(held)
