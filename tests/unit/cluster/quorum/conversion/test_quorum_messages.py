"""A quorum queue is copied to a classic queue while clients use it: the copy is equal to it."""

import random

import pytest

from leveret.cluster.quorum.client.holders import POSITION_MASK
from leveret.cluster.quorum.conversion import early_copy, quorum_messages
from leveret.cluster.quorum.conversion.copied_messages import TryAgain
from leveret.cluster.quorum.conversion.copying import Copying
from leveret.cluster.quorum.conversion.early_copy import EarlyCopy
from leveret.cluster.quorum.conversion.quorum_messages import QuorumMessages
from leveret.cluster.quorum.conversion.successors import ClassicSuccessor, taken_from
from leveret.cluster.rpc.refused import Refused
from leveret.storage.messages.addresses import Addresses
from tests.unit.broker.queues.fakes import declared, publish
from tests.unit.cluster.quorum.conversion.converted_node import result_of
from tests.unit.cluster.quorum.group_of_one import Use


class Member:
    """The leading member of a group of one."""

    is_serving, times_served = True, 1

    def __init__(self, group):
        self.machine = group.machine
        self.read_entry = lambda index: group.entries[index]


class Node:
    """A quorum queue, the classic queue that is to succeed it, and a client that takes messages.

    held: what the client holds.
    """

    def __init__(self, **arguments):
        self.use = Use(**arguments)
        self.queue = self.use.queue
        self.classic = declared(self.use.vhost)
        self.member = Member(self.use.group)
        self.messages = QuorumMessages(
            self.queue, lambda _: self.member, Addresses(), self.use.vhost.clock
        )
        self.copying = Copying(ClassicSuccessor(self.classic), self.use.vhost.clock)
        self.early = EarlyCopy(self.messages, self.copying, "the queue")
        self.held = []
        self.act = lambda: None

    def publish(self, *bodies):
        publish(self.queue, *bodies)
        self.use.settle()

    def take(self, count):
        for _ in range(count):
            got = self.use.asked(self.queue.get, True)
            if got is not None:
                self.held.append(got.entry)

    @property
    def positions(self):
        """Those of the messages that the client holds, in order."""
        return sorted(entry.position & POSITION_MASK for entry in self.held)

    def take_turn(self):
        self.act()
        self.use.settle()

    def run(self, steps):
        """The result of a coroutine, while the node has its turns."""
        return result_of(steps, self.take_turn)

    def finish(self):
        """Copy the rest; returns what the successor has: ready bodies, and those that are held."""
        left = self.run(
            self.messages.left(self.positions, self.copying.copied_to, self.copying.taken_to)
        )
        moved = self.run(self.copying.finish(left))
        ready = self.classic.backing.cursor(0).read(1_000_000)
        return bodies(ready), bodies(moved)


def bodies(entries):
    return [entry.message.body for entry in entries]


class BusyNode(Node):
    """A node whose client does anything at random between the steps of a copy."""

    def __init__(self, seed):
        super().__init__()
        self.random = random.Random(seed)
        self.published = self.steps = 0

    def publish_some(self, count):
        first = self.published
        self.published += count
        self.publish(*[b"%d" % number for number in range(first, self.published)])

    def do_anything(self):
        self.steps += 1
        chance = self.random.random()
        if self.steps > 60:
            return
        if chance < 0.3:
            self.publish_some(self.random.randint(1, 6))
        elif chance < 0.6:
            self.take(self.random.randint(1, 9))
        elif self.held:
            settled = self.random.sample(self.held, self.random.randint(1, len(self.held)))
            self.held = [entry for entry in self.held if entry not in settled]
            queue = self.queue
            self.random.choice([queue.ack, queue.ack, queue.requeue, queue.discard])(settled)


@pytest.mark.parametrize("seed", range(40))
def test_the_copy_of_a_busy_queue_is_equal_to_it(seed, monkeypatch):
    monkeypatch.setattr(quorum_messages, "READ_BYTES", 500)
    monkeypatch.setattr(early_copy, "PIECES_OF_A_ROUND", 2)
    monkeypatch.setattr(early_copy, "LEFT_MAX", 0)
    node = BusyNode(seed)
    node.publish_some(node.random.randint(20, 80))
    node.take(node.random.randint(0, 10))
    node.act = node.do_anything
    node.run(node.early.run())
    for _ in range(node.random.randint(0, 8)):
        node.do_anything()
    node.act = lambda: None
    node.use.settle()
    ready_count, held = node.use.figures.ready, sorted(bodies(node.held), key=int)
    ready, moved = node.finish()
    assert sorted(moved, key=int) == held
    assert ready == sorted(ready, key=int)
    node.messages.check(node.positions)
    node.held.clear()
    node.take(ready_count)
    assert sorted(bodies(node.held), key=int) == ready


def test_all_are_taken_first_from_a_queue_whose_messages_may_expire():
    node = Node(x_message_ttl=60_000)
    node.publish(b"1", b"2", b"3")
    node.take(1)
    assert node.messages.has_expiring
    taken = node.run(taken_from(node.queue, 2))
    node.use.vhost.clock.advance(100)
    left = node.run(node.messages.left(node.positions, 0, 0))._replace(ready_count=2)
    assert bodies(left.rest) == [b"1", b"2", b"3"]
    assert bodies(node.run(node.copying.finish(left))) == [b"1"]
    for entry in taken:
        node.queue.give_back(entry.position, 1)
    node.use.settle()
    assert (node.use.figures.ready, node.use.figures.unacked) == (0, 1)


def test_a_message_that_nobody_is_known_to_hold_is_not_lost():
    node = Node()
    node.publish(b"1", b"2")
    node.take(1)
    with pytest.raises(TryAgain, match="just being returned"):
        node.messages.check([])


def test_a_node_that_does_not_lead_any_more_copies_nothing():
    node = Node()
    node.publish(b"1")
    node.member.times_served += 1
    with pytest.raises(Refused, match="another member leads it"):
        node.run(node.early.run())
