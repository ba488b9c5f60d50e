"""A queue on another node: the promises of every queue, over a link that the test steps."""

import pytest

from leveret.broker.amqp.errors import ChannelFault
from leveret.broker.declarations.requester import THE_NODE
from leveret.broker.queues.contract.publication import publication_of
from leveret.broker.queues.contract.specification import specification_of
from leveret.broker.runtime.pending import Answer
from leveret.cluster.remote_queues.queue_frames import OWN_TIMES_FEATURE
from leveret.cluster.remote_queues.remote_consumer import WINDOW_BYTES, WINDOW_MESSAGES
from leveret.cluster.remote_queues.remote_queue import RemoteQueue
from leveret.storage.messages.message import Message
from tests.linked_nodes import Nodes
from tests.unit.broker.queues.fakes import HEADER, FakeConsumer, publish
from tests.unit.cluster.remote_queues.fakes import ADDRESS, Publisher, consuming, expiring

A, B = "a@host", "b@host"
UNLIMITED = 1 << 62


@pytest.fixture
def nodes():
    """Nodes a and b, and a queue that lives on b."""
    nodes = Nodes(A, B)
    nodes.declare(B)
    return nodes


@pytest.fixture
def remote(nodes):
    """The queue as a's clients use it."""
    return nodes.by_name[A].queue()


@pytest.fixture
def real(nodes):
    """The queue on its node."""
    return nodes.by_name[B].queue()


def declared_anew(nodes, **arguments):
    """Another queue in the place of the first: as a's clients use it, and as it is on b."""
    nodes.delete()
    nodes.declare(B, **arguments)
    return [nodes.by_name[name].queue() for name in (A, B)]


class TestMessages:
    def test_it_lives_on_the_other_node(self, remote, real):
        assert isinstance(remote, RemoteQueue)
        assert not isinstance(real, RemoteQueue)
        assert remote.placement == real.placement

    def test_a_run_stays_a_run(self, nodes, remote, real):
        messages = [Message(ADDRESS, HEADER, b"%d" % number) for number in range(3)]
        remote.publish(publication_of(messages))
        assert len(nodes.ends[A, B].sent) == 2, "the queue is opened, and the run is one frame"
        nodes.settle()
        assert real.backing.ready_count == 3

    @pytest.mark.parametrize(("features", "frames"), [({OWN_TIMES_FEATURE}, 2), (set(), 4)])
    def test_so_does_one_whose_messages_expire_at_different_times(
        self, nodes, remote, real, features, frames
    ):
        nodes.ends[A, B].features = frozenset(features)
        remote.publish_each(expiring(9_000, 7_000, 8_000))
        assert len(nodes.ends[A, B].sent) == frames
        now_ms = nodes.by_name[B].clock.now_ms()
        nodes.settle()
        cursor = real.backing.cursor()
        assert [entry.expires_at_ms - now_ms for entry in cursor.read(1 << 20)] == [
            9_000, 7_000, 8_000,
        ]  # fmt: skip

    def test_messages_expire_at_home(self, nodes, remote, real):
        publish(remote, b"1", ttl_ms=1000)
        nodes.settle()
        nodes.by_name[B].clock.advance(1.0)
        assert real.backing.ready_count == 0


class TestConfirms:
    def test_a_run_is_confirmed_when_the_home_node_has_it(self, nodes, remote):
        publisher = Publisher()
        publish(remote, b"1", b"2", publisher=publisher, first=7)
        assert publisher.owed == {7: 1, 8: 1}
        nodes.settle()
        assert publisher.confirmed == [7, 8]

    def test_confirms_of_one_round_are_one_frame(self, nodes, remote):
        publisher = Publisher()
        for first in (1, 2, 3):
            publish(remote, b"x", publisher=publisher, first=first)
        link = nodes.ends[A, B]
        while link.sent:
            nodes.by_name[B].queues.received(nodes.ends[B, A], link.sent.popleft())
        nodes.settle()
        assert len(nodes.ends[B, A].log) == 1
        assert publisher.confirmed == [1, 2, 3]

    def test_a_holder_at_home_confirms_later(self, nodes, remote, real, monkeypatch):
        held = []

        def hold(queue, publication):
            publisher, first = publication.publisher, publication.first
            publisher.hold(first, len(publication.messages), "the log")
            held.append((publisher, first))

        monkeypatch.setattr(type(real), "publish", hold)
        publisher = Publisher()
        publish(remote, b"1", b"2", publisher=publisher)
        nodes.settle()
        assert publisher.confirmed == []
        behind, first = held.pop()
        behind.confirm(first, "the log")
        nodes.settle()
        assert publisher.confirmed == [2]
        behind, first = held.pop()
        behind.holder_died("the log", False)
        nodes.settle()
        assert (publisher.refused, publisher.confirmed) == ([1], [2, 1])

    def test_deleting_the_queue_settles(self, nodes, remote):
        publisher = Publisher()
        publish(remote, b"1", publisher=publisher)
        nodes.delete()
        nodes.settle()
        assert publisher.died == [True]
        assert not publisher.owed

    def test_a_node_that_stops_confirms_nothing_that_another_one_owes(self, nodes, remote):
        publisher = Publisher()
        publish(remote, b"1", publisher=publisher)
        remote.close()
        assert publisher.died == [False]


class TestQuestions:
    def test_questions_to_a_queue_that_is_deleted_meanwhile_are_refused(self, nodes, remote):
        answers = [Answer() for _ in range(3)]
        remote.get(True, answers[0])
        remote.length(answers[1])
        remote.purge(answers[2])
        nodes.delete()
        nodes.settle()
        for answer in answers:
            with pytest.raises(ChannelFault, match="no queue 'q' in vhost '/'"):
                answer.result()

    def test_two_clients_that_delete_it_at_once_both_succeed(self, nodes, remote):
        answers = [Answer(), Answer()]
        for answer in answers:
            remote.delete(False, False, THE_NODE, answer)
        nodes.settle()
        assert [answer.result() for answer in answers] == [0, 0]
        assert nodes.by_name[A].queues._homes[B]._queues == {}


class TestConsumers:
    def test_room_that_grows_several_times_in_a_round_is_one_grant(self, nodes, remote):
        consumer = consuming(nodes, remote, FakeConsumer(credit=3))
        publish(remote, *[b"x"] * 6)
        nodes.settle()
        frames = nodes.ends[A, B].log
        before = len(frames)
        for _ in range(3):
            consumer.credit += 1
            remote.credit(consumer)
        nodes.settle()
        assert len(frames) == before + 1
        assert len(consumer.entries) == 6

    def test_one_without_a_limit_has_a_window(self, nodes, remote, real):
        consumer = consuming(nodes, remote, FakeConsumer(credit=UNLIMITED, no_ack=True))
        run = [Message(ADDRESS, HEADER, b"x")] * 3 * WINDOW_MESSAGES
        remote.publish(publication_of(run))
        nodes.settle()
        assert len(consumer.entries) == 3 * WINDOW_MESSAGES
        consumer.room = lambda: 0
        remote.publish(publication_of(run))
        nodes.settle()
        assert real.backing.ready_count >= 2 * WINDOW_MESSAGES, "its client does not read"
        assert len(consumer.entries) == 3 * WINDOW_MESSAGES
        del consumer.room
        assert consumer.is_waiting
        remote.credit(consumer)
        nodes.settle()
        assert len(consumer.entries) == 6 * WINDOW_MESSAGES

    def test_large_messages_are_bounded_by_their_bytes(self, nodes, remote, real):
        consumer = consuming(nodes, remote, FakeConsumer(credit=UNLIMITED))
        consumer.room = lambda: 0
        size = WINDOW_BYTES // 8
        publish(remote, *[b"x" * size] * 20)
        nodes.settle()
        assert 8 <= real.backing.unacked_count <= 10
        del consumer.room
        remote.credit(consumer)
        nodes.settle()
        assert len(consumer.entries) == 20

    def test_what_comes_for_one_whose_channel_has_ended_goes_back(self, nodes, remote, real):
        consumer = consuming(nodes, remote, FakeConsumer())
        publish(remote, b"1", b"2")
        nodes.step()
        nodes.by_name[B].loop.run()
        assert nodes.ends[B, A].sent, "a delivery is on its way"
        remote.cancel(consumer, channel_ended=True)
        nodes.settle()
        assert consumer.bodies == []
        assert (real.backing.ready_count, real.backing.unacked_count) == (2, 0)
        assert not real.ring.consumers

    def test_a_channel_may_end_while_a_cancel_waits(self, nodes, remote, real):
        consumer = consuming(nodes, remote, FakeConsumer())
        publish(remote, b"1")
        remote.cancel(consumer, answer=Answer())
        remote.cancel(consumer, channel_ended=True)
        nodes.settle()
        assert consumer.bodies == []
        assert (real.backing.ready_count, real.backing.unacked_count) == (1, 0)

    def test_a_queue_that_crashes_cancels_them(self, nodes, remote, real):
        consumer = consuming(nodes, remote, FakeConsumer())
        (stand_in,) = real.ring.consumers
        real.ring.remove(stand_in)
        stand_in.queue_deleted()
        stand_in.tell_cancelled()
        nodes.settle()
        assert (consumer.is_without_queue, consumer.was_told) == (True, True)
        nodes.delete()

    def test_consumers_of_all_nodes_take_turns(self, nodes, remote, real):
        near, far = FakeConsumer("far away"), FakeConsumer("at home")
        consuming(nodes, remote, near)
        consuming(nodes, real, far)
        publish(remote, b"1", b"2", b"3", b"4")
        nodes.settle()
        assert sorted(near.bodies + far.bodies) == [b"1", b"2", b"3", b"4"]
        assert len(near.bodies) == len(far.bodies) == 2


class TestLeaderOfAMirroredQueue:
    """A remote queue whose consumers go on with the next leader when its link is down."""

    FIRST_TAG = 1 << 61

    @pytest.fixture
    def lost(self):
        """The consumers that were left, each time the link went down."""
        return []

    @pytest.fixture
    def leader(self, nodes, remote, lost):
        home, specification = nodes.by_name[A].queues.home_node(B), specification_of("/", remote)
        return RemoteQueue(home, specification, self.FIRST_TAG, lost.append)

    def test_tags_begin_where_they_are_to(self, nodes, leader, real):
        publish(real, b"1")
        consumer = consuming(nodes, leader, FakeConsumer())
        assert consumer.entries[0].position == self.FIRST_TAG
        assert leader.next_tag == self.FIRST_TAG + 1
        leader.ack(consumer.entries)
        nodes.settle()
        assert real.backing.unacked_count == 0

    def test_its_consumers_are_left_untold(self, nodes, leader, lost):
        consumer = consuming(nodes, leader, FakeConsumer())
        nodes.unlink(A, B)
        assert lost == [[consumer]]
        assert not consumer.is_without_queue
