"""One simulated run of QoS 2 from a publisher over a node to a subscriber, with crashes.

    python -m tests.sim.exactly_once_scenario --seed 17          one seed, with its trace
    python -m tests.sim.exactly_once_scenario --seeds 1000       many of them, from --first on

The seed chooses each step: a packet arrives, a batch is written, a connection breaks, the node
crashes. A crash loses any of the records of the batch that is being written, as a power cut may:
the sectors of a batch reach the disk in any order. Clients keep their state, as the standard says,
and repeat what was not answered. In the end the subscriber has each message once, in every run.

The seed also chooses how a message is handed over. Together: the queue of the messages and the two
queues of records are in one log, and a message is one record with its RECEIVED (XO2). In two steps:
each queue has a log of its own, as on several nodes; RECEIVED is written first, and after a crash
the message is handed over again with the identity that it has (XO5).
"""

from collections import deque
from random import Random

from leveret.broker.protocols.mqtt import exactly_once as qos2
from leveret.broker.protocols.mqtt.exactly_once import Fact, Inbound, Outbound, Record
from tests.sim.command import run_command, run_scenario
from tests.sim.properties import require

MESSAGES = 12
UNDER_WAY_MAX = 4
STEPS_MAX = 2_500
CALM_STEPS = 5_000
SOURCE = b"publish1"


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


class Store:
    """A log: the records on disk, those that are not, and what waits for their sync."""

    def __init__(self):
        self.log, self.batch, self.callbacks = [], [], []

    def sync(self):
        self.log += self.batch
        self.batch = []
        callbacks, self.callbacks = self.callbacks, []
        for callback in callbacks:
            callback()

    def crash(self, random):
        """Lose any of the records that are not on disk.

        What is gone of one queue is one record, which counts if no other record is lost (RV5).
        """
        runs = [record for record in self.batch if record[0] == "run"]
        gone = [record for record in self.batch if record[0] == "gone"]
        kept = [record for record in runs if random.random() < 0.7]
        self.log += kept
        if len(kept) == len(runs):
            names = {record[1] for record in gone if random.random() < 0.5}
            self.log += [record for record in gone if record[1] in names]
        self.batch, self.callbacks = [], []


class Queue:
    """A queue in a store. ready: positions in order. messages: those that are not gone."""

    def __init__(self, name, store):
        self.name, self.store = name, store
        self.restart()

    def restart(self):
        records = self.store.log
        gone = {at for record in records if record[:2] == ("gone", self.name) for at in record[2]}
        runs = [record for record in records if record[0] == "run" and self.name in record[1]]
        self.next_position = max((record[1][self.name] for record in runs), default=-1) + 1
        self.messages = {
            record[1][self.name]: record[2] for record in runs if record[1][self.name] not in gone
        }
        self.requeue()

    def requeue(self):
        """The consumer is gone: everything that is not gone is delivered again."""
        self.ready = deque(sorted(self.messages))

    def _put(self, message):
        at = self.next_position
        self.next_position += 1
        self.messages[at] = message
        self.ready.append(at)
        return at

    def publish(self, message, done, *others):
        """Publish to this queue, and to others of its store in the same record."""
        places = {queue.name: queue._put(message) for queue in (self, *others)}
        self.store.batch.append(("run", places, message))
        self.store.callbacks.append(done)

    def ack(self, positions):
        for at in positions:
            self.messages.pop(at, None)
        self.store.batch.append(("gone", self.name, tuple(positions)))


class Records:
    """The records of one machine in a queue, which only the machine's connection reads."""

    def __init__(self, queue):
        self.queue = queue

    def read(self):
        """The records in their order."""
        found = [self.queue.messages[at] for at in sorted(self.queue.messages)]
        return [
            Record(Fact.RECEIVED, one["packet_id"], one["identity"])
            if isinstance(one, dict)
            else one
            for one in found
        ]

    def forget(self, identity):
        """The records of a message, in their order."""
        self.queue.ack([
            at
            for at in sorted(self.queue.messages)
            if _identity(self.queue.messages[at]) == identity
        ])  # fmt: skip


def _identity(message):
    return message["identity"] if isinstance(message, dict) else message.identity


class Node:
    """The machines of both sessions, a queue for the messages, and the queues of their records."""

    def __init__(self, random, is_together):
        self._random, self._is_together = random, is_together
        self.stores = [Store()] if is_together else [Store(), Store(), Store()]
        self.queue = Queue("messages", self.stores[0])
        self.received = Records(Queue("received", self.stores[-1]))
        self.sent = Records(Queue("sent", self.stores[1 % len(self.stores)]))
        self.to_publisher = self.to_subscriber = self.inbound = self.outbound = None
        self.time = 0

    @property
    def queues(self):
        return (self.queue, self.received.queue, self.sent.queue)

    @property
    def is_quiet(self):
        """Whether nothing is under way, and nothing waits for the disk."""
        under_way = self.outbound is None or len(self.outbound)
        messages = any(isinstance(one, dict) for one in self.queue.messages.values())
        return not (under_way or messages or any(one.batch for one in self.stores))

    def crash(self):
        for store in self.stores:
            store.crash(self._random)
        for queue in self.queues:
            queue.restart()
        self.inbound = self.outbound = None

    def sync(self):
        self._random.choice(self.stores).sync()

    def _sync_all(self):
        for store in self.stores:
            store.sync()

    # The publisher

    def attach_publisher(self, way):
        self.to_publisher = way
        self.inbound = None
        if way is not None:
            self._sync_all()
            self.inbound = Inbound.from_records(SOURCE, self.received.read())

    def from_publisher(self, kind, packet_id, number=None):
        self.time += 1
        if kind == "PUBLISH":
            effects = self.inbound.published(packet_id, self.time)
        else:
            effects = self.inbound.released(packet_id)
        self._do_inbound(effects, number)

    def _then(self, name, act):
        """A callback that does nothing if the connection has ended in between."""
        machine = getattr(self, name)
        return lambda: act(machine) if getattr(self, name) is machine else None

    def _do_inbound(self, effects, number=None):
        for effect in effects:
            match effect:
                case qos2.HandOver():
                    self._hand_over(effect, number)
                case Record():
                    self.received.queue.publish(
                        effect, self._then("inbound", lambda one, e=effect: self._forgotten(one, e))
                    )
                case qos2.SendPubrec():
                    self.to_publisher.append(("PUBREC", effect.packet_id))
                case qos2.SendPubcomp():
                    self.to_publisher.append(("PUBCOMP", effect.packet_id))

    def _forgotten(self, machine, record):
        self._do_inbound(machine.forgotten(record.packet_id))
        self.received.forget(record.identity)

    def _hand_over(self, effect, number):
        packet_id = effect.packet_id
        message = {
            "number": number, "packet_id": packet_id, "identity": effect.identity,
            "is_repeatable": not self._is_together, "oldest": self.inbound.oldest_number,
        }  # fmt: skip
        stored = self._then("inbound", lambda one: self._do_inbound(one.stored(packet_id)))
        if self._is_together:
            self.queue.publish(message, stored, self.received.queue)
            return
        record = Record(Fact.RECEIVED, packet_id, effect.identity, True)
        publish = self._then("inbound", lambda _: self.queue.publish(message, stored))
        self.received.queue.publish(record, publish)

    # The subscriber

    def attach_subscriber(self, way):
        self.to_subscriber = way
        self.outbound = None
        if way is not None:
            self._sync_all()
            self.queue.requeue()
            self.outbound = Outbound.from_records(self.sent.read())
            self.held = {}
            self.barriers = {}
            self.do_outbound(self.outbound.connected())

    def publish_barrier(self):
        if self.outbound is not None and self.outbound.wants_barrier and not self.barriers:
            number = self.outbound.barrier_published()
            self.barriers[number] = 2
            passed = self._then("outbound", lambda _: self._pass_barrier(number))
            self.queue.publish(("barrier", number, self.outbound), passed)

    def _pass_barrier(self, number):
        self.barriers[number] -= 1
        if not self.barriers[number]:
            del self.barriers[number]
            self.do_outbound(self.outbound.barrier_passed(number))

    def deliver(self):
        """The queue delivers a message."""
        queue = self.queue
        if not queue.ready or self.outbound is None:
            return
        at = queue.ready[0]
        message = queue.messages[at]
        if not isinstance(message, dict):
            queue.ready.popleft()
            queue.ack([at])
            if message[2] is self.outbound:
                self._pass_barrier(message[1])
            return
        identity = message["identity"]
        if identity not in self.outbound and len(self.outbound) >= UNDER_WAY_MAX:
            return
        queue.ready.popleft()
        if identity in self.held:
            queue.ack([at])
            return
        self.held[identity] = at
        self.do_outbound(
            self.outbound.delivered(identity, message["is_repeatable"], message["oldest"])
        )

    def from_subscriber(self, kind, packet_id):
        act = self.outbound.received if kind == "PUBREC" else self.outbound.completed
        self.do_outbound(act(packet_id))

    def do_outbound(self, effects):
        for effect in effects:
            match effect:
                case Record():
                    self.sent.queue.publish(
                        effect,
                        self._then(
                            "outbound",
                            lambda one, e=effect: self.do_outbound(one.synced(e.packet_id)),
                        ),
                    )
                case qos2.SendPublish():
                    number = self.queue.messages[self.held[effect.identity]]["number"]
                    self.to_subscriber.append(("PUBLISH", effect.packet_id, number))
                case qos2.SendPubrel():
                    self.to_subscriber.append(("PUBREL", effect.packet_id))
                case qos2.Acknowledge():
                    at = self.held.pop(effect.identity, None)
                    if at is not None:
                        self.queue.ack([at])
                case qos2.Forget():
                    self.sent.forget(effect.identity)


class Connection:
    """A client's connection: two ways, which keep order; what is on them is lost when it breaks."""

    def __init__(self, client, receive, attach):
        self.client, self._receive, self._attach = client, receive, attach
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
        self.node = node = Node(random, random.random() < 0.5)
        self.fault_rate = random.choice((0.02, 0.05, 0.15))
        publisher, self.subscriber = Publisher(random.randint(*sizes)), Subscriber()
        self.publishing = Connection(publisher, node.from_publisher, node.attach_publisher)
        self.subscribing = Connection(self.subscriber, node.from_subscriber, node.attach_subscriber)

    def lines(self):
        """What has happened."""
        return self.trace

    @property
    def _is_over(self):
        publisher = self.publishing.client
        return (
            publisher.number == MESSAGES and not publisher.under_way
            and len(self.subscriber.messages) >= MESSAGES and self.node.is_quiet
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
        if random.random() < 0.03:
            node.publish_barrier()
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
