"""No turn of the event loop is long on any node of a cluster, however much is declared or deleted.

What is counted is the work of each turn, in the units of broker/runtime/turns.py.
"""

import pytest

from leveret.broker.declarations.values import (
    DeleteQueue,
    DeleteVhost,
    PutBinding,
    PutQueue,
    PutVhost,
)
from leveret.broker.registry.stored import ROW_WORK
from leveret.broker.runtime.turns import WORK_MAX
from tests.turns_by_hand import TurnsByHand
from tests.unit.cluster.test_replicated_declarations import Cluster, Node

COUNT = 1_400
WORK_OF_A_TURN_MAX = WORK_MAX + 300 * ROW_WORK
"""The last thing that is done in a turn may be more than was left: 300 rows are deleted at once."""


class CountedTurns(TurnsByHand):
    """Turns by hand. works: the work of each turn that was taken."""

    def __init__(self):
        super().__init__()
        self.works = []

    def _give_turn(self, actor):
        super()._give_turn(actor)
        self.works.append(WORK_MAX - self.work_left)


class ClusterInTurns(Cluster):
    """Nodes that each take a turn after each frame, or after all that wait if reads_all is set."""

    reads_all = False

    def pass_frames(self):
        while self.reads_all and self.frames:
            for _ in range(len(self.frames)):
                wire, frame = self.frames.popleft()
                wire.receiver.log.received(wire.back, frame)
            self.take_turns()
        super().pass_frames()

    def make_node(self, name, incarnation):
        return Node(self, name, self.directory, incarnation, CountedTurns())

    def take_turns(self):
        all_turns = [node.declared.turns for node in self.nodes.values()]
        for turns in all_turns:
            turns.works.append(WORK_MAX - turns.work_left)
            turns.work_left = WORK_MAX
        were_woken = any(turns.woken for turns in all_turns)
        for turns in all_turns:
            turns.run_round()
            turns.work_left = WORK_MAX
        return were_woken

    def most(self):
        """The work of the longest turn of any node since this was asked last."""
        most = max(max(node.declared.turns.works) for node in self.nodes.values())
        self.forget_works()
        return most

    def forget_works(self):
        for node in self.nodes.values():
            node.declared.turns.works.clear()
            node.declared.turns.work_left = WORK_MAX

    def work_of(self, name, deletion):
        """Submit a deletion; the work of the longest turn."""
        self.most()
        self.declare(name, deletion)
        for node in self.nodes.values():
            assert sum(node.declared.turns.works) > COUNT * ROW_WORK, "it counts its work"
        return self.most()


@pytest.fixture
def cluster(tmp_path):
    made = ClusterInTurns(tmp_path)
    made.formed("a", "b")
    yield made
    for node in made.nodes.values():
        node.stop()


def declare_many(cluster, vhost, make):
    for first in range(0, COUNT, 100):
        many = [make(number) for number in range(first, first + 100)]
        cluster.declare("a", *many)


@pytest.mark.parametrize("origin", ["a", "b"])
def test_the_deletion_of_a_vhost_with_very_many_queues(cluster, origin):
    cluster.declare("a", PutVhost("many"))
    declare_many(cluster, "many", lambda number: PutQueue("many", f"q{number}", True))
    assert cluster.work_of(origin, DeleteVhost("many")) < WORK_OF_A_TURN_MAX
    for node in cluster.nodes.values():
        assert "many" not in node.declared.registry.vhosts


def test_the_deletion_of_a_queue_with_very_many_bindings(cluster):
    cluster.declare("a", PutQueue("/", "q", True))
    declare_many(cluster, "/", lambda number: PutBinding("/", "amq.direct", "q", f"{number}"))
    assert cluster.work_of("b", DeleteQueue("/", "q")) < WORK_OF_A_TURN_MAX
    for node in cluster.nodes.values():
        assert not node.declared.registry.vhosts["/"].exchanges["amq.direct"].bindings


@pytest.mark.parametrize("origin", ["a", "b"])
def test_the_deletion_of_very_many_queues_one_by_one(cluster, origin):
    """As at the end of a connection with exclusive queues: links and disks bring much at once."""
    declare_many(cluster, "/", lambda number: PutQueue("/", f"q{number}"))
    cluster.most()
    log = cluster.nodes[origin].log
    answers = [log.submit(DeleteQueue("/", f"q{number}")) for number in range(COUNT)]
    cluster.forget_works()
    cluster.reads_all = True
    cluster.run()
    for answer in answers:
        answer.result()
    assert cluster.most() < WORK_OF_A_TURN_MAX
    assert cluster.contents("a") == cluster.contents("b")
    assert not cluster.nodes["a"].declared.registry.vhosts["/"].queues


def test_declarations_submitted_meanwhile_come_after_it_on_all_nodes(cluster):
    cluster.declare("a", PutVhost("many"))
    declare_many(cluster, "many", lambda number: PutQueue("many", f"q{number}", True))
    a, b = cluster.nodes["a"], cluster.nodes["b"]
    deleted = a.log.submit(DeleteVhost("many"))
    assert a.declared.turns.woken
    late = [a.log.submit(PutVhost("many")), b.log.submit(PutQueue("/", "late", True))]
    cluster.run()
    for answer in (deleted, *late):
        answer.result()
    for node in (a, b):
        assert not node.declared.registry.vhosts["many"].queues
        assert "late" in node.declared.registry.vhosts["/"].queues
    assert cluster.contents("a") == cluster.contents("b")


def test_a_declaration_that_is_checked_while_nodes_come_and_go_succeeds(cluster):
    """The coordinator checks it, in turns, and is to propose another view meanwhile."""
    a, b = cluster.nodes["a"], cluster.nodes["b"]
    many = [PutQueue("/", f"q{number}", True) for number in range(COUNT)]
    declared = a.log.submit(*many)
    assert a.log._work.is_busy
    cluster.forget_works()
    cluster.start("c")
    while not a.log._replication.views.is_proposing:
        wire, frame = cluster.frames.popleft()
        wire.receiver.log.received(wire.back, frame)
    while a.log._work.is_busy:
        cluster.take_turns()
    cluster.pass_frames()
    cluster.stop("c")
    cluster.run()
    declared.result()
    declared_later = b.log.submit(PutQueue("/", "later", True))
    cluster.run()
    declared_later.result()
    for node in (a, b):
        assert len(node.declared.registry.vhosts["/"].queues) == COUNT + 1


def test_a_snapshot_of_very_much_is_made_in_turns(cluster):
    declare_many(cluster, "/", lambda number: PutQueue("/", f"q{number}", True))
    cluster.most()
    c = cluster.start("c")
    cluster.run()
    assert len(c.declared.registry.vhosts["/"].queues) == COUNT
    assert max(cluster.nodes["a"].declared.turns.works) < WORK_OF_A_TURN_MAX
    assert cluster.contents("c") == cluster.contents("a")


def test_a_node_that_stops_amid_a_long_deletion_has_it_after_its_restart(cluster):
    cluster.declare("a", PutVhost("many"))
    declare_many(cluster, "many", lambda number: PutQueue("many", f"q{number}", True))
    cluster.nodes["a"].log.submit(DeleteVhost("many"))
    cluster.stop("a")
    cluster.run()
    cluster.start("a", 2)
    cluster.run()
    assert cluster.contents("a") == cluster.contents("b")
