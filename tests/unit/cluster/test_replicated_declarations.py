"""Declarations in a cluster: what is declared on one node is declared on all.

Nodes in one process, whose links pass messages on when the test says so.
"""

from collections import deque

import pytest

from leveret.broker.amqp.errors import ChannelFault
from leveret.broker.declarations.values import (
    DeleteQueue,
    PutBinding,
    PutExchange,
    PutQueue,
    PutVhost,
    encode,
)
from leveret.broker.registry.contents import contents
from leveret.broker.runtime.pending import Answer, given
from leveret.cluster.metadata.history import History
from leveret.cluster.metadata.log_listener import LogListener
from leveret.cluster.metadata.messages import ViewMember
from leveret.cluster.metadata.passing import PASSING
from leveret.cluster.metadata.replicated_declarations import ReplicatedDeclarations
from leveret.cluster.metadata.replication import MetadataReplication
from leveret.storage.metadata.metadata import MetadataError, SqliteMetadata
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


class Listener(LogListener):
    """Remembers what it hears. kept: what `replacing` answers. The test may replace the others."""

    def __init__(self):
        self.has_joined = False
        self.restarts, self.errors, self.replaced = [], [], []
        self.kept = given(None)
        self.when_members_changed = self.when_view_changed = lambda: None

    def joined(self):
        self.has_joined = True

    def members_changed(self):
        self.when_members_changed()

    def view_changed(self):
        self.when_view_changed()

    def replacing(self, lost, discarded):
        self.replaced.append((lost, discarded))
        return self.kept

    def gives_way(self, takes_from):
        self.restarts.append(takes_from)

    def entry_failed(self, error):
        self.errors.append(error)


class Node:
    """One run of a node, with its store in a directory."""

    def __init__(self, cluster, name, directory, incarnation=1, turns=None):
        self.name, self.incarnation = name, incarnation
        self.metadata = SqliteMetadata(directory / f"{name}.sqlite")
        definitions = self.metadata.load()
        self.declared = Declared(self.metadata, turns=turns)
        self.sync = SyncOnDemand()
        self.listener = Listener()
        registry = self.declared.registry
        history = History(self.metadata)
        self.log = ReplicatedDeclarations(
            registry, self.declared.writer, self.sync, history,
            self.declared.events, self.declared.log, self.declared.turns, self.listener,
        )  # fmt: skip
        self.declared.restore(definitions)
        log, view, companions, _, promised = history.read(definitions.parameters)
        self.log.begin(
            MetadataReplication(
                ViewMember(name, incarnation, name not in cluster.ram), log, view,
                frozenset(cluster.names),
                companions=companions, promised=promised,
            )
        )  # fmt: skip

    def stop(self):
        self.log.end("the node stops")
        self.metadata.close()


class Cluster:
    """Up to three nodes. Every frame waits in one queue until `run`."""

    names = ("a", "b", "c")
    ram = frozenset()

    def __init__(self, directory):
        self.directory = directory
        self.frames = deque()
        self.nodes = {}
        self.links = []

    def make_node(self, name, incarnation):
        return Node(self, name, self.directory, incarnation)

    def take_turns(self):
        """What nodes do between two frames; whether anything was done."""
        return False

    def start(self, name, incarnation=1):
        node = self.nodes[name] = self.make_node(name, incarnation)
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

    def cut(self, name):
        """The links of a node are down; it runs on, as the others do."""
        node = self.nodes[name]
        for pair in [one for one in self.links if node in (one[0].sender, one[0].receiver)]:
            self._cut(pair)

    def cut_link(self, one, other):
        """The link between two nodes is down."""
        for pair in [
            each for each in self.links if {one, other} == {each[0].sender, each[0].receiver}
        ]:
            self._cut(pair)

    def _cut(self, pair):
        self.links.remove(pair)
        for wire in pair:
            wire.sender.log.peer_down(wire, "nothing was heard")
        self.frames = deque(one for one in self.frames if one[0] not in pair)

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

    def pass_frames(self):
        while self.frames:
            wire, frame = self.frames.popleft()
            wire.receiver.log.received(wire.back, frame)
            self.take_turns()

    def run(self):
        """Pass frames on and sync, until nothing is left to do."""
        for _ in range(20):
            for node in self.nodes.values():
                node.log.tick()
            while (
                self.take_turns()
                or self.frames
                or any(node.sync.callbacks for node in self.nodes.values())
            ):
                self.pass_frames()
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


def test_objects_declared_on_one_node_are_declared_on_all(cluster):
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


def test_an_answer_does_not_wait_for_the_disk_of_a_ram_node(cluster):
    cluster.ram = {"c"}
    a, b, c = cluster.formed("a", "b", "c")
    answer = c.log.submit(PutQueue("/", "q", True))
    for node in (a, b):
        cluster.pass_frames()
        node.sync.sync()
    cluster.pass_frames()
    assert c.sync.callbacks
    told = []
    answer.synced().when_given(lambda: told.append("everywhere"))
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
    assert c.listener.has_joined
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


def test_a_mirrored_queue_does_not_go_with_the_node_that_leads_it(cluster):
    cluster.formed("a", "b", "c")
    cluster.declare("a", PutQueue("/", "q", node="c", identity=1, record=b"record"))
    cluster.stop("c")
    cluster.run()
    assert "q" in cluster.nodes["a"].declared.registry.vhosts["/"].queues


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

    def fail(*_):
        raise MetadataError("the disk is full")

    monkeypatch.setattr(b.metadata, "_execute", fail)
    cluster.nodes["a"].log.submit(PutQueue("/", "q", True))
    # The node whose frame it came with is not blamed: the frame is handled.
    cluster.run()
    assert [str(error) for error in b.listener.errors] == ["the disk is full"]
    assert "q" not in b.declared.registry.vhosts["/"].queues


def test_a_node_that_has_failed_applies_nothing_more_and_gets_it_after_a_restart(
    cluster, monkeypatch
):
    _, b, _ = cluster.formed("a", "b", "c")
    with monkeypatch.context() as broken:

        def fail(*_):
            raise MetadataError("the disk is full")

        broken.setattr(b.metadata, "_execute", fail)
        cluster.nodes["a"].log.submit(PutQueue("/", "missed", True))
        cluster.run()
    cluster.nodes["a"].log.submit(PutQueue("/", "after", True))
    cluster.run()
    cluster.stop("b")
    cluster.run()
    cluster.start("b", 2)
    cluster.run()
    assert "missed" in cluster.nodes["b"].declared.registry.vhosts["/"].queues
    assert cluster.contents("a") == cluster.contents("b")


def test_what_another_node_said_before_the_replication_begins_counts(cluster):
    a, b = Node(cluster, "a", cluster.directory), Node(cluster, "b", cluster.directory)
    cluster.nodes = {"a": a, "b": b}
    replication, b.log._replication = b.log._replication, None
    cluster.link(a, b)
    cluster.pass_frames()
    b.log.begin(replication)
    assert [status.member.name for status in replication.heard] == ["a"]


@pytest.mark.parametrize("falls", ["link", "coordinator"])
def test_transient_objects_that_are_lost_on_the_way_are_sent_again(cluster, falls):
    a, *_ = cluster.formed("a", "b", "c")
    cluster.declare("a", PutExchange("/", "passing", "fanout"))
    cluster.stop("c")
    cluster.run()
    c = cluster.start("c", 2)
    received = c.log.received
    c.log.received = lambda peer, frame: frame[:1] == PASSING or received(peer, frame)
    cluster.run()
    assert not c.listener.has_joined, "its start waits for them"
    c.log.received = received
    if falls == "link":
        cluster.cut_link(a, c)
        cluster.link(a, c)
    else:
        cluster.stop("a")
    cluster.run()
    assert c.listener.has_joined
    assert cluster.contents("c") == cluster.contents("b")
    assert any(b"passing" in one for one in cluster.contents("c"))


def test_transient_objects_have_no_events_on_the_node_that_comes_back(cluster):
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


def partitioned(cluster):
    """Nodes a and b, which have gone on without each other; b has stopped then."""
    cluster.formed("a", "b")
    cluster.cut("b")
    cluster.run()
    cluster.declare("a", PutQueue("/", "of-a", True))
    cluster.declare("b", PutQueue("/", "of-b", True))
    cluster.stop("b")


def names_of(declarations):
    return [one.name for one in declarations]


def test_nothing_is_replaced_before_what_only_this_node_has_is_kept(cluster):
    partitioned(cluster)
    b = cluster.start("b", 2)
    kept = b.listener.kept = Answer()
    cluster.run()
    ((lost, discarded),) = b.listener.replaced
    assert names_of(lost) == ["of-b"]
    assert len(discarded.entries) == 1
    assert "of-b" in b.declared.registry.vhosts["/"].queues
    assert not b.listener.has_joined
    declared = cluster.nodes["a"].log.submit(PutQueue("/", "later", True))
    cluster.run()
    assert not declared.is_given or declared.waits_for_sync
    kept.give(None)
    cluster.run()
    assert b.listener.has_joined
    assert sorted(b.declared.registry.vhosts["/"].queues) == ["later", "of-a"]


def test_a_node_that_cannot_keep_what_only_it_has_fails_and_replaces_nothing(cluster):
    partitioned(cluster)
    b = cluster.start("b", 2)
    kept = b.listener.kept = Answer()
    cluster.run()
    kept.refuse(OSError("the disk is full"))
    assert [str(error) for error in b.listener.errors] == ["the disk is full"]
    assert list(b.declared.registry.vhosts["/"].queues) == ["of-b"]


def test_a_node_that_was_merely_away_has_nothing_of_its_own(cluster, monkeypatch):
    monkeypatch.setattr("leveret.cluster.metadata.history.ENTRIES_KEPT", 3)
    cluster.formed("a", "b")
    cluster.declare("a", PutQueue("/", "gone", True))
    cluster.stop("b")
    cluster.run()
    cluster.declare("a", DeleteQueue("/", "gone"))
    for number in range(10):
        cluster.declare("a", PutQueue("/", f"q{number}", True))
    b = cluster.start("b", 2)
    cluster.run()
    assert [discarded for _, discarded in b.listener.replaced] == [None]
    assert b.listener.has_joined
