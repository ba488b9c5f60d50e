"""What a node publishes to a mirrored queue: the same contents to all members."""

from types import SimpleNamespace

import pytest

from leveret.broker.queues.contract.publication import OWN_TTL, publication_of
from leveret.broker.queues.delivery.publisher_hold import BACKLOG_BYTES_MIN
from leveret.broker.runtime.pending import Answer
from leveret.cluster.mirrors import frames
from leveret.cluster.mirrors.mirror_member import MirrorMember
from leveret.cluster.mirrors.publishing import MemberNode, MirroredPublishing
from leveret.cluster.mirrors.ring import OwnMember
from leveret.cluster.remote_queues.queue_frames import OWN_TIMES_FEATURE
from leveret.cluster.remote_queues.remote_hold import WINDOW_BYTES, UntakenBytes
from leveret.storage.messages.addresses import Addresses
from leveret.storage.messages.message import Message
from leveret.storage.queue.transient_queue import TransientQueue
from tests.linked_nodes import LinkEnd
from tests.unit.broker.queues.fakes import HEADER, FakeConsumer
from tests.unit.cluster.mirrors.fakes import leader_session
from tests.unit.cluster.remote_queues.fakes import ADDRESS, Publisher, expiring

IDENTITY, SENDER = 77, 5


class Other:
    """A member on another node."""

    def __init__(self):
        self.link = LinkEnd("b@host")
        self.member = MemberNode(self.link)

    @property
    def sent(self):
        """The contents that it got, as (number, ttl, is_owed, bodies)."""
        found = []
        for payload in self.link.log:
            if payload[0] == frames.CONTENTS:
                publication, _, is_owed = frames.read_contents(payload, SENDER, Addresses())
                bodies = [message.body for message in publication.messages]
                found.append((publication.number, publication.ttl_ms, is_owed, bodies))
        return found


@pytest.fixture
def own():
    """The member of this node: none yet."""
    return OwnMember()


@pytest.fixture
def publishing(own):
    return MirroredPublishing("q", IDENTITY, SENDER, own, UntakenBytes(lambda is_behind: None))


def publish(publishing, *bodies, publisher=None, first=1, ttl_ms=None):
    messages = [Message(ADDRESS, HEADER, body) for body in bodies]
    publishing.publish(publication_of(messages, ttl_ms, publisher, first))


def joined(publishing, node):
    other = Other()
    publishing.add_member(node, other.member, version=5)
    return other


def test_all_members_get_the_same(publishing):
    one, other = joined(publishing, "b"), joined(publishing, "c")
    publish(publishing, b"1", b"2")
    publish(publishing, b"3", ttl_ms=50)
    assert one.sent == other.sent == [(1, None, False, [b"1", b"2"]), (3, 50, False, [b"3"])]


def test_messages_with_times_of_their_own_are_one_frame_if_all_members_take_that(publishing):
    members = joined(publishing, "b"), joined(publishing, "c")
    publication = expiring(70, 50, 50)
    members[0].link.features = frozenset([OWN_TIMES_FEATURE])
    publishing.publish_each(publication)
    in_parts = [(1, 70, False, [b"70"]), (2, 50, False, [b"50", b"50"])]
    assert members[0].sent == members[1].sent == in_parts
    members[1].link.features = frozenset([OWN_TIMES_FEATURE])
    publishing.publish_each(publication)
    together = (4, OWN_TTL, False, [b"70", b"50", b"50"])
    assert members[0].sent == members[1].sent == [*in_parts, together]


def test_a_run_is_confirmed_when_the_leader_says_so(publishing):
    publisher = Publisher()
    member = joined(publishing, "b")
    publish(publishing, b"1", b"2", publisher=publisher, first=11)
    publish(publishing, b"3")
    publish(publishing, b"4", publisher=publisher, first=13)
    assert [is_owed for _, _, is_owed, _ in member.sent] == [True, False, True]
    assert publishing.owed_runs == [(1, 2), (4, 1)]
    publishing.confirmed([(1, 3)], [(4, 4)])
    assert (publisher.confirmed, publisher.refused) == ([11], [13])
    publishing.confirmed([(4, 5)], [])
    assert not publisher.owed


def test_what_the_leader_before_has_said_is_passed_over(publishing):
    publisher = Publisher()
    for number in range(1, 6):
        publish(publishing, b"%d" % number, publisher=publisher, first=number)
    publishing.confirmed([(1, 2), (3, 5)], [(3, 3)])
    publishing.confirmed([(1, 6)], [(3, 3), (4, 4), (5, 5), (5, 5)])
    assert (publisher.confirmed, publisher.refused) == ([1, 3, 4, 2, 5], [3, 5])


def test_what_a_leader_of_this_node_has_published_is_owed_by_the_next_one(publishing, own):
    own.leading = leader_session()
    publisher = Publisher()
    publish(publishing, b"1")
    publish(publishing, b"2", b"3", publisher=publisher, first=11)
    publisher.hold(11, 2, "the queue")
    publishing.owe(2, publisher, 11, 2)
    assert publishing.owed_runs == [(2, 2)]
    publishing.confirmed([(1, 4)], [])
    assert publisher.confirmed == [11]


def test_a_leader_of_this_node_confirms_by_itself(publishing, own):
    own.leading = leader_session()
    publisher = Publisher()
    other = joined(publishing, "b")
    publish(publishing, b"1", publisher=publisher, first=5)
    assert own.leading.backing.decided == {SENDER: 2}
    assert own.leading.queue.backing.ready_count == 1
    assert other.sent == [(1, None, True, [b"1"])]
    assert publishing.owed_runs == []


def test_a_mirror_of_this_node_keeps_messages_published_here(publishing, own):
    user = SimpleNamespace(make_backing=TransientQueue, flush_later=lambda: None)
    own.mirror = MirrorMember(3, user, Addresses(), 0)
    publish(publishing, b"1", b"2", publisher=Publisher())
    publish(publishing, b"3")
    assert own.mirror.held_bytes == 3
    assert publishing.owed_runs == [(1, 2)]


def test_a_node_that_is_a_member_again_goes_on_counting_what_it_has_taken(publishing):
    joined(publishing, "b")
    publish(publishing, b"1")
    publishing.remove_member("b")
    joined(publishing, "b")
    publishing.taken("b", 10)
    publishing.link_down("b")
    joined(publishing, "b")
    with pytest.raises(ValueError, match="are reported as taken"):
        publishing.taken("b", 10)


def test_a_member_that_joins_gets_what_follows(publishing):
    publish(publishing, b"1")
    member = joined(publishing, "b")
    publish(publishing, b"2")
    publishing.remove_member("b")
    publish(publishing, b"3")
    assert [bodies for _, _, _, bodies in member.sent] == [[b"2"]]


class TestHold:
    def test_the_slowest_member_slows(self, publishing):
        joined(publishing, "b")
        joined(publishing, "c")
        publish(publishing, bytes(WINDOW_BYTES + 1))
        sent = WINDOW_BYTES + 1000
        publishing.taken("b", WINDOW_BYTES)
        assert publishing.hold.is_wanted
        resumed = []
        publishing.hold.begin(lambda: resumed.append(True))
        publishing.taken("c", WINDOW_BYTES)
        assert resumed
        assert not publishing.hold.is_wanted
        with pytest.raises(ValueError, match="reported as taken"):
            publishing.taken("c", sent)

    def test_a_publisher_that_waits_for_a_member_goes_on_when_it_is_gone(self, publishing):
        joined(publishing, "b")
        publish(publishing, bytes(WINDOW_BYTES + 1))
        resumed = []
        publishing.hold.begin(lambda: resumed.append(True))
        publishing.remove_member("b")
        assert resumed
        assert not publishing.hold.is_wanted

    def test_the_consumers_of_a_leader_on_this_node_count(self, publishing, own):
        own.leading = leader_session()
        queue, consumer = own.leading.queue, FakeConsumer(credit=0)
        queue.subscribe(consumer, Answer())
        assert not publishing.hold.is_wanted
        publish(publishing, bytes(BACKLOG_BYTES_MIN))
        queue.deliver_ready()
        assert publishing.hold.is_wanted
        queue.cancel(consumer)
        assert not publishing.hold.is_wanted


def test_owed_confirms_are_refused_when_the_queue_is_down(publishing):
    publisher = Publisher()
    publish(publishing, b"1", publisher=publisher)
    publishing.fail()
    assert publisher.died == [False]


def test_owed_confirms_are_settled_when_the_queue_is_deleted(publishing):
    publisher = Publisher()
    joined(publishing, "b")
    publish(publishing, b"1", publisher=publisher)
    publishing.end(is_deleted=True)
    assert publisher.died == [True]


def test_owed_confirms_are_refused_when_the_node_stops(publishing):
    publisher = Publisher()
    joined(publishing, "b")
    publish(publishing, b"1", publisher=publisher)
    publishing.end(is_deleted=False)
    assert publisher.died == [False]
