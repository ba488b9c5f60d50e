"""One simulated run of retained messages on all nodes of a cluster; then quiet.

    python -m tests.sim.retained_scenario --seed 17          one seed, with its trace
    python -m tests.sim.retained_scenario --seeds 1000       many of them, from --first on

Nodes put and remove messages while links break, partitions last for seconds, clocks differ by
seconds, and nodes crash: a node loses what it has not written. In the end all nodes have, for each
topic, the newest version that any of them ever had on disk, and nothing that is older than a
removal of all messages.
"""

from itertools import combinations
from types import SimpleNamespace

from leveret.broker.retained.retained_message import RetainedMessage
from leveret.broker.retained.retained_messages import FORGET_AFTER_MS, RetainedMessages
from leveret.broker.retained.retained_work import WorkInMemory
from leveret.cluster.retained.retained_copies import COMPARE_MS, FEATURE, RetainedCopies
from leveret.storage.retained.retained_transaction import RetainedOutcome
from tests.sim.command import run_command, run_scenario
from tests.sim.properties import require
from tests.sim.world import Endpoint, Events, Link

TOPICS = ("a", "a/b", "c", "d/e")
VHOSTS = ("/", "v")
SECONDS = 30
WRITE_MS_MAX = 30


class NodeClock:
    """The clock of one start of a node. skew_ms: of its wall clock."""

    def __init__(self, events, skew_ms):
        self._events = events
        self._skew_ms = skew_ms
        self.is_over = False

    def now_ms(self):
        return self._events.now

    def wall_time_s(self):
        return 1_000_000 + (self._events.now + self._skew_ms) / 1000

    def call_later_ms(self, delay_ms, callback):
        timer = SimpleNamespace(is_cancelled=False)
        timer.cancel = lambda: setattr(timer, "is_cancelled", True)

        def act():
            if not timer.is_cancelled and not self.is_over:
                callback()

        self._events.later(int(delay_ms), act)
        return timer


class SimulatedPeer:
    """A `Peer`: another node, for the life of one link."""

    features = frozenset((FEATURE,))

    def __init__(self, name, send):
        self.name = name
        self._send = send

    def send(self, _service, *pieces):
        self._send(self.name, b"".join(pieces))


class RecordedWork(WorkInMemory):
    """The disk of a node, which survives its crashes. stored: the versions that it ever had."""

    def __init__(self, history):
        super().__init__(FORGET_AFTER_MS)
        apply = self.file.apply

        def recorded(changes, limits):
            outcomes = apply(changes, limits)
            for change, outcome in zip(changes, outcomes, strict=True):
                if outcome is RetainedOutcome.STORED:
                    history.append(change.row)
            return outcomes

        self.file.apply = recorded


class RetainedNode(Endpoint):
    """A node with retained messages."""

    is_paused = False

    def __init__(self, name, events, history, send):
        self.name = name
        self.incarnation = 0
        self.is_alive = False
        self._events = events
        self._send = send
        self._skew_ms = events.random.randint(-3000, 3000)
        self.work = RecordedWork(history)
        self.start()

    def start(self):
        """Start again, with what is on disk."""
        self.incarnation += 1
        self.is_alive = True
        self._clock = NodeClock(self._events, self._skew_ms)
        self._peers = {}
        retained = self.retained = RetainedMessages(self._clock, self.name)
        retained.make_work = lambda: self.work
        retained.call_soon = self._later
        retained.open()
        links = SimpleNamespace(register=lambda _number, service: None)
        self.service = RetainedCopies(links, retained, self._clock)

    def _later(self, callback):
        clock = self._clock
        self._events.later(
            self._events.random.randint(0, WRITE_MS_MAX),
            lambda: None if clock.is_over else callback(),
        )

    def crash(self):
        """Lose what is not on disk."""
        self.is_alive = False
        self._clock.is_over = True

    def linked(self, name, incarnation):
        send = self._send
        peer = self._peers[name] = SimulatedPeer(name, lambda to, item: send(self.name, to, item))
        self.service.peer_up(peer)

    def unlinked(self, name):
        self.service.peer_down(self._peers.pop(name), "broken")

    def receive(self, sender, item):
        if self.is_alive and sender in self._peers:
            self.service.received(self._peers[sender], item)


class RetainedScenario:
    """The run of one seed. sizes: the least and the greatest number of nodes."""

    def __init__(self, seed, sizes=(2, 4)):
        self.events = Events(seed)
        self.random = self.events.random
        self.history = []
        self.answered = []
        names = "abcd"[: self.random.randint(*sizes)]
        self.nodes = {
            name: RetainedNode(name, self.events, self.history, self._send) for name in names
        }
        self.links = {
            frozenset(pair): Link(self.events, *(self.nodes[name] for name in pair))
            for pair in combinations(names, 2)
        }
        self.removes_all = self.random.random() < 0.3

    def _send(self, sender, receiver, item):
        self.links[frozenset((sender, receiver))].send(sender, item)

    def lines(self):
        """What has happened."""
        return self.events.lines()

    def run(self):
        """Run it. Raises AssertionError if a property does not hold."""
        while self.events.now < SECONDS * 1000:
            self.events.run_until(self.events.now + self.random.randint(1, 200))
            self._act()
        for link in self.links.values():
            for name in self.nodes:
                link.unblock(name)
        for node in self.nodes.values():
            if not node.is_alive:
                self._start(node)
        self.events.run_until(self.events.now + 2 * COMPARE_MS)
        self._check()

    def _act(self):
        random = self.random
        node = random.choice(list(self.nodes.values()))
        chance = random.random()
        if not node.is_alive:
            self._start(node)
        elif chance < 0.6:
            self._put(node)
        elif chance < 0.8:
            self._remove(node)
        elif chance < 0.85:
            self.events.note(node.name, "crashes")
            node.crash()
            for pair, link in self.links.items():
                if node.name in pair:
                    link.break_off()
        elif self.links:
            pair, link = random.choice(list(self.links.items()))
            name = random.choice(sorted(pair))
            self.events.note("link", *sorted(pair), "changes")
            random.choice((link.break_off, lambda: link.block(name), lambda: link.unblock(name)))()

    def _start(self, node):
        self.events.note(node.name, "starts")
        node.start()

    def _put(self, node):
        vhost, topic = self.random.choice(VHOSTS), self.random.choice(TOPICS)
        self.events.note(node.name, "puts", vhost, topic)
        expires_ms = 0
        if self.random.random() < 0.2:
            now_ms = int(node._clock.wall_time_s() * 1000)
            expires_ms = now_ms + self.random.randint(1, 10_000)
        message = RetainedMessage(b"%d" % self.random.randint(0, 999), expires_at_ms=expires_ms)
        self._note_answer(node.retained.put(vhost, topic, message))

    def _remove(self, node):
        vhost, topic = self.random.choice(VHOSTS), self.random.choice(TOPICS)
        if self.removes_all and self.random.random() < 0.2:
            topic = ""
        self.events.note(node.name, "removes", vhost, topic or "all")
        self._note_answer(node.retained.remove(vhost, topic))

    def _note_answer(self, answer):
        answer.when_given(lambda: self.events.note("an answer"))
        self.answered.append(answer)

    def _check(self):
        newest, cuts = {}, {}
        for row in self.history:
            place = row.vhost, row.key
            if place not in newest or newest[place] < row.version:
                newest[place] = row.version
            if not row.key:
                cuts[row.vhost] = newest[place]
        expected = {
            version
            for (vhost, key), version in newest.items()
            if not key or vhost not in cuts or version > cuts[vhost]
        }
        for name, node in self.nodes.items():
            file = node.work.file
            found = {
                version
                for bucket, digest in enumerate(file.sums.digests)
                if digest
                for version in file.versions(bucket)
            }
            require(found == expected, "node", name, "has", found - expected, "lacks",
                    expected - found)  # fmt: skip
            linked = node.service._nodes.values()
            require(not any(one.unanswered or one.differing for one in linked), "RTC1, RTC2", name)


def run_seed(seed, sizes=(2, 4)):
    """Run one seed; a failure names it."""
    return run_scenario(RetainedScenario(seed, sizes), seed, sizes, "retained_scenario")


if __name__ == "__main__":
    run_command(RetainedScenario, run_seed, most_nodes=4)
