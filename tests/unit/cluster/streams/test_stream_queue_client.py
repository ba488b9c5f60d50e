"""A stream as the clients of a node use it: publishing over changes of leader, and its rules."""

import gc

import pytest

from leveret.broker.amqp.errors import ChannelFault, ConnectionFault
from leveret.broker.declarations.requester import THE_NODE
from leveret.broker.queues.contract.stream import StreamEntries
from leveret.broker.queues.contract.stream_arguments import StreamFilter
from leveret.broker.runtime.pending import Answer
from leveret.cluster.remote_queues.remote_figures import NO_AGES
from leveret.cluster.replicated_queues.client.unapplied_hold import WINDOW_BYTES
from leveret.cluster.streams.client.member_questions import HELD_MS
from leveret.cluster.streams.client.stream_queue_client import StreamQueueClient
from leveret.cluster.streams.client.told_uses import FIRST_REPORT_MS, KEPT_MS, REPORT_MS
from tests.fakes.stream_group import ANSWER_MS, LEADER, StreamUse
from tests.unit.broker.queues.fakes import FakeConsumer
from tests.unit.cluster.remote_queues.fakes import Publisher


@pytest.fixture
def use(tmp_path):
    return StreamUse(tmp_path / "stream")


@pytest.fixture
def queue(use):
    return use.queue


def entries(*bodies, publisher=b"", ids=None, filter_values=()):
    """What the connection of a stream client appends."""
    pieces = [len(body).to_bytes(4, "big") + body for body in bodies]
    if ids is None:
        ids = tuple(range(1, 1 + len(bodies))) if publisher else ()
    return StreamEntries(publisher, ids, filter_values, len(bodies), pieces)


def count(use):
    return use.asked(use.queue.length).ready_count


# Publishing


def test_messages_are_confirmed_when_they_are_in_the_log(use):
    publisher = Publisher()
    use.group.is_slow = True
    use.publish(b"1", b"2", publisher=publisher)
    assert (publisher.owed, publisher.confirmed) == ({1: 1}, [])
    use.group.commit()
    assert (publisher.owed, publisher.confirmed) == ({}, [1])
    assert count(use) == 2


def test_what_a_turn_has_published_is_one_command(use, queue):
    use.publish(b"0")
    before = len(use.group.sent)
    queue.append(entries(b"1"), lambda confirmed: None)
    queue.append(entries(b"2"), lambda confirmed: None)
    use.publish(b"3")
    assert len(use.group.sent) - before == 1
    assert count(use) == 4


@pytest.mark.parametrize("fault", ["loses", "is_slow", "is_forgetful"])
def test_messages_are_stored_once_over_a_change_of_leader(use, fault):
    publisher = Publisher()
    use.publish(b"0")
    setattr(use.group, fault, True)
    use.publish(b"1", publisher=publisher, first=1)
    use.publish(b"2", publisher=publisher, first=2)
    use.group.lose_leader()
    use.publish(b"3", publisher=publisher, first=3)
    assert publisher.confirmed == []
    setattr(use.group, fault, False)
    use.group.lead()
    use.settle()
    assert publisher.confirmed == [1, 2, 3]
    assert count(use) == 4


def test_messages_of_a_node_that_the_stream_has_forgotten_are_refused(use):
    publisher = Publisher()
    use.publish(b"0")
    use.group.loses = True
    use.publish(b"1", publisher=publisher)
    use.group.lose_leader()
    use.member.machine.senders.clear()
    use.group.loses = False
    use.group.lead()
    use.settle()
    assert publisher.died == [False]
    use.publish(b"2", publisher=publisher, first=2)
    assert publisher.confirmed == [2]
    assert count(use) == 2


def test_a_named_publisher_is_stored_once_and_confirmed_each_time(use, queue):
    confirmed = []
    queue.append(entries(b"1", b"2", publisher=b"p"), confirmed.append)
    use.settle()
    queue.append(entries(b"2", b"3", publisher=b"p", ids=(2, 3)), confirmed.append)
    use.settle()
    assert confirmed == [True, True]
    assert count(use) == 3
    assert use.asked(queue.sequence, b"p") == 3
    assert use.asked(queue.sequence, b"another") == 0


def test_publishers_wait_while_much_is_not_in_the_log(use, queue):
    resumed = []
    use.group.lose_leader()
    assert not queue.publisher_hold.is_wanted
    use.publish(b"x" * WINDOW_BYTES)
    assert queue.publisher_hold.is_wanted
    queue.publisher_hold.begin(lambda: resumed.append(True))
    use.group.lead()
    use.settle()
    assert resumed == [True]
    assert not queue.publisher_hold.is_wanted


def test_a_command_has_at_most_as_many_entries_as_a_chunk(use, queue):
    use.publish(*[b""] * 65_536)
    assert count(use) == 65_536
    queue.append(entries(*[b""] * 65_535), lambda confirmed: None)
    queue.append(entries(b"1"), lambda confirmed: None)
    use.settle()
    assert count(use) == 2 * 65_536


def test_filter_values_of_some_entries_are_padded(use, queue):
    confirmed = []
    queue.append(entries(b"1"), confirmed.append)
    queue.append(entries(b"2", filter_values=(b"v",)), confirmed.append)
    queue.append(entries(b"3"), confirmed.append)
    use.settle()
    assert confirmed == [True, True, True]


# Stored offsets


def test_an_offset_is_stored_under_a_name(use, queue):
    assert use.asked(queue.stored_offset, b"c") is None
    queue.store_offset(b"c", 7)
    queue.store_offset(b"c", 5)
    use.settle()
    assert use.asked(queue.stored_offset, b"c") == 5


def test_an_offset_that_is_being_stored_is_the_answer(use, queue):
    use.group.is_slow = True
    for offset in (7, 5):
        queue.store_offset(b"c", offset)
        assert use.asked(queue.stored_offset, b"c") == offset
        use.settle()
        assert use.asked(queue.stored_offset, b"c") == offset
    use.group.commit()
    assert use.asked(queue.stored_offset, b"c") == 5


def test_a_question_waits_for_a_leader(use, queue):
    use.group.lose_leader()
    answers = []
    answer = Answer(answers.append)
    queue.stored_offset(b"c", answer)
    assert not answer.is_given
    use.group.lead()
    assert answers == [None]


# The stream as a whole


def test_a_deletion_says_that_there_were_no_messages(use, queue):
    use.publish(b"1")
    consumer = use.consuming(FakeConsumer())
    assert use.asked(queue.delete, True, True, THE_NODE) == 0
    assert use.group.is_closed
    assert consumer.is_without_queue
    assert consumer.was_told


def test_messages_of_a_deleted_stream_are_confirmed_and_refused_when_the_node_stops(tmp_path):
    for name, is_deleted in (("deleted", True), ("closed", False)):
        use = StreamUse(tmp_path / name)
        publisher, confirmed = Publisher(), []
        use.group.lose_leader()
        use.publish(b"1", publisher=publisher)
        use.queue.append(entries(b"2"), confirmed.append)
        if is_deleted:
            use.queue.delete_now()
        else:
            use.queue.close()
        assert publisher.died == [is_deleted]
        assert confirmed == [False]


def test_users_of_the_stream_protocol_are_told_of_a_deletion(use, queue):
    class User:
        told = ()

        def stream_deleted(self, stream):
            self.told = (stream.name,)

    users = User(), User()
    for user in users:
        queue.add_user(user)
    queue.remove_user(users[1])
    queue.delete_now()
    assert [user.told for user in users] == [("q",), ()]


def test_requests_after_the_end_are_refused(use, queue):
    queue.delete_now()
    for ask in (
        lambda answer: queue.subscribe(FakeConsumer(), answer),
        lambda answer: queue.stored_offset(b"c", answer),
        queue.stats,
        lambda answer: queue.delete(False, False, THE_NODE, answer),
    ):
        with pytest.raises(ChannelFault):
            use.asked(ask)


def clients():
    return sum(issubclass(type(one), StreamQueueClient) for one in gc.get_objects())


def test_a_stream_that_has_ended_is_freed_at_once(tmp_path):
    gc.collect()
    gc.disable()
    try:
        before = clients()
        use = StreamUse(tmp_path / "ended")
        use.publish(b"1")
        use.consuming(FakeConsumer())
        use.queue.delete_now()
        assert clients() == before + 1
        use.group.client = use.queue = None
        assert clients() == before
    finally:
        gc.enable()


def test_messages_cannot_be_taken_out(use, queue):
    for ask in (lambda answer: queue.get(True, answer), queue.purge):
        with pytest.raises(ConnectionFault) as caught:
            use.asked(ask)
        assert caught.value.reply_code == 540


def test_a_declared_stream_waits_for_its_first_leader(use, queue):
    assert use.asked(queue.begin) is None
    use.group.lose_leader()
    answer = Answer()
    queue.begin(answer)
    assert not answer.is_given
    use.vhost.clock.advance(ANSWER_MS / 1000 - 1)
    assert not answer.is_given
    use.vhost.clock.advance(1)
    with pytest.raises(ConnectionFault, match="cluster_not_formed"):
        answer.result()


def test_a_consumer_that_finds_no_leader_is_refused_in_time(use):
    elsewhere = use.elsewhere()
    elsewhere.leader_lost()
    elsewhere._service.leader = ""
    answer = Answer()
    elsewhere.subscribe(FakeConsumer(), answer)
    use.vhost.clock.advance(ANSWER_MS)
    with pytest.raises(ConnectionFault, match="Cannot consume from queue 'q'"):
        answer.result()


def test_a_question_about_the_state_is_refused_in_time_without_a_leader(use, queue):
    use.group.lose_leader()
    answer = Answer()
    queue.tracked(answer)
    use.vhost.clock.advance(ANSWER_MS / 1000)
    with pytest.raises(ConnectionFault, match="Cannot get the state of .*: timeout"):
        answer.result()


def test_figures(use, queue):
    use.publish(b"1", b"2")
    consumer = FakeConsumer()
    use.consuming(consumer)
    assert queue.figures.ages() == NO_AGES
    counts = queue.figures.counts()
    assert (counts.ready, counts.unacked, counts.consumers, counts.published) == (2, 0, 1, 2)
    status = queue.figures.status()
    assert status.state == "running"
    stream = status.stream
    assert (stream.first_offset, stream.next_offset, stream.readers) == (0, 2, {LEADER: 1})
    assert (stream.segments, stream.size_bytes) == (1, use.member.log.size_bytes)
    use.group.lose_leader()
    assert queue.figures.status().state == "down"


def test_figures_of_a_node_without_a_member_are_asked_for(use):
    use.publish(b"1", b"2")
    elsewhere = use.elsewhere()
    assert elsewhere.figures.counts().ready == 0
    use.asked(elsewhere.figures.refresh)
    assert elsewhere.figures.counts().ready == 2
    assert use.asked(elsewhere.length).ready_count == 2


def test_the_leaders_node_shows_consumers_of_other_nodes_until_they_are_gone(use, queue):
    elsewhere = use.elsewhere()
    consumer = use.consuming(FakeConsumer(), elsewhere)
    use.publish(b"1")
    use.vhost.clock.advance(REPORT_MS)
    (figures,) = queue.figures.consumers()
    assert (figures.node, figures.offset, figures.lag) == ("b@host", 1, 0)
    assert queue.figures.counts().consumers == 1
    assert queue.figures.counts().delivered == 1
    assert queue.figures.status().stream.readers == {"b@host": 1}
    use.asked(elsewhere.cancel, consumer, False)
    use.vhost.clock.advance(FIRST_REPORT_MS)
    assert queue.figures.consumers() == []
    assert queue.figures.counts().delivered == 1


def test_consumers_of_a_node_that_tells_nothing_are_left_out(use, queue):
    elsewhere = use.elsewhere()
    use.consuming(FakeConsumer(), elsewhere)
    use.vhost.clock.advance(REPORT_MS)
    assert len(queue.figures.consumers()) == 1
    elsewhere._service.ask_member = lambda *_: None
    use.vhost.clock.advance(KEPT_MS)
    assert queue.figures.consumers() == []


def test_options_of_policies_reach_the_group(use, queue):
    options = queue.options._replace(max_age_ms=5)
    queue.apply(options)
    assert use.group.options == options


REPLICA = "c@host"


class ReadingUser:
    """A `ReaderUser` that takes what there is. found: the chunks."""

    def __init__(self, readers):
        self.found = []
        self.reader = readers.open(0, StreamFilter((), False), self)
        self.ready()

    def ready(self):
        while chunks := self.reader.take(10, 1_000_000):
            self.found += chunks


def test_a_replica_is_asked_for_chunks_and_the_leader_if_it_has_none_for_a_while(use):
    use.publish(b"one")
    other = use.elsewhere()
    group = other.readers.group
    group.replicas = [REPLICA]
    user = ReadingUser(other.readers)
    assert (len(user.found), group.asked) == (1, [REPLICA, REPLICA])
    use.vhost.clock.advance(HELD_MS / 1000)
    assert (group.asked.count(REPLICA), group.asked[-1]) == (2, LEADER)
    use.publish(b"two")
    use.settle()
    assert len(user.found) == 2
    assert (group.asked.count(REPLICA), group.asked[-1]) == (3, REPLICA)


def test_the_leader_is_asked_at_once_if_a_replica_does_not_answer(use):
    use.publish(b"one")
    other = use.elsewhere()
    group = other.readers.group
    group.replicas, group.gone = [REPLICA], {REPLICA}
    user = ReadingUser(other.readers)
    use.vhost.clock.advance(0.001)
    assert len(user.found) == 1
    assert group.asked[:2] == [REPLICA, LEADER]
