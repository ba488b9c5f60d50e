"""Declarations in a cluster: what is declared on one node is declared on all.

Nodes in one process, whose links pass messages on when the test says so.
"""

from collections import deque

import pytest

from leveret.broker.amqp.errors import ChannelFault
from leveret.broker.declarations import (
    DeleteQueue,
    PutBinding,
    PutExchange,
    PutQueue,
    PutVhost,
    encode,
)
from leveret.broker.registry.contents import contents
from leveret.cluster.metadata.history import History, read
from leveret.cluster.metadata.messages import Member
from leveret.cluster.metadata.replicated_declarations import ReplicatedDeclarations
from leveret.cluster.metadata.replication import Replication
from leveret.storage.metadata import MetadataError, SqliteMetadata
from tests.declaring import Declared


class SyncOnDemand:
    """A disk that syncs when the test says so."""

    def __init__(self):
        self.callbacks = []
        self.is_synced = True

    def when_synced(self, callback):
        self.callbacks.append(callback)

    def sync(self):
        callbacks, self.callbacks = self.callbacks, []
        for callback in callbacks:
            callback(None)


class Wire:
    """One direction of a link: a node as the other one sees it."""

    def __init__(self, cluster, sender, receiver):
        self.cluster, self.sender, self.receiver = cluster, sender, receiver
        self.name, self.incarnation = receiver.name, receiver.incarnation
        self.back = None

    def send(self, service, *pieces):
        self.cluster.frames.append((self, b"".join(pieces)))


class Node:
    """One run of a node, with its store in a directory."""

    def __init__(self, cluster, name, directory, incarnation=1):
        self.name, self.incarnation = name, incarnation
        self.metadata = SqliteMetadata(directory / f"{name}.sqlite")
        definitions = self.metadata.load()
        self.declared = Declared(self.metadata)
        self.sync = SyncOnDemand()
        self.joined = False
        self.restarts = []
        registry = self.declared.registry
        self.log = ReplicatedDeclarations(
            registry, self.declared.writer, self.sync, History(self.metadata),
            self.declared.events, self.declared.log,
        )  # fmt: skip
        self.log.joined = lambda: setattr(self, "joined", True)
        self.log.restart_wanted = self.restarts.append
        self.declared.restore(definitions)
        log, view, companions = read(definitions.parameters)
        self.log.begin(
            Replication(
                Member(name, incarnation), log, view, frozenset(cluster.names),
                companions=companions,
            )
        )  # fmt: skip

    def stop(self):
        self.log.end("the node stops")
        self.metadata.close()


class Cluster:
    """Up to three nodes. Every frame waits in one queue until `run`."""

    names = ("a", "b", "c")

    def __init__(self, directory):
        self.directory = directory
        self.frames = deque()
        self.nodes = {}
        self.links = []

    def start(self, name, incarnation=1):
        node = self.nodes[name] = Node(self, name, self.directory, incarnation)
        for other in tuple(self.nodes.values()):
            if other is not node:
                self.link(node, other)
        return node

    def link(self, one, other):
        there, back = Wire(self, one, other), Wire(self, other, one)
        there.back, back.back = back, there
        self.links.append((there, back))
        one.log.peer_up(there)
        other.log.peer_up(back)

    def stop(self, name):
        node = self.nodes.pop(name)
        for there, back in [
            pair for pair in self.links if node in (pair[0].sender, pair[0].receiver)
        ]:
            self.links.remove((there, back))
            wire = there if there.receiver is node else back
            wire.sender.log.peer_down(wire, "it stopped")
        self.frames = deque(
            (wire, frame) for wire, frame in self.frames if node not in (wire.sender, wire.receiver)
        )
        node.stop()

    def run(self):
        """Pass frames on and sync, until nothing is left to do."""
        for _ in range(20):
            for node in self.nodes.values():
                node.log.tick()
            while self.frames or any(node.sync.callbacks for node in self.nodes.values()):
                while self.frames:
                    wire, frame = self.frames.popleft()
                    wire.receiver.log.received(wire.back, frame)
                for node in self.nodes.values():
                    node.sync.sync()

    def formed(self, *names):
        """Start these nodes: the first forms the cluster, with a vhost, and the others join."""
        first = self.start(names[0])
        first.log.form()
        for name in names[1:]:
            self.start(name)
        self.run()
        self.declare(names[0], PutVhost("/"))
        return [self.nodes[name] for name in names]

    def declare(self, name, *declarations):
        answer = self.nodes[name].log.submit(*declarations)
        self.run()
        answer.result()
        is_everywhere = answer.synced()
        is_everywhere.when_given(lambda: None)
        is_everywhere.result()

    def contents(self, name):
        return {encode(one) for one in contents(self.nodes[name].declared.registry)}


@pytest.fixture
def cluster(tmp_path):
    made = Cluster(tmp_path)
    yield made
    for node in made.nodes.values():
        node.stop()


def test_what_is_declared_on_one_node_is_declared_on_all(cluster):
    cluster.formed("a", "b", "c")
    cluster.declare("b", PutExchange("/", "e", "topic", True))
    cluster.declare("c", PutQueue("/", "q", True))
    cluster.declare("a", PutBinding("/", "e", "q", "k"))
    assert cluster.contents("a") == cluster.contents("b") == cluster.contents("c")
    assert len(cluster.contents("a")) == 4


def test_an_answer_waits_for_the_disk_of_every_node(cluster):
    a, b, c = cluster.formed("a", "b", "c")
    answer = b.log.submit(PutQueue("/", "q", True))
    told = []
    for synced in (a, b, c):
        while cluster.frames:
            wire, frame = cluster.frames.popleft()
            wire.receiver.log.received(wire.back, frame)
        if synced is a:
            answer.result()
            answer.synced().when_given(lambda: told.append("everywhere"))
        assert not told
        synced.sync.sync()
    cluster.run()
    assert told == ["everywhere"]


def test_the_same_declared_on_two_nodes_at_once_is_declared_once(cluster):
    a, b, _ = cluster.formed("a", "b", "c")
    answers = [
        a.log.submit(PutExchange("/", "e", "topic", True)),
        b.log.submit(PutExchange("/", "e", "fanout", True)),
    ]
    cluster.run()
    for answer in answers:
        answer.result()
    assert cluster.contents("a") == cluster.contents("b") == cluster.contents("c")
    assert len(cluster.contents("a")) == 2


def test_a_fault_found_by_the_coordinator_reaches_the_client(cluster):
    a, b, _ = cluster.formed("a", "b", "c")
    cluster.declare("a", PutQueue("/", "q", True))
    deleted = a.log.submit(DeleteQueue("/", "q"))
    bound = b.log.submit(PutBinding("/", "amq.topic", "q", "k"))
    cluster.run()
    deleted.result()
    with pytest.raises(ChannelFault, match="no queue 'q' in vhost '/'"):
        bound.result()


def test_a_mistake_is_refused_at_once(cluster):
    _, b, _ = cluster.formed("a", "b", "c")
    with pytest.raises(ChannelFault, match="no queue 'nothing'"):
        b.log.submit(PutBinding("/", "amq.topic", "nothing", "k"))


def test_a_node_that_comes_back_gets_what_it_missed(cluster):
    cluster.formed("a", "b", "c")
    cluster.declare("a", PutExchange("/", "passing", "fanout"))
    cluster.stop("c")
    cluster.run()
    cluster.declare("b", PutQueue("/", "q", True))
    c = cluster.start("c", 2)
    cluster.run()
    assert c.joined
    assert cluster.contents("c") == cluster.contents("a")
    assert any(b"passing" in one for one in cluster.contents("c"))
    cluster.declare("c", PutQueue("/", "mine", True))
    assert cluster.contents("c") == cluster.contents("b")


def test_a_node_that_was_away_for_long_gets_everything(cluster, monkeypatch):
    monkeypatch.setattr("leveret.cluster.metadata.history.ENTRIES_KEPT", 3)
    cluster.formed("a", "b", "c")
    cluster.declare("a", PutQueue("/", "gone", True))
    cluster.stop("c")
    cluster.run()
    cluster.declare("a", DeleteQueue("/", "gone"))
    for number in range(10):
        cluster.declare("b", PutQueue("/", f"q{number}", True))
    cluster.start("c", 2)
    cluster.run()
    assert cluster.contents("c") == cluster.contents("a")
    assert not any(b"gone" in one for one in cluster.contents("c"))


def test_the_others_go_on_without_the_coordinator(cluster):
    _, b, _ = cluster.formed("a", "b", "c")
    answer = b.log.submit(PutQueue("/", "q", True))
    cluster.stop("a")
    cluster.run()
    answer.result()
    assert cluster.contents("b") == cluster.contents("c")
    assert len(cluster.contents("b")) == 2


def test_what_a_stopped_node_submitted_is_refused(cluster):
    _, b, _ = cluster.formed("a", "b", "c")
    answer = b.log.submit(PutQueue("/", "q", True))
    b.log.end("the node stops")
    with pytest.raises(MetadataError, match="the node stops"):
        answer.result()


def test_only_the_node_of_the_client_tells_of_an_event(cluster):
    a, b, _ = cluster.formed("a", "b", "c")
    seen = []
    a.declared.events.listen(lambda event: seen.append(("a", event["event"])))
    b.declared.events.listen(lambda event: seen.append(("b", event["event"])))
    cluster.declare("b", PutQueue("/", "q", True))
    assert seen == [("b", "queue.created")]


def test_queues_of_a_node_that_left_are_deleted_unless_they_are_durable(cluster):
    cluster.formed("a", "b", "c")
    cluster.declare("a", PutQueue("/", "passing", node="c"), PutQueue("/", "kept", True, node="c"))
    cluster.stop("c")
    cluster.run()
    assert "passing" not in cluster.nodes["a"].declared.registry.vhosts["/"].queues
    assert "kept" in cluster.nodes["b"].declared.registry.vhosts["/"].queues


def test_a_whole_cluster_starts_again(cluster):
    cluster.formed("a", "b", "c")
    cluster.declare("c", PutQueue("/", "q", True))
    before = cluster.contents("a")
    for name in ("a", "b", "c"):
        cluster.stop(name)
        cluster.run()
    last = cluster.start("c", 2)
    last.log.form()
    cluster.start("a", 2)
    cluster.start("b", 2)
    cluster.run()
    for name in ("a", "b", "c"):
        assert cluster.contents(name) == before


def test_a_node_that_cannot_write_what_was_ordered_says_so(cluster, monkeypatch):
    _, b, _ = cluster.formed("a", "b", "c")
    errors = []
    b.log.failed = errors.append

    def fail(*_):
        raise MetadataError("the disk is full")

    monkeypatch.setattr(b.metadata, "_execute", fail)
    cluster.nodes["a"].log.submit(PutQueue("/", "q", True))
    with pytest.raises(MetadataError, match="the disk is full"):
        cluster.run()
    assert [str(error) for error in errors] == ["the disk is full"]
    assert "q" not in b.declared.registry.vhosts["/"].queues


def test_what_is_not_durable_has_no_events_on_the_node_that_comes_back(cluster):
    cluster.formed("a", "b", "c")
    cluster.declare("a", PutExchange("/", "passing", "fanout"))
    cluster.stop("c")
    cluster.run()
    c = cluster.start("c", 2)
    seen = []
    c.declared.events.listen(seen.append)
    cluster.run()
    assert "passing" in c.declared.registry.vhosts["/"].exchanges
    assert seen == []
