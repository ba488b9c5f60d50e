"""What follows a fault of a mirrored queue: a second one, and clients that do not acknowledge."""

import pytest

from leveret.broker.amqp.field_table import encode_table
from leveret.cluster.mirrors import frames
from leveret.cluster.mirrors import mirror_record as records
from leveret.cluster.mirrors.synchronisation import AGAIN_MS, BATCH_BYTES_MAX
from leveret.storage.contract.backing_queue import BeingRead, Unreadable
from tests.storage.backing_contract.decorators import UnchangedQueue
from tests.unit.broker.queues.fakes import FakeConsumer, publish
from tests.unit.cluster.mirrors.mirrored_nodes import MirroredNodes, three_nodes
from tests.unit.cluster.remote_queues.fakes import Publisher, consuming

A, B, C = "a@host", "b@host", "c@host"


def publishes(nodes, publisher):
    """Messages go from c to the queue, one in each step."""
    for number in range(1, 4):
        publish(nodes.queue(C), b"%d" % number, publisher=publisher, first=number)
        nodes.step()
    nodes.settle()
    nodes.make_stable()


@pytest.mark.parametrize("later", [1, 2, 3, 5, 8])
def test_the_next_leader_dies_soon_after_the_first(later):
    frames = three_nodes().frames_of(lambda nodes: publishes(nodes, Publisher()))
    assert frames
    for frame in range(frames):
        nodes, publisher = three_nodes(), Publisher()
        first = nodes.arrived + frame
        nodes.before_frame[first] = lambda nodes=nodes: nodes.kill(A)
        nodes.before_frame[first + later] = lambda nodes=nodes: nodes.kill(B)
        publishes(nodes, publisher)
        last = C if B not in nodes.by_name else B
        assert nodes.record.leader.node == last, frame
        assert nodes.bodies(C) == [b"1", b"2", b"3"], frame
        assert not publisher.owed, frame
        assert not publisher.refused, frame


@pytest.mark.parametrize("mirrors", [(C,), (B, C)])
def test_a_new_leader_confirms_nothing_before_its_lead_is_stable(mirrors):
    """A leader by an entry that may be undone has messages that others will never get."""
    nodes = MirroredNodes(A, B, C)
    nodes.mirror(*mirrors)
    nodes.settle()
    under_way, local, remote = Publisher(), Publisher(), Publisher()
    nodes.before_frame[nodes.arrived + 3] = lambda: nodes.kill(A)
    publish(nodes.queue(C), b"1", publisher=under_way)
    nodes.settle()
    leader = nodes.record.leader.node
    publish(nodes.queue(leader), b"2", publisher=local)
    publish(nodes.queue(B if leader == C else C), b"3", publisher=remote)
    nodes.settle()
    assert nodes.replica(leader).leading
    assert nodes.bodies(leader) == [b"1", b"2", b"3"]
    assert [one.confirmed for one in (under_way, local, remote)] == [[], [], []]
    nodes.make_stable()
    assert [one.confirmed for one in (under_way, local, remote)] == [[1], [1], [1]]
    publish(nodes.queue(B), b"4", publisher=remote, first=2)
    nodes.settle()
    assert remote.confirmed == [1, 2]


def test_a_leader_that_returns_confirms_nothing_before_its_lead_is_stable():
    nodes, publisher = waiting_for_b(), Publisher()
    nodes.apply(records.returned(nodes.record, nodes.member(B)))
    nodes.settle()
    publish(nodes.queue(B), b"2", publisher=publisher)
    nodes.settle()
    assert nodes.bodies(B) == [b"1", b"2"]
    assert not publisher.confirmed
    nodes.make_stable()
    assert publisher.confirmed == [1]


def waiting_for_b():
    """A queue without a leader, after its leader and its mirror were reported as gone."""
    nodes = MirroredNodes(A, B)
    nodes.mirror(B)
    nodes.settle()
    publish(nodes.queue(B), b"1")
    nodes.settle()
    nodes.make_stable()
    members = [one.id for one in nodes.record.members]
    nodes.apply(records.vanished(nodes.record, members, [B]))
    nodes.settle()
    assert nodes.record.awaited == B
    return nodes


def test_a_mirror_that_joins_knows_what_was_refused_before(monkeypatch):
    """It leads before the sender has heard of the refusal."""
    nodes, publisher = MirroredNodes(A, B, C), Publisher()
    limited = {"x-max-length": ("I", 1), "x-overflow": ("S", "reject-publish")}
    nodes.mirror(arguments=encode_table(limited))
    publish(nodes.queue(C), b"1", publisher=publisher)
    nodes.settle()
    send = nodes.ends[A, C].send

    def lose_confirms(service, *pieces):
        if pieces[0][0] != frames.CONFIRMED:
            send(service, *pieces)

    monkeypatch.setattr(nodes.ends[A, C], "send", lose_confirms)
    publish(nodes.queue(C), b"2", publisher=publisher, first=2)
    nodes.settle()
    nodes.join(B)
    assert (publisher.confirmed, publisher.refused) == ([1], [])
    nodes.kill(A)
    nodes.make_stable()
    assert nodes.replica(B).leading
    assert publisher.refused == [2]


def test_a_message_that_needs_no_acknowledgement_does_not_come_again():
    nodes = three_nodes()
    consumer = consuming(nodes, nodes.queue(C), FakeConsumer(no_ack=True))
    publish(nodes.queue(B), b"1")
    nodes.settle()
    nodes.kill(A)
    publish(nodes.queue(B), b"2")
    nodes.settle()
    assert consumer.bodies == [b"1", b"2"]
    assert nodes.bodies(B) == nodes.bodies(C) == []


def test_a_mirror_that_lost_its_link_to_the_leader_only_stays_as_it_is():
    nodes = three_nodes()
    nodes.unlink(A, C)
    publish(nodes.queue(B), b"1")
    nodes.link(A, C)
    nodes.settle()
    assert nodes.record.on(C).is_synchronised
    assert nodes.bodies(C) == [b"1"]


def loses(nodes, *bodies, publisher=None):
    """The link from c to the mirror b breaks before messages arrive there."""
    nodes.mirror(B)
    nodes.settle()
    publish(nodes.queue(C), *bodies, publisher=publisher)
    nodes.unlink(B, C)


def test_a_mirror_is_brought_more_than_one_answer_may_have():
    nodes, publisher = MirroredNodes(A, B, C), Publisher()
    bodies = [b"%02d" % number * 25_000 for number in range(2 * BATCH_BYTES_MAX // 50_000)]
    loses(nodes, *bodies, publisher=publisher)
    nodes.settle()
    assert nodes.bodies(A) == nodes.bodies(B) == bodies
    assert len(publisher.confirmed) == len(bodies)


class Failing(UnchangedQueue):
    """A backing queue of which no message can be read. error: why."""

    def __init__(self, inner, error):
        super().__init__(inner)
        self.error = error

    def cursor(self, position=0):
        raise self.error


def test_what_the_leader_cannot_read_a_mirror_gets_later():
    nodes = MirroredNodes(A, B, C)
    loses(nodes, b"1")
    backing = nodes.replica(A).leading.backing
    backing.inner = failing = Failing(backing.inner, Unreadable("no file handle is free"))
    nodes.settle()
    assert nodes.bodies(B) == []
    backing.inner = failing.inner
    nodes.by_name[A].clock.advance(AGAIN_MS)
    nodes.settle()
    assert nodes.bodies(B) == [b"1"]


@pytest.mark.parametrize("is_slow", [False, True])
def test_messages_that_cannot_be_read_are_sent_later_to_a_joining_mirror(is_slow):
    """The leader asks no more before that."""
    nodes, waiting = MirroredNodes(A, B), []
    nodes.mirror()
    publish(nodes.queue(A), b"1")
    nodes.join(B)
    error = BeingRead("segment 0", waiting.append) if is_slow else Unreadable("no file handle")
    backing = nodes.replica(A).leading.backing
    backing.inner = failing = Failing(backing.inner, error)
    nodes.synchronise(A)
    nodes.settle()
    assert len(waiting) == is_slow
    backing.inner = failing.inner
    if is_slow:
        waiting.pop()()
    else:
        nodes.by_name[A].clock.advance(AGAIN_MS)
    nodes.settle()
    assert nodes.bodies(B) == [b"1"]
    assert nodes.record.on(B).is_synchronised
