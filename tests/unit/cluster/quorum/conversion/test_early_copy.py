"""Most of a queue is copied while clients use it: the copy becomes equal to the queue."""

import random

import pytest

from leveret.broker.amqp.content_header import read_header
from leveret.cluster.quorum.conversion import classic_messages, early_copy
from leveret.cluster.quorum.conversion.early_copy import EarlyCopy
from leveret.cluster.quorum.queue_groups.machine_options import QueueRules
from leveret.cluster.rpc.refused import Refused
from tests.unit.broker.queues.fakes import HEADER, publish
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


def with_priority(priority):
    return read_header(b"\x08\0" + bytes([priority]))


class VariedNode(BusyNode):
    """A node whose clients publish messages with priorities and times to live, while time passes.

    priority: of each message, by its body.
    """

    rules = QueueRules.OF_4_3
    LIVES_MS = (None, 500, 20_000)

    def __init__(self, seed):
        self.priority = {}
        self.lives = {}
        super().__init__(seed)

    def publish(self, count):
        for number in range(self.published, self.published + count):
            body, priority = b"%d" % number, self.random.choice([None, 1, 4, 9])
            life_ms = self.random.choice(self.LIVES_MS)
            header = HEADER if priority is None else with_priority(priority)
            self.priority[body], self.lives[body] = priority or 4, life_ms
            publish(self.queue, body, header=header, ttl_ms=life_ms)
        self.published += count

    def act(self):
        self.vhost.clock.advance(self.random.choice([0, 0.05, 0.3]))
        super().act()

    def of_priority(self, bodies, priority):
        return [body for body in bodies if self.priority[body] == priority]


@pytest.mark.parametrize("seed", range(40))
def test_nothing_expires_in_the_copy_of_a_busy_queue_and_priorities_apply_in_the_end(
    seed, monkeypatch
):
    node = VariedNode(seed)
    node.publish(node.random.randint(20, 80))
    node.take(node.random.randint(0, 10))
    node.run(node.early.run())
    node.steps = 100
    monkeypatch.setattr(classic_messages, "READ_BYTES", 1_000_000)
    ready, held = node.state
    node.copy()
    node.vhost.clock.advance(30)
    node.vhost.turns.run()
    assert node.state == (ready, held), "nothing expires in a queue that is held"
    assert (node.use.figures.ready, node.use.figures.unacked) == (len(ready), len(held))
    node.replace()
    for record in node.clients.records:
        record.queue.ack([record.entry])
    left, stay = node.left, [body for body in ready if node.lives[body] is None]
    assert sorted(left) == sorted(stay)
    for priority in (1, 4, 9):
        assert node.of_priority(left, priority) == node.of_priority(stay, priority)


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
