"""A mirrored queue on three nodes: contents, decisions, confirms, and a leader's death."""

import pytest

from leveret.broker.queues.contract.queue_client import publish_each
from leveret.cluster.gm.group import Added
from leveret.cluster.mirrors import frames
from leveret.cluster.mirrors import mirror_record as records
from leveret.cluster.mirrors.planning import Mirroring
from leveret.cluster.mirrors.synchronisation import SyncProgress
from leveret.cluster.remote_queues.queue_frames import OWN_TIMES_FEATURE
from tests.unit.broker.queues.fakes import FakeConsumer, publish
from tests.unit.cluster.mirrors.mirrored_nodes import RING, MirroredNodes, three_nodes
from tests.unit.cluster.remote_queues.fakes import Publisher, asked, consuming, expiring

A, B, C = "a@host", "b@host", "c@host"
AUTOMATIC = Mirroring("all", is_automatic=True)


@pytest.fixture
def nodes():
    return three_nodes()


@pytest.mark.parametrize("publishing", [A, B, C])
def test_messages_published_on_any_node_are_on_all(nodes, publishing):
    publisher = Publisher()
    publish(nodes.queue(publishing), b"1", b"2", publisher=publisher)
    nodes.settle()
    assert [nodes.bodies(name) for name in (A, B, C)] == [[b"1", b"2"]] * 3
    assert publisher.confirmed == [1, 2]


@pytest.mark.parametrize("publishing", [A, B])
@pytest.mark.parametrize("features", [frozenset(), frozenset([OWN_TIMES_FEATURE])])
def test_each_message_expires_at_its_time_wherever_it_was_published(nodes, publishing, features):
    for end in nodes.ends.values():
        end.features = features
    publisher = Publisher()
    clock = nodes.by_name[B].clock
    now_ms = clock.now_ms()
    publication = expiring(900_000, 700_000, 800_000)
    publication.publisher, publication.first = publisher, 1
    publish_each(nodes.queue(publishing), publication)
    nodes.settle()
    assert sorted(publisher.confirmed) == ([1] if features else [1, 2, 3])
    nodes.kill(A)
    for name in (B, C):
        times = [entry.expires_at_ms - now_ms for entry in nodes.entries(name)]
        assert times == [900_000, 700_000, 800_000]
    clock.advance(900)
    nodes.settle()
    assert nodes.bodies(B) == nodes.bodies(C) == []


def test_settled_messages_are_gone_everywhere(nodes):
    consumer = consuming(nodes, nodes.queue(C), FakeConsumer(credit=2))
    publish(nodes.queue(B), b"1", b"2", b"3")
    nodes.settle()
    nodes.queue(C).ack(consumer.entries)
    nodes.settle()
    assert [nodes.bodies(name) for name in (A, B, C)] == [[b"3"]] * 3


def test_the_oldest_mirror_leads_after_the_leader(nodes):
    for name in (A, B, C):
        publish(nodes.queue(name), name.encode())
    nodes.settle()
    nodes.kill(A)
    assert nodes.record.leader.node == B
    assert nodes.replica(B).leading
    assert sorted(nodes.bodies(B)) == [b"a@host", b"b@host", b"c@host"]
    assert nodes.bodies(C) == nodes.bodies(B)


def test_consumers_go_on_with_the_next_leader(nodes):
    consumer = consuming(nodes, nodes.queue(C), FakeConsumer())
    publish(nodes.queue(B), b"1", b"2")
    nodes.settle()
    nodes.queue(C).ack(consumer.entries[:1])
    nodes.settle()
    nodes.kill(A)
    assert consumer.bodies == [b"1", b"2", b"2"]
    assert [entry.redelivered for entry in consumer.entries] == [False, False, True]
    nodes.queue(C).ack(consumer.entries[1:2])
    nodes.settle()
    assert nodes.replica(B).leading.queue.backing.unacked_count == 1
    nodes.queue(C).ack(consumer.entries[2:])
    nodes.settle()
    assert nodes.replica(B).leading.queue.backing.unacked_count == 0


def test_a_consumer_of_the_node_that_leads_next_goes_on(nodes):
    consumer = consuming(nodes, nodes.queue(B), FakeConsumer())
    publish(nodes.queue(C), b"1")
    nodes.settle()
    nodes.kill(A)
    publish(nodes.queue(C), b"2")
    nodes.settle()
    assert consumer.bodies == [b"1", b"1", b"2"]
    nodes.queue(B).ack(consumer.entries)
    nodes.settle()
    assert nodes.replica(B).leading.queue.backing.unacked_count == 0
    assert nodes.bodies(C) == []


def test_a_question_is_answered_by_the_next_leader(nodes):
    publish(nodes.queue(B), b"1", b"2")
    nodes.settle()
    nodes.unlink(A, C)
    nodes.kill(A)
    assert asked(nodes, nodes.queue(C).purge) == 2


def test_confirms_wait_until_a_removal_is_stable(nodes):
    publisher = Publisher()
    nodes.unlink(A, C)
    publish(nodes.queue(A), b"1", publisher=publisher)
    nodes.kill(C)
    assert not publisher.confirmed
    nodes.make_stable()
    assert publisher.confirmed == [1]


@pytest.mark.parametrize("publishing", [B, C])
def test_the_leader_dies_before_any_frame(publishing):
    def program(nodes):
        for number in range(1, 5):
            publish(nodes.queue(publishing), b"%d" % number, publisher=publisher, first=number)
            nodes.step()

    publisher = Publisher()
    frames = three_nodes().frames_of(program)
    assert frames
    for frame in range(frames):
        nodes, publisher = three_nodes(), Publisher()
        nodes.before_frame[nodes.arrived + frame] = lambda nodes=nodes: nodes.kill(A)
        program(nodes)
        nodes.settle()
        nodes.make_stable()
        assert nodes.bodies(B) == nodes.bodies(C) == [b"1", b"2", b"3", b"4"], frame
        assert publisher.confirmed == [1, 2, 3, 4], frame
        assert not publisher.refused, frame


class TestSynchronising:
    @pytest.fixture
    def nodes(self):
        """A queue with messages that was mirrored to b after they were published."""
        nodes = MirroredNodes(A, B, C)
        nodes.mirror()
        nodes.settle()
        for number in range(1, 6):
            publish(nodes.queue(A), b"%d" % number)
        nodes.settle()
        nodes.join(B)
        return nodes

    @staticmethod
    def is_synchronised(nodes):
        return nodes.record.on(B).is_synchronised

    def test_a_new_mirror_follows_the_tail(self, nodes):
        publish(nodes.queue(C), b"6")
        nodes.settle()
        assert nodes.bodies(B) == [b"6"]
        assert not self.is_synchronised(nodes)

    def test_it_is_brought_what_it_lacks(self, nodes):
        got = asked(nodes, nodes.queue(A).get, True)
        publish(nodes.queue(C), b"6")
        nodes.synchronise(A)
        nodes.settle()
        assert self.is_synchronised(nodes)
        nodes.kill(A)
        assert nodes.bodies(B) == [b"1", b"2", b"3", b"4", b"5", b"6"]
        assert got.entry.message.body == b"1"

    def test_it_is_synchronised_when_the_head_is_consumed(self, nodes):
        for _ in range(5):
            asked(nodes, nodes.queue(C).get, False)
        publish(nodes.queue(A), b"6")
        nodes.settle()
        assert self.is_synchronised(nodes)

    def test_batches_have_the_size_that_the_policy_says(self, nodes):
        nodes.set_policy(Mirroring(batch_size=2))
        assert nodes.progress(A, B) == SyncProgress(0, 5, is_running=False)
        nodes.synchronise(A)
        nodes.replica(A).flush()
        assert nodes.progress(A, B) == SyncProgress(2, 5, is_running=True)
        nodes.settle()
        assert self.is_synchronised(nodes)
        assert nodes.progress(A, B) == SyncProgress(5, 5, is_running=True)

    def test_a_cancelled_one_goes_on_where_it_was(self, nodes):
        nodes.set_policy(Mirroring(batch_size=2))
        nodes.synchronise(A)
        nodes.replica(A).flush()
        nodes.replica(A).leading.synchronising.cancel()
        nodes.settle()
        assert nodes.progress(A, B) == SyncProgress(2, 5, is_running=False)
        assert not self.is_synchronised(nodes)
        nodes.synchronise(A)
        nodes.settle()
        assert self.is_synchronised(nodes)

    def test_a_cancelled_one_is_not_over_while_a_batch_is_on_its_way(self, nodes):
        """The rest is consumed meanwhile."""
        nodes.set_policy(Mirroring(batch_size=2))
        nodes.synchronise(A)
        nodes.replica(A).flush()
        batch = nodes.ends[A, B].sent.pop()
        nodes.ends[A, B].services.pop()
        assert batch[0] == frames.BATCH
        nodes.replica(A).leading.synchronising.cancel()
        for _ in range(5):
            asked(nodes, nodes.queue(A).get, False)
        assert not self.is_synchronised(nodes)

    def test_a_policy_has_mirrors_synchronised_when_they_join(self, nodes):
        nodes.set_policy(AUTOMATIC)
        nodes.join(C)
        assert nodes.record.on(C).is_synchronised
        assert nodes.bodies(C) == [b"1", b"2", b"3", b"4", b"5"]

    def test_so_does_a_policy_that_changes(self, nodes):
        nodes.set_policy(AUTOMATIC)
        assert self.is_synchronised(nodes)

    def test_batches_that_a_broken_link_has_lost_are_sent_again(self, nodes):
        nodes.set_policy(Mirroring(batch_size=1))
        nodes.synchronise(A)
        nodes.replica(A).flush()
        nodes.step()
        nodes.unlink(A, B)
        nodes.link(A, B)
        nodes.settle()
        assert self.is_synchronised(nodes)
        assert nodes.bodies(B) == [b"1", b"2", b"3", b"4", b"5"]

    def test_one_whose_link_breaks_before_the_record_says_that_it_is_synchronised(self, nodes):
        told, synchronised = [], nodes.synchronised
        nodes.synchronised = lambda *found: told.append(found)
        nodes.set_policy(AUTOMATIC)
        nodes.settle()
        assert len(told) == 1
        nodes.unlink(A, B)
        nodes.link(A, B)
        nodes.settle()
        synchronised(*told[-1])
        nodes.settle()
        assert self.is_synchronised(nodes)
        assert nodes.bodies(B) == [b"1", b"2", b"3", b"4", b"5"]

    def test_so_are_those_that_were_lost_before_the_mirror_began(self, nodes):
        nodes.set_policy(AUTOMATIC)
        nodes.change(Added(nodes.member(C), nodes.record.leader))
        nodes.unlink(A, C)
        for _ in range(4):
            nodes.step()
        nodes.link(A, C)
        nodes.settle()
        assert nodes.record.on(C).is_synchronised
        assert nodes.bodies(C) == [b"1", b"2", b"3", b"4", b"5"]

    def test_the_next_leader_synchronises_those_that_joined_before(self, nodes):
        nodes.synchronise(A)
        nodes.settle()
        nodes.join(C)
        publish(nodes.queue(C), b"6")
        nodes.settle()
        nodes.kill(A)
        assert nodes.progress(B, C) == SyncProgress(0, 6, is_running=False)
        nodes.synchronise(B)
        nodes.settle()
        assert nodes.record.on(C).is_synchronised
        assert nodes.bodies(C) == [b"1", b"2", b"3", b"4", b"5", b"6"]

    def test_one_that_joins_an_empty_queue_is_synchronised(self):
        nodes = MirroredNodes(A, B)
        nodes.mirror(B)
        nodes.settle()
        assert self.is_synchronised(nodes)


def test_messages_of_a_node_that_is_gone_are_asked_of_the_leader(nodes):
    publish(nodes.queue(C), b"1")
    lost = nodes.ends[C, B]
    lost.sent.clear()
    lost.services.clear()
    nodes.step()
    nodes.kill(C)
    assert nodes.bodies(A) == nodes.bodies(B) == [b"1"]


def test_the_leaders_node_is_back_before_its_end_is_in_the_record(nodes):
    nodes.change = lambda change: None
    nodes.unlink(A, C)
    nodes.by_name[A].incarnation += 1
    nodes.link(A, C)
    assert nodes.queue(C).leader is None
    dead = [one.id for one in nodes.record.members]
    nodes.apply(records.vanished(nodes.record, dead, running=()))
    nodes.settle()
    assert nodes.queue(C).is_down
    assert nodes.queue(C).placement.node == A


def test_a_leader_before_confirms_no_more(nodes):
    nodes.change = lambda change: None
    nodes.unlink(A, B)
    publisher = Publisher()
    publish(nodes.queue(C), b"1", publisher=publisher)
    nodes.settle()
    assert not publisher.confirmed
    nodes.apply(records.promoted(nodes.record, nodes.record.on(B).id))
    for node in nodes:
        node.loop.run()
    frame = b"".join(frames.confirmed(RING, [(1, 2)], []))
    nodes.by_name[C].replicas.received(nodes.ends[C, A], frame)
    assert not publisher.confirmed


def test_a_link_returns_after_mirroring_has_ended(nodes):
    for node in nodes:
        node.replicas.record_changed("/", node.queue(), None, 0)
    nodes.settle()
    nodes.unlink(A, B)
    nodes.link(A, B)
    nodes.settle()
    publish(nodes.queue(B), b"1")
    nodes.settle()
    assert nodes.queue(A).figures.counts().ready == 1
