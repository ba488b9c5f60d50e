"""A mirrored queue on nodes whose links fall and return faster than they notice, by seed.

What may happen next is an action, and the seed chooses one after the other. A link is two lines,
which keep order. One that falls loses any number of the last frames of each line; each end notices
when it comes to the mark at the end of its line, and a link returns when both have. So one end may
use the next link while the other has just noticed the end of the one before, or sends into nothing.

Some lines are slow, and any frame may be so late that a node does what it does when confirms are
late (late_confirms.py). The others may believe for a while that a node is on another side of a
partition. Records are one log, which each node applies at its own pace. What members
ask for is made in the order in which it was asked. An entry is stable when all nodes have applied
it. Nodes also start again, with nothing, and leaders hand over. A node that should mirror the queue
and does not, joins.

`Life.run` ends with quiet: everything is linked, applied and made, until nothing is left to do. No
client publishes then, so whatever waits for a frame that was lost would wait for ever.
"""

import random
from collections import deque
from itertools import combinations, permutations

from leveret.broker.queues.contract.placement import Placement
from leveret.broker.queues.contract.specification import specification_of
from leveret.broker.runtime.pending import Answer
from leveret.cluster.gm.group import Added, Died, Member
from leveret.cluster.mirrors import mirror_record as records
from leveret.cluster.mirrors.late_confirms import LOOKS_MAX
from leveret.cluster.mirrors.planning import Mirroring
from leveret.cluster.mirrors.record_changes import encode
from leveret.cluster.mirrors.replica_host import ReplicaHost
from leveret.cluster.mirrors.replicas import Replicas
from leveret.cluster.rpc.refused import Refused
from tests.linked_nodes import LinkedNode, LinkEnd
from tests.unit.broker.queues.fakes import FakeConsumer, publish
from tests.unit.cluster.mirrors.mirrored_nodes import RING, MirroredNodes
from tests.unit.cluster.remote_queues.fakes import Publisher

NAMES = ("a@host", "b@host", "c@host", "d@host", "e@host")
UP, DOWN = "up", "down"
STEPS_MAX = 100_000
PAUSE_S = 0.1
"""How long the ring waits for a link to return (gm/outputs.py)."""


class Lost(Exception):
    """All who had the messages have started again: the queue is lost with them."""


class End(LinkEnd):
    """One end of a connection: what is sent after it has fallen goes nowhere."""

    def __init__(self, nodes, name, peer, incarnation):
        super().__init__(peer, incarnation)
        self._nodes = nodes
        self._way = name, peer
        self._connection = nodes.connections[frozenset(self._way)]

    def send(self, service, *pieces):
        nodes, pair = self._nodes, frozenset(self._way)
        is_whole = pair in nodes.connected and nodes.connections[pair] == self._connection
        if self.is_up and is_whole:
            nodes.ways[self._way].append((service, b"".join(pieces)))

    def drop(self, reason):
        raise AssertionError(f"a link is dropped: {reason}")


class FallingLinks(MirroredNodes):
    """Nodes and links. ways: frames between two nodes that are on their way. connected: the pairs
    whose link has not fallen. log: all records; applied: how many of them each node has applied.

    asked: changes that are not made yet. wanted: how many members there are to be. parted: a node
    that the others believe to be on another side of a partition, for a while.
    """

    def __init__(self, names, chance):
        self.ways = {way: deque() for way in permutations(names, 2)}
        self.connected = set()
        self.connections = dict.fromkeys(map(frozenset, self.ways), 0)
        self.log = []
        self.applied = dict.fromkeys(names, 0)
        self.asked = deque()
        self.wanted = chance.randint(2, len(names))
        self.may_lead_unsynchronised = chance.random() < 0.3
        self.parted = ""
        self._waiting = {}
        self._chance = chance
        super().__init__(*names)

    def _add_replicas(self, node):
        host = ReplicaHost(
            node.name, node.incarnation, node.services, node.queues,
            lambda listener: self._when_stable(node.name, listener),
            lambda vhost, queue: self.mirroring,
            is_apart=lambda peer: peer.name == self.parted,
        )  # fmt: skip
        node.replicas = Replicas(
            host, node.links,
            lambda replica, change: self.asked.append(change),
            lambda replica, mirror: self.asked.append((mirror, replica.member)),
            lambda queue: [],
        )  # fmt: skip
        node.replicas.view_changed(is_in_view=True)

    # Links

    def link(self, one, other):
        pair = frozenset((one, other))
        self.connected.add(pair)
        self.connections[pair] += 1
        for name, peer in ((one, other), (other, one)):
            self.ways[name, peer].append((UP, self.by_name[name].incarnation))

    def may_link(self, one, other):
        """Both ends have noticed that the link before has fallen."""
        ways = (one, other), (other, one)
        is_free = frozenset((one, other)) not in self.connected
        return is_free and not any(self.ways[way] or way in self.ends for way in ways)

    def fall(self, one, other):
        """The link falls, and loses some of the last frames of each line."""
        self.connected.discard(frozenset((one, other)))
        for way in ((one, other), (other, one)):
            line = self.ways[way]
            ups = [place + 1 for place, item in enumerate(line) if item[0] == UP]
            kept = max([self._chance.randint(0, 4), *ups])
            self.ways[way] = deque([*list(line)[:kept], (DOWN,)])

    def arrive(self, sender, receiver):
        item = self.ways[sender, receiver].popleft()
        links = self.by_name[receiver].links
        if item[0] == UP:
            end = self.ends[receiver, sender] = End(self, receiver, sender, item[1])
            links.tell("peer_up", end)
        elif item[0] == DOWN:
            end = self.ends.pop((receiver, sender))
            end.is_up = False
            links.tell("peer_down", end, "it fell")
        else:
            service, payload = item
            links.services[service].received(self.ends[receiver, sender], payload)

    # Records

    def apply(self, record):
        self.record = record
        self.log.append(record)

    def apply_next(self, name):
        record = self.log[self.applied[name]]
        self.applied[name] += 1
        self._apply_on(self.by_name[name], record)

    def _when_stable(self, name, listener):
        self._waiting.setdefault(name, deque()).append((self.applied[name], listener))

    def tell_stable(self):
        """Call the callbacks that wait for all nodes to apply a change; whether there was one."""
        stable, was_told = min(self.applied.values()), False
        for waiting in self._waiting.values():
            while waiting and waiting[0][0] <= stable:
                waiting.popleft()[1]()
                was_told = True
        return was_told

    def make(self):
        """Make the change that was asked for first, unless it is refused."""
        try:
            changed = self._changed(self.asked.popleft())
        except Refused:
            return
        if changed != self.record:
            self.apply(changed)

    def _changed(self, change):
        record = self.record
        match change:
            case str() if self.replica(change).copy is None:
                raise Lost
            case str():
                return records.returned(record, self.member(change))
            case Member():
                return records.promoted(record, change)
            case (mirror, leader):
                return records.synchronised(record, mirror, leader)
            case Added():
                return records.joined(record, change)
            case Died():
                may_lead = self.may_lead_unsynchronised
                return records.died(record, change, may_lead_unsynchronised=may_lead)
        return records.ring_changed(record, change)

    def _lives(self, member):
        return self.by_name[member.node].incarnation == member.incarnation

    def plan(self):
        """Ask for what nodes ask for by their views; whether there is something."""
        record = self.record
        if record.members and not any(self._lives(one.id) for one in record.members):
            self.apply(records.vanished(record, [one.id for one in record.members], self.by_name))
        elif record.leader is None:
            self.asked.append(record.awaited)
        elif self._is_one_missing(record):
            absent = [name for name in self.by_name if record.on(name) is None]
            new = self.member(self._chance.choice(absent))
            self.asked.append(Added(new, record.leader))
        else:
            return False
        return True

    def _is_one_missing(self, record):
        is_known = self.applied[record.leader.node] == len(self.log)
        return is_known and self._lives(record.leader) and len(record.members) < self.wanted

    def ask_to_hand_over(self, name):
        one = self.record.on(name)
        if one is not None and one.is_synchronised and self.record.leader is not None:
            self.asked.append(one.id)

    # Starts

    def start_again(self, name):
        """A node starts again, with the newest record and nothing else."""
        for other in self.by_name:
            if other != name:
                if frozenset((name, other)) in self.connected:
                    self.fall(name, other)
                self.ways[other, name].clear()
                self.ends.pop((name, other), None)
        self._waiting.pop(name, None)
        node = LinkedNode(name, self.by_name[name].incarnation + 1)
        self.by_name[name] = node
        node.vhost._submit = self.submit
        self._apply(node, self._declarations)
        self._add_replicas(node)
        self.applied[name] = len(self.log)
        queue = node.queue()
        placement = Placement(self.record.home, queue.placement.identity, encode(self.record))
        specification = specification_of("/", queue)._replace(placement=placement)
        node.vhost.replace_queue(node.replicas.make_queue(specification, self.record))
        self._apply_on(node, self.record)

    # What happens

    def due(self):
        """What happens without faults, and in no order."""
        for way, line in self.ways.items():
            if line:
                yield self.arrive, *way
        for node in self:
            if node.loop.soon:
                yield (node.loop.run,)
            if self.applied[node.name] < len(self.log):
                yield self.apply_next, node.name
        if self.asked:
            yield (self.make,)

    def pass_time(self):
        """The pauses of the rings are over."""
        for node in self:
            node.clock.advance(PAUSE_S)

    def settle(self):
        """Links return, and everything happens that is due, until nothing is."""
        for _ in range(STEPS_MAX):
            action = self._next()
            if action is None:
                return
            act, *arguments = action
            act(*arguments)
        raise AssertionError("something goes on for ever")

    def _next(self):
        due = list(self.due())
        if due:
            return self._chance.choice(due)
        for one, other in combinations(self.by_name, 2):
            if self.may_link(one, other):
                return self.link, one, other
        has_timers = any(node.clock._timers for node in self)
        if self.tell_stable() or (not has_timers and self.record is not None and self.plan()):
            return (bool,)
        return (self.pass_time,) if has_timers else None


class Life:
    """The life of one seed. publishers, consumers, answers: of each node in its present life.

    answers: to subscriptions.
    """

    def __init__(self, seed):
        self.chance = chance = random.Random(seed)
        self.names = NAMES[: chance.choice((2, 3, 3, 4, 5))]
        self.nodes = nodes = FallingLinks(self.names, chance)
        nodes.settle()
        nodes.home = nodes.declare(self.names[0])
        nodes.mirroring = Mirroring("all", is_automatic=chance.random() < 0.9)
        nodes.apply(records.first("q", RING, nodes.member(self.names[0])))
        nodes.settle()
        self.publishers = {name: Publisher() for name in self.names}
        self.consumers = {name: [] for name in self.names}
        self.answers = {name: [] for name in self.names}
        self.published = dict.fromkeys(self.names, 0)
        self._falls = chance.randint(1, 12)
        self._starts = chance.choice((0, 0, 1, 2, 3))
        # How readily each node applies records.
        self._readiness = {name: chance.choice((0.02, 0.3, 1.0)) for name in self.names}
        # How readily frames of each node come to each other one.
        self._speeds = {way: chance.choice((0.02, 1.0, 1.0, 1.0)) for way in nodes.ways}

    def run(self):
        """Run it all; raises Lost."""
        nodes = self.nodes
        rare = (
            [self._publish] * 16 + [self._fall] * 8 + [self._link] * 10 + [self._consume] * 2
            + [self._settle_some] * 4 + [nodes.pass_time] * 2 + [nodes.plan] * 4
            + [nodes.tell_stable] * 2 + [self._look] * 4
            + [self._synchronise, self._start_again, self._hand_over, self._part]
        )  # fmt: skip
        for _ in range(self.chance.randint(50, 400)):
            if self.chance.random() < 0.26:
                self.chance.choice(rare)()
            else:
                self._go_on()
        nodes.parted = ""
        nodes.settle()

    def check(self):
        """All requests are answered, and if there was always a leader, it has all consumers."""
        always_led = all(record.leader is not None for record in self.nodes.log)
        for name in self.names:
            owed = self.publishers[name].owed
            assert not owed, f"{name} waits for confirms of {owed}"
            for answer in self.answers[name]:
                assert answer.is_given, f"{name} waits for a subscription"
                if always_led:
                    answer.result()
        if always_led:
            leading = self.nodes.replica(self.nodes.record.leader.node).leading
            there = sum(map(len, self.consumers.values()))
            assert len(leading.queue.ring.consumers) == there, f"not {there} consumers"

    def _any(self):
        return self.chance.choice(self.names)

    def _go_on(self):
        due = list(self.nodes.due())
        act, *arguments = self.chance.choice(due) if due else (bool,)
        readiness = 1.0
        if act == self.nodes.apply_next:
            readiness = self._readiness[arguments[0]]
        elif act == self.nodes.arrive:
            readiness = self._speeds[tuple(arguments)]
        if self.chance.random() <= readiness:
            act(*arguments)

    def _publish(self):
        name = self._any()
        queue = self.nodes.queue(name)
        if queue.is_down:
            return
        first, count = self.published[name] + 1, self.chance.choice((1, 1, 3))
        self.published[name] += count
        bodies = [f"{name} {number}".encode() for number in range(first, first + count)]
        publish(queue, *bodies, publisher=self.publishers[name], first=first)

    def _consume(self):
        name = self._any()
        queue = self.nodes.queue(name)
        if not queue.is_down:
            consumer, answer = FakeConsumer(credit=self.chance.choice((1, 3))), Answer()
            queue.subscribe(consumer, answer)
            self.consumers[name].append(consumer)
            self.answers[name].append(answer)

    def _settle_some(self):
        name = self._any()
        queue = self.nodes.queue(name)
        for consumer in self.consumers[name]:
            entries = consumer.entries[:2]
            del consumer.entries[:2]
            if entries:
                settle = queue.ack if self.chance.random() < 0.7 else queue.requeue
                settle(entries)
                consumer.credit += len(entries)
                queue.credit(consumer)

    def _fall(self):
        if self._falls and self.nodes.connected:
            self._falls -= 1
            self.nodes.fall(*self.chance.choice(sorted(map(sorted, self.nodes.connected))))

    def _link(self):
        one, other = self.chance.sample(self.names, 2)
        if self.nodes.may_link(one, other):
            self.nodes.link(one, other)

    def _synchronise(self):
        self.nodes.synchronise(self._any())

    def _hand_over(self):
        self.nodes.ask_to_hand_over(self._any())

    def _look(self):
        """Up to two net_ticktimes pass at a node, in which nothing comes."""
        leader = self.nodes.record.leader
        name = self._any() if leader is None or self.chance.random() < 0.5 else leader.node
        node = self.nodes.by_name[name]
        for _ in range(self.chance.randint(1, 1 + LOOKS_MAX)):
            node.replicas.look()
            node.loop.run()

    def _part(self):
        self.nodes.parted = self.chance.choice(("", *self.names))

    def _start_again(self):
        if self._starts:
            self._starts -= 1
            name = self._any()
            self.nodes.start_again(name)
            self.publishers[name] = Publisher()
            self.consumers[name] = []
            self.answers[name] = []
            self.published[name] = 0
