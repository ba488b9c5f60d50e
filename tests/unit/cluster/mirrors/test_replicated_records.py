"""Changes of records in a cluster: any node asks, the coordinator completes, all nodes apply."""

from types import SimpleNamespace

import pytest

from leveret.broker.amqp.errors import ChannelFault
from leveret.broker.declarations.values import ChangePlacement, PutQueue
from leveret.broker.queues.contract.queue_kind import CLASSIC_QUEUE
from leveret.cluster.gm.group import Added, Died, HasJoined, Member
from leveret.cluster.mirrors.mirrored_factory import MirroredFactory
from leveret.cluster.mirrors.planned_changes import RunningView
from leveret.cluster.mirrors.record_changes import (
    InRing,
    MirroringBegan,
    Promote,
    Synchronised,
    decode_record,
    encode,
)
from tests.unit.cluster.test_replicated_declarations import Cluster

A, B = Member("a", 1, 1), Member("b", 1, 1)


class Listener:
    """Notes the home of the queue in each record, and when that is stable."""

    def __init__(self, log):
        self.log = log
        self.homes = []
        self.stable = []

    def record_changed(self, vhost, queue, record, storage_id):
        self.homes.append(record.home)
        self.log.when_stable(lambda: self.stable.append(record.home))

    def policies_changed(self, vhost, queue):
        pass


class Mirroring(Cluster):
    """Three nodes, and a queue that lives on the first."""

    def __init__(self, directory):
        super().__init__(directory)
        self.formed("a", "b", "c")
        self.declare("a", PutQueue("/", "q", True, node="a", identity=7))
        self.listeners = {name: self.follow(name) for name in self.nodes}

    def follow(self, name):
        node = self.nodes[name]
        kinds = node.declared.registry.vhosts["/"].kinds
        kinds.node, kinds.incarnation = name, 1
        listener, policies = Listener(node.log), node.declared.registry.policies
        queues = SimpleNamespace(node=name)
        kinds.add(MirroredFactory(kinds.of(CLASSIC_QUEUE), queues, policies, listener))
        return listener

    def ask(self, name, *changes):
        answers = [
            self.nodes[name].log.submit(ChangePlacement("/", "q", 7, encode(change)))
            for change in changes
        ]
        self.run()
        return answers[-1]

    def record(self, name):
        return decode_record(
            self.nodes[name].declared.registry.vhosts["/"].queues["q"].placement.record
        )


@pytest.fixture
def cluster(tmp_path):
    cluster = Mirroring(tmp_path)
    yield cluster
    for name in tuple(cluster.nodes):
        cluster.stop(name)


MIRRORED = (MirroringBegan(A, 7), InRing(Added(B, A)), InRing(HasJoined(B)), Synchronised(B, A))


def test_all_nodes_have_the_record_that_changes_of_several_nodes_lead_to(cluster):
    cluster.ask("b", *MIRRORED)
    cluster.ask("c", Promote(B, A)).result()
    assert [cluster.record(name).leader for name in "abc"] == [B, B, B]
    assert cluster.listeners["c"].homes == ["a", "a", "a", "a", "b"]
    assert {cluster.nodes[name].declared.registry.vhosts["/"].queues["q"].placement.node
            for name in "abc"} == {"b"}  # fmt: skip


def test_the_refusal_of_an_impossible_change_has_a_reason(cluster):
    answer = cluster.ask("c", Promote(B, A))
    with pytest.raises(ChannelFault, match="queue 'q' in vhost '/' is not mirrored"):
        answer.result()


def test_of_two_that_report_the_same_death_one_changes_the_record(cluster):
    cluster.ask("a", *MIRRORED)
    died = InRing(Died((A,), B))
    for name in "bc":
        cluster.nodes[name].log.submit(ChangePlacement("/", "q", 7, encode(died)))
    cluster.run()
    assert cluster.listeners["a"].homes[-2:] == ["a", "b"]


def test_a_node_that_was_away_learns_of_the_new_leader(cluster):
    cluster.ask("a", *MIRRORED)
    cluster.stop("c")
    cluster.ask("b", InRing(Died((A,), B)))
    cluster.start("c", 2)
    cluster.run()
    assert cluster.record("c") == cluster.record("a")


def test_a_removal_is_stable_when_the_nodes_that_are_left_have_it_on_disk(cluster):
    cluster.ask("a", *MIRRORED)
    a, b = cluster.nodes["a"], cluster.nodes["b"]
    a.log.submit(ChangePlacement("/", "q", 7, encode(InRing(Died((B,), A)))))
    cluster.pass_frames()
    assert cluster.record("a").find(B) is None
    heard = len(cluster.listeners["a"].stable)
    for node in (a, b):
        node.sync.sync()
    cluster.pass_frames()
    assert len(cluster.listeners["a"].stable) == heard
    cluster.run()
    assert len(cluster.listeners["a"].stable) == heard + 1


def test_a_node_that_stops_is_in_no_view_so_it_asks_for_nothing_alone(cluster):
    log, states = cluster.nodes["a"].log, SimpleNamespace(under_maintenance=frozenset())
    states.is_under_maintenance = False
    view = RunningView(log, states, "a")
    assert "a" in view.nodes.running
    log.end("the node stops")
    assert view.nodes.running == frozenset()
