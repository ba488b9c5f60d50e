"""One simulated run of QoS 2 from a publisher over a node to a subscriber, with crashes.

    python -m tests.sim.exactly_once_scenario --seed 17          one seed, with its trace
    python -m tests.sim.exactly_once_scenario --seeds 1000       many of them, from --first on

The seed chooses each step: a packet arrives, a batch is written, a connection breaks, the node
crashes. A crash loses any of the records of the batch that is being written, as a power cut may:
the sectors of a batch reach the disk in any order. Clients keep their state, as the standard says,
and repeat what was not answered. In the end the subscriber has each message once, in every run.

The record of a message has the packet identifier that it came with (XO2), so a restart knows both
or neither.
"""

from collections import deque
from functools import partial
from random import Random

from leveret.broker.protocols.mqtt import exactly_once as qos2
from leveret.broker.protocols.mqtt.exactly_once import Fact, Inbound, Outbound, Record
from tests.sim.command import run_command, run_scenario
from tests.sim.properties import require

MESSAGES = 12
UNDER_WAY_MAX = 4
STEPS_MAX = 20_000
CALM_STEPS = 2_000


class Publisher:
    """A client that publishes the numbers from 0 on. Its state survives its connections."""

    def __init__(self, ids):
        self.ids = ids
        self.number = 0
        self.under_way = {}

    def publish(self):
        """The next message, if a packet identifier is free."""
        free = [one for one in range(1, self.ids + 1) if one not in self.under_way]
        if self.number == MESSAGES or not free:
            return []
        self.under_way[free[0]] = ["PUBLISH", self.number]
        self.number += 1
        return [("PUBLISH", free[0], self.number - 1)]

    def connected(self):
        """Repeat what was not answered."""
        return [
            ("PUBLISH", one, number) if kind == "PUBLISH" else ("PUBREL", one)
            for one, (kind, number) in self.under_way.items()
        ]

    def receive(self, kind, packet_id):
        if kind == "PUBREC" and packet_id in self.under_way:
            self.under_way[packet_id][0] = "PUBREL"
            return [("PUBREL", packet_id)]
        if kind == "PUBCOMP" and self.under_way.get(packet_id, [""])[0] == "PUBREL":
            del self.under_way[packet_id]
        return []


class Subscriber:
    """A client that hands over each message once, by its packet identifier (standard, 4.3.3)."""

    def __init__(self):
        self.known = set()
        self.messages = []

    def connected(self):
        return []

    def receive(self, kind, packet_id, number=None):
        if kind == "PUBLISH":
            if packet_id not in self.known:
                self.known.add(packet_id)
                self.messages.append(number)
            return [("PUBREC", packet_id)]
        self.known.discard(packet_id)
        return [("PUBCOMP", packet_id)]


class Node:
    """The machines of both sessions, a queue, and the log that all of them are made of.

    log: the records on disk. batch: those that are not. A record is ("run", position, number,
    packet_id), ("ack", position), or a Record.
    """

    def __init__(self, random):
        self._random = random
        self.log, self.batch = [], []
        self.callbacks = []
        self.restart()

    def restart(self):
        """Make everything of the log."""
        self.callbacks = []
        gone = {record[1] for record in self.log if record[0] == "ack"}
        runs = [record for record in self.log if record[0] == "run"]
        self.ready = deque((at, number) for _, at, number, _ in runs if at not in gone)
        self.numbers = {at: number for _, at, number, _ in runs}
        self.next_position = max(self.numbers, default=-1) + 1
        facts = [
            Record(Fact.RECEIVED, one[3]) if one[0] == "run" else one
            for one in self.log
            if one[0] == "run" or isinstance(one, Record)
        ]
        self.inbound, self.outbound = Inbound.from_records(facts), Outbound.from_records(facts)
        self.to_publisher = self.to_subscriber = None
        self.do_outbound(self.outbound.restored(self.next_position))
        for position in self.outbound.positions:
            if position not in (at for at, _ in self.ready):
                self.do_outbound(self.outbound.removed(position))

    def crash(self):
        """Lose any of the records that are not on disk, and start again."""
        self.log += [record for record in self.batch if self._random.random() < 0.5]
        self.batch = []
        self.restart()

    def sync(self):
        """The batch is on disk."""
        self.log += self.batch
        self.batch = []
        callbacks, self.callbacks = self.callbacks, []
        for callback in callbacks:
            callback()

    def redeliver(self):
        """The subscriber is connected again: the queue delivers everything that is not gone."""
        gone = {record[1] for record in (*self.log, *self.batch) if record[0] == "ack"}
        self.ready = deque(
            (at, number) for at, number in sorted(self.numbers.items()) if at not in gone
        )

    def from_publisher(self, kind, packet_id, number=None):
        if kind == "PUBLISH":
            self._do_inbound(self.inbound.published(packet_id), number)
        else:
            self._do_inbound(self.inbound.released(packet_id))

    def _do_inbound(self, effects, number=None):
        for effect in effects:
            match effect:
                case qos2.HandOver():
                    at = self.next_position
                    self.next_position += 1
                    self.numbers[at] = number
                    self.ready.append((at, number))
                    self.batch.append(("run", at, number, effect.packet_id))
                    self._when_synced(self.inbound, effect.packet_id)
                case Record():
                    self.batch.append(effect)
                    self._when_synced(self.inbound, effect.packet_id)
                case qos2.SendPubrec():
                    self._send(self.to_publisher, ("PUBREC", effect.packet_id))
                case qos2.SendPubcomp():
                    self._send(self.to_publisher, ("PUBCOMP", effect.packet_id))

    def _when_synced(self, machine, packet_id):
        do = self._do_inbound if machine is self.inbound else self.do_outbound
        self.callbacks.append(lambda: do(machine.synced(packet_id)))

    @staticmethod
    def _send(way, packet):
        if way is not None:
            way.append(packet)

    def deliver(self):
        """The queue delivers a message."""
        if not self.ready or self.to_subscriber is None:
            return
        position, _ = self.ready[0]
        if position in self.outbound or len(self.outbound) < UNDER_WAY_MAX:
            self.ready.popleft()
            self.do_outbound(self.outbound.delivered(position))

    def from_subscriber(self, kind, packet_id):
        act = self.outbound.received if kind == "PUBREC" else self.outbound.completed
        self.do_outbound(act(packet_id))

    def do_outbound(self, effects):
        for effect in effects:
            match effect:
                case Record():
                    self.batch.append(effect)
                    if effect.fact is not Fact.COMPLETED:
                        self._when_synced(self.outbound, effect.packet_id)
                case qos2.SendPublish():
                    number = self.numbers[effect.position]
                    self._send(self.to_subscriber, ("PUBLISH", effect.packet_id, number))
                case qos2.SendPubrel():
                    self._send(self.to_subscriber, ("PUBREL", effect.packet_id))
                case qos2.Acknowledge():
                    self.batch.append(("ack", effect.position))
                    self.ready = deque(one for one in self.ready if one[0] != effect.position)
                    self.callbacks.append(partial(self._acknowledged, effect.position))

    def _acknowledged(self, position):
        self.do_outbound(self.outbound.acknowledged(position))


class Connection:
    """A client's connection: two ways, which keep order; what is on them is lost when it breaks."""

    def __init__(self, node, client, receive, attach):
        self._node, self.client, self._receive, self._attach = node, client, receive, attach
        self.to_node, self.to_client = deque(), deque()
        self.is_up = False

    def connect(self):
        self.is_up = True
        self._attach(self.to_client)
        self.to_node.extend(self.client.connected())

    def cut(self):
        self.is_up = False
        self.to_node.clear()
        self.to_client.clear()
        self._attach(None)

    def arrive_at_node(self):
        if self.to_node:
            self._receive(*self.to_node.popleft())

    def arrive_at_client(self):
        if self.to_client:
            self.to_node.extend(self.client.receive(*self.to_client.popleft()))


class ExactlyOnceScenario:
    """The run of one seed."""

    def __init__(self, seed, sizes=(1, 4)):
        self.random = random = Random(seed)
        self.trace = []
        self.node = node = Node(random)
        self.fault_rate = random.choice((0.02, 0.05, 0.15))
        publisher, self.subscriber = Publisher(random.randint(*sizes)), Subscriber()
        self.publishing = Connection(
            node, publisher, node.from_publisher, lambda way: setattr(node, "to_publisher", way)
        )
        self.subscribing = Connection(
            node, self.subscriber, node.from_subscriber, self._attach_subscriber
        )

    def _attach_subscriber(self, way):
        node = self.node
        node.to_subscriber = way
        if way is not None:
            node.redeliver()
            node.do_outbound(node.outbound.connected())

    def lines(self):
        """What has happened."""
        return self.trace

    @property
    def _is_over(self):
        node, publisher = self.node, self.publishing.client
        return (
            publisher.number == MESSAGES and not publisher.under_way
            and len(self.subscriber.messages) >= MESSAGES
            and not (node.ready or len(node.outbound) or node.batch)
        )  # fmt: skip

    def run(self):
        """Run it. Raises AssertionError if a property does not hold."""
        for step in range(STEPS_MAX + CALM_STEPS):
            if self._is_over:
                break
            self._step(faults=step < STEPS_MAX)
        messages = self.subscriber.messages
        require(len(set(messages)) == len(messages), "doubled:", messages)
        require(sorted(messages) == list(range(MESSAGES)), "lost:", messages)
        require(self._is_over, "it ends")

    def _step(self, *, faults):
        random, node = self.random, self.node
        if faults and random.random() < self.fault_rate:
            fault = random.choice(("crash", "cut publisher", "cut subscriber"))
            self.trace.append(fault)
            if fault != "cut subscriber":
                self.publishing.cut()
            if fault != "cut publisher":
                self.subscribing.cut()
            if fault == "crash":
                node.crash()
            return
        for one in (self.publishing, self.subscribing):
            if not one.is_up and random.random() < 0.3:
                one.connect()
        if self.publishing.is_up and random.random() < 0.2:
            self.publishing.to_node.extend(self.publishing.client.publish())
        act = random.choice((
            node.sync, node.deliver, self.publishing.arrive_at_node,
            self.publishing.arrive_at_client, self.subscribing.arrive_at_node,
            self.subscribing.arrive_at_client,
        ))  # fmt: skip
        self.trace.append(act.__qualname__)
        act()


def run_seed(seed, sizes=(1, 4)):
    """Run one seed; a failure names it."""
    return run_scenario(ExactlyOnceScenario(seed, sizes), seed, sizes, "exactly_once_scenario")


if __name__ == "__main__":
    run_command(ExactlyOnceScenario, run_seed, most_nodes=4)
