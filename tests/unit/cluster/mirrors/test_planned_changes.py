"""What nodes ask for when policies, records and views change: three nodes in one process."""

from types import SimpleNamespace

import pytest

from leveret.broker.amqp.errors import Fault, not_allowed
from leveret.broker.declarations.values import (
    ChangePlacement,
    DeletePolicy,
    Policy,
    PutPolicy,
    PutQueue,
    PutVhost,
)
from leveret.broker.queues.classic.classic_queue import ClassicQueue
from leveret.broker.queues.contract.placement import Placement
from leveret.broker.queues.contract.queue_factory import QueueFactory
from leveret.broker.queues.contract.queue_kind import CLASSIC_QUEUE
from leveret.broker.queues.quorum_kind import QUORUM_QUEUE
from leveret.broker.runtime.pending import Answer
from leveret.cluster.gm.group import Died, HasJoined
from leveret.cluster.mirrors.mirrored_factory import MirroredFactory
from leveret.cluster.mirrors.planned_changes import PlannedChanges
from leveret.cluster.mirrors.planning import NodesInView
from leveret.cluster.mirrors.record_changes import (
    InRing,
    NodeForgotten,
    Synchronised,
    decode_record,
    encode,
)
from leveret.cluster.remote_queues.placed_factory import serve_placed
from leveret.cluster.remote_queues.remote_hold import UntakenBytes
from leveret.cluster.remote_queues.remote_queue import RemoteQueue
from leveret.storage.metadata.metadata import MetadataError
from tests.declaring import Declared
from tests.turns_by_hand import TurnsByHand


class OtherNodes:
    """The `RemoteQueues` of a node without links."""

    incarnation = 1

    def __init__(self, node):
        self.node = node

    def added(self, queue):
        pass

    def home_node(self, node):
        return SimpleNamespace(peer=None, untaken=UntakenBytes(lambda is_behind: None))


class OneNode(Declared):
    """A node. It is its own `RunningView` and a `Listener`."""

    def __init__(self, cluster, name, life=1):
        super().__init__(turns=TurnsByHand())
        self.cluster, self.node, self.life = cluster, name, life
        self.others = OtherNodes(name)
        self.has_copy = True
        self.mirrors = MirroredFactory(
            QueueFactory(CLASSIC_QUEUE, ClassicQueue), self.others, self.registry.policies, self
        )
        self.planned = PlannedChanges(
            name, self.registry.vhosts, cluster.submit, self.turns, self.mirrors.mirroring_of,
            self, lambda identity: self.has_copy, lambda count: 0,
        )  # fmt: skip

    def _make_vhost(self, name):
        vhost = super()._make_vhost(name)
        serve_placed(vhost.kinds, self.others)
        vhost.kinds.add(self.mirrors)
        return vhost

    def make_queue(self, specification, record):
        """A stand-in for a queue that another node leads."""
        return RemoteQueue(self.others.home_node(record.home), specification)

    # RunningView

    @property
    def nodes(self):
        return NodesInView(frozenset(self.cluster.nodes))

    @property
    def is_coordinator(self):
        return next(iter(self.cluster.nodes)) == self.node

    def lives(self, member):
        node = self.cluster.nodes.get(member.node)
        return node is not None and node.life == member.incarnation

    def incarnation(self, node):
        return self.cluster.nodes[node].life

    def when_stable(self, callback):
        if self.cluster.is_stable:
            callback()
        else:
            self.cluster.waiting.append(callback)

    # Listener

    def record_changed(self, vhost, queue, record, storage_id):
        self.planned.look_at(vhost, queue.name)

    def policies_changed(self, vhost, queue):
        self.planned.look_at(vhost, queue.name)


class Cluster:
    """Nodes that apply everything at once. asked: how many changes were asked for.

    is_stable: what is applied is on all disks at once; otherwise `waiting` has who waits for that.
    """

    def __init__(self, *names):
        self.is_stable = True
        self.waiting = []
        self.nodes = {}
        self.log = []
        self.asked = 0
        for name in names:
            self.start(name)
        self.put(PutVhost("/"), PutQueue("/", "q", True, node="a", identity=2))

    def start(self, name, life=1):
        node = OneNode(self, name, life)
        for declaration in self.log:
            node.registry.apply(declaration)
        self.nodes[name] = node

    def put(self, *declarations):
        self.log += declarations
        for node in self.nodes.values():
            for declaration in declarations:
                node.registry.apply(declaration)

    def submit(self, *declarations, answer=None):
        """As the coordinator: complete it and apply it everywhere."""
        self.asked += 1
        assert self.asked < 100, "the nodes ask for changes without an end"
        answer = answer or Answer()
        try:
            completed = next(iter(self.nodes.values())).registry.complete(declarations)
        except Fault as error:
            answer.refuse(error)
        else:
            self.put(*completed)
            answer.give(None)
        return answer

    def change(self, change):
        self.submit(ChangePlacement("/", "q", 2, encode(change))).result()

    def mirror(self, definition):
        self.put(PutPolicy("policy", Policy("/", "ha", "^q$", "queues", definition, 0)))
        self.settle()

    def view_changes(self):
        for node in self.nodes.values():
            node.planned.look_at_all()
        self.settle()

    def settle(self):
        while any(node.turns.woken for node in self.nodes.values()):
            for node in self.nodes.values():
                node.turns.run()

    def die(self, *names):
        """Nodes die: living members of the ring say so, and then the view is another one."""
        record = self.record
        for name in names:
            del self.nodes[name]
        dead = tuple(one.id for one in record.members if one.id.node in names)
        left = [one.id for one in record.members if one.id.node not in names]
        if left:
            self.change(InRing(Died(dead, left[0])))
        self.view_changes()

    def synchronise(self):
        for one in self.record.members:
            if one.id != self.record.leader:
                self.change(InRing(HasJoined(one.id)))
            self.change(Synchronised(one.id, self.record.leader))
        self.settle()

    @property
    def record(self):
        (record,) = {
            node.registry.vhosts["/"].queues["q"].placement.record for node in self.nodes.values()
        }
        return decode_record(record)

    @property
    def where(self):
        """The nodes that have the queue, the leader's first; those that are synchronised are
        capital letters.
        """
        record = self.record
        if record is None or record.leader is None:
            return None
        members = (record.find(record.leader), *record.mirrors)
        return "".join(
            one.id.node.upper() if one.is_synchronised else one.id.node for one in members
        )


@pytest.fixture
def cluster():
    return Cluster("a", "b", "c", "d")


def nodes(names):
    return {"ha-mode": "nodes", "ha-params": list(names)}


def test_a_policy_takes_effect_at_once(cluster):
    assert cluster.record is None
    cluster.mirror({"ha-mode": "all"})
    assert cluster.where == "Abcd"


def test_a_queue_moves_to_the_nodes_of_another_policy(cluster):
    cluster.mirror(nodes("ab"))
    cluster.synchronise()
    cluster.mirror(nodes("cd"))
    assert cluster.where == "Acd"
    cluster.synchronise()
    assert cluster.where == "CD"


def test_a_policy_that_goes_takes_the_mirrors_with_it(cluster):
    cluster.mirror(nodes("ab"))
    cluster.put(DeletePolicy("policy", "/", "ha"))
    cluster.settle()
    assert cluster.record is None


def test_a_queue_lives_alone_until_it_follows_its_policies_again(cluster):
    cluster.mirror({"ha-mode": "all"})
    leader, ended = cluster.nodes["a"], Answer()
    leader.planned.end_mirroring("/", leader.registry.vhosts["/"].queues["q"], ended)
    cluster.view_changes()
    assert (ended.result(), cluster.record) == (None, None)
    leader.planned.follow_policies("/", "q")
    cluster.settle()
    assert cluster.where == "Abcd"


def test_a_mirror_that_died_is_replaced_on_another_node(cluster):
    cluster.mirror({"ha-mode": "exactly", "ha-params": 2})
    assert cluster.where == "Ab"
    cluster.die("b")
    assert cluster.where == "Ac"


class TestCopies:
    """A mirror in place of the copy of the leader before is the end of that copy."""

    @pytest.fixture
    def cluster(self, cluster):
        """The leader has died and is back, and nothing of that is stable."""
        cluster.mirror(nodes("ab"))
        cluster.synchronise()
        cluster.is_stable = False
        cluster.die("a")
        cluster.start("a", 2)
        cluster.view_changes()
        assert cluster.where == "B"
        return cluster

    def become_stable(self, cluster):
        cluster.is_stable = True
        for callback in cluster.waiting:
            callback()
        cluster.settle()

    def test_its_node_gets_a_mirror_when_the_lead_is_stable(self, cluster):
        self.become_stable(cluster)
        assert cluster.where == "Ba"

    def test_another_record_is_planned_again(self, cluster):
        cluster.mirror(nodes("bc"))
        cluster.change(NodeForgotten("a", ("b", "c", "d")))
        self.become_stable(cluster)
        assert cluster.where == "Bc"

    def test_a_node_that_stops_asks_for_nothing(self, cluster):
        cluster.nodes["b"].planned.is_over = True
        self.become_stable(cluster)
        assert cluster.where == "B"

    def test_a_node_without_a_copy_gets_its_mirror_at_once(self, cluster):
        self.become_stable(cluster)
        cluster.is_stable = False
        cluster.mirror(nodes("abc"))
        assert cluster.where == "Bac"


def test_a_node_that_comes_gets_a_mirror(cluster):
    cluster.mirror({"ha-mode": "all"})
    cluster.die("b")
    assert cluster.where == "Acd"
    cluster.start("b", 2)
    cluster.view_changes()
    assert cluster.where == "Acdb"


def test_a_queue_whose_members_all_died_is_led_again_when_one_is_back(cluster):
    cluster.mirror(nodes("ab"))
    cluster.synchronise()
    cluster.die("a", "b")
    assert (cluster.where, cluster.record.awaited) == (None, "a")
    cluster.start("a", 2)
    cluster.view_changes()
    assert cluster.where == "A"
    cluster.start("b", 2)
    cluster.view_changes()
    assert cluster.where == "Ab"


def test_a_node_without_messages_does_not_lead_the_queue_that_waits_for_it(cluster):
    """The contents that replaced its copy were skipped: it has neither."""
    cluster.mirror(nodes("ab"))
    cluster.synchronise()
    cluster.die("a", "b")
    cluster.start("a", 2)
    cluster.nodes["a"].has_copy = False
    cluster.view_changes()
    assert (cluster.where, cluster.record.awaited) == (None, "b")
    cluster.start("b", 2)
    cluster.view_changes()
    assert cluster.where == "Ba"


def test_a_node_that_was_away_for_less_than_its_death_took_to_be_seen_leads_again():
    cluster = Cluster("a", "b")
    cluster.mirror({"ha-mode": "all"})
    cluster.start("a", 2)
    cluster.start("b", 2)
    cluster.view_changes()
    assert cluster.where == "Ab"
    assert cluster.record.leader.incarnation == 2


def test_a_node_that_is_in_no_view_yet_asks_for_nothing(cluster):
    cluster.mirror(nodes("ab"))
    cluster.die("a", "b")
    starting = OneNode(cluster, "a", 2)
    for declaration in cluster.log:
        starting.registry.apply(declaration)
    asked = cluster.asked
    starting.turns.run()
    assert cluster.asked == asked


@pytest.mark.parametrize(
    ("kind", "is_exclusive"), [(CLASSIC_QUEUE, True), (QUORUM_QUEUE, False)],
)  # fmt: skip
def test_exclusive_and_quorum_queues_are_not_mirrored(cluster, kind, is_exclusive):
    cluster.put(PutPolicy("policy", Policy("/", "ha", "^k$", "all", {"ha-mode": "all"}, 0)))
    node = cluster.nodes["a"]
    node.registry.vhosts["/"].queues["k"] = SimpleNamespace(
        name="k", kind=kind, is_exclusive=is_exclusive, placement=Placement("a", 3, b""),
        vhost_name="/", durable=True,
    )  # fmt: skip
    node.planned.look_at("/", "k")
    node.turns.run()
    assert cluster.asked == 0


@pytest.mark.parametrize("error", [MetadataError("not now"), not_allowed("vhost / not found")])
def test_a_refused_change_is_requested_again_after_a_change(cluster, error):
    submit = cluster.submit
    refused = []

    def refuse(*declarations, answer=None):
        refused.append(declarations)
        answer.refuse(error)
        return answer

    cluster.nodes["a"].planned._submit = refuse
    cluster.mirror({"ha-mode": "all"})
    assert (len(refused), cluster.where) == (1, None)
    cluster.nodes["a"].planned._submit = submit
    cluster.view_changes()
    assert cluster.where == "Abcd"
