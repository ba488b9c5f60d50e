"""Most of a queue is copied while clients use it: the copy becomes equal to the queue."""

import random

import pytest

from leveret.cluster.quorum.conversion import classic_messages, early_copy
from leveret.cluster.quorum.conversion.early_copy import EarlyCopy
from leveret.cluster.rpc.refused import Refused
from tests.unit.broker.queues.fakes import publish
from tests.unit.cluster.quorum.conversion.converted_node import Node

PIECE_MAX = 10


@pytest.fixture(autouse=True)
def few_at_once(monkeypatch):
    """Pieces of at most PIECE_MAX messages, and none left for the pause."""
    monkeypatch.setattr(classic_messages, "READ_BYTES", 1000)
    monkeypatch.setattr(early_copy, "PIECES_OF_A_ROUND", 2)
    monkeypatch.setattr(early_copy, "LEFT_MAX", 0)


class BusyNode(Node):
    """A node whose clients do anything at random between the steps of a copy."""

    def __init__(self, seed):
        super().__init__()
        self.random = random.Random(seed)
        self.published = self.steps = 0
        self.early = EarlyCopy(self.messages, self.copying, "the queue")
        settle = self.use.settle

        def act_and_settle():
            self.steps += 1
            if self.steps < 60:
                self.act()
            settle()

        self.use.settle = act_and_settle

    def publish(self, count):
        first = self.published
        self.published += count
        publish(self.queue, *[b"%d" % number for number in range(first, self.published)])

    def act(self):
        chance = self.random.random()
        if chance < 0.3:
            self.publish(self.random.randint(1, 6))
        elif chance < 0.6:
            self.take(min(self.random.randint(1, 9), self.queue.backing.ready_count))
        elif self.clients.records:
            count = self.random.randint(1, len(self.clients.records))
            for record in self.random.sample(self.clients.records, count):
                self.clients.records.remove(record)
                settle = self.random.choice(
                    [self.queue.ack, self.queue.ack, self.queue.requeue, self.queue.discard]
                )
                settle([record.entry])

    @property
    def state(self):
        """What the queue has: ready bodies in order, and those that are held."""
        ready = [entry.message.body for entry in self.messages.read(0)]
        return ready, [record.entry.message.body for record in self.clients.records]


@pytest.mark.parametrize("seed", range(40))
def test_the_copy_of_a_busy_queue_is_equal_to_it(seed, monkeypatch):
    node = BusyNode(seed)
    node.publish(node.random.randint(20, 80))
    node.take(node.random.randint(0, 10))
    node.run(node.early.run())
    for _ in range(node.random.randint(0, 8)):
        node.act()
    node.steps = 100
    monkeypatch.setattr(classic_messages, "READ_BYTES", 1_000_000)
    ready, held = node.state
    node.copy()
    assert (node.use.figures.ready, node.use.figures.unacked) == (len(ready), len(held))
    node.replace()
    for record, body in zip(node.clients.records, held, strict=True):
        assert record.entry.message.body == body
        record.queue.ack([record.entry])
    assert (node.left, node.use.figures.unacked) == (ready, len(ready))


class CountingNode(Node):
    """A node that counts the messages that it reads from the queue and copies."""

    def __init__(self):
        super().__init__()
        self.read = self.copied = 0
        read, publish_copies = self.messages.read, self.copying._publish_run

        def counting_read(position):
            entries = read(position)
            self.read += len(entries)
            return entries

        def counting_publish(messages, expires_at_ms):
            self.copied += len(messages)
            publish_copies(messages, expires_at_ms)

        self.messages.read, self.copying._publish_run = counting_read, counting_publish


@pytest.mark.parametrize("length", [300, 1500])
def test_the_pause_of_a_long_queue_is_as_short_as_that_of_a_short_one(length, monkeypatch):
    monkeypatch.setattr(early_copy, "LEFT_MAX", 50)
    node = CountingNode()
    early = EarlyCopy(node.messages, node.copying, "the queue")
    publish(node.queue, *[b"%d" % number for number in range(length)])
    node.take(10)
    node.run(early.run())
    node.take(20)
    publish(node.queue, *[b"late"] * 30)
    assert node.copied >= length - 50, "most of it is copied before"
    node.read = node.copied = 0
    node.copy()
    assert node.copied <= 50 + 30
    assert node.read <= 50 + 30 + PIECE_MAX
    assert (node.use.figures.ready, node.use.figures.unacked) == (length, 30)


def test_the_early_copy_waits_while_messages_are_with_nobody(monkeypatch):
    monkeypatch.setattr(early_copy, "WAITS_MAX", 3)
    monkeypatch.setattr(early_copy, "WAIT_SECONDS", 0)
    node = Node()
    publish(node.queue, b"1", b"2", b"3")
    node.take(1)
    node.clients.records.clear()
    early = EarlyCopy(node.messages, node.copying, "the queue")
    with pytest.raises(Refused, match="just being returned"):
        node.run(early.run())
