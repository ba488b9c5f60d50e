"""The promises of a queue client (queue_client.py), wherever the queue lives.

Each test runs twice: for a queue of the node whose clients use it, and for one of another node.
Promises of queues that remove nothing, too, are tested with a log beside the classic queue.
"""

import pytest

from leveret.broker.amqp.errors import ChannelFault
from leveret.broker.amqp.field_table import encode_table
from leveret.broker.declarations.requester import THE_NODE
from leveret.broker.queues.contract.offset_specification import (
    FIRST,
    LAST,
    NEXT,
    OFFSET,
    TIMESTAMP,
    OffsetSpecification,
)
from leveret.broker.queues.contract.publication import publication_of
from leveret.broker.runtime.pending import Answer
from leveret.storage.messages.message import Message
from tests.fakes.log_queue import LOG_QUEUES
from tests.linked_nodes import Nodes
from tests.unit.broker.queues.fakes import HEADER, FakeConsumer, publish
from tests.unit.cluster.remote_queues.fakes import ADDRESS, Publisher, asked, consuming

A, B = "a@host", "b@host"


@pytest.fixture(params=[A, B], ids=["at home", "on another node"])
def home(request):
    """The node on which the queue lives. Clients are connected to a."""
    return request.param


@pytest.fixture
def nodes(home):
    nodes = Nodes(A, B)
    for node in nodes:
        node.vhost.kinds.add(node.vhost.kinds.fit(LOG_QUEUES))
    nodes.declare(home)
    return nodes


@pytest.fixture
def queue(nodes):
    """The queue as clients use it."""
    return nodes.by_name[A].queue()


@pytest.fixture(params=["classic", "log"])
def any_queue(request, nodes, home):
    """A queue of each kind, as clients use it."""
    return declared_anew(nodes, home, durable=True, arguments=of_type(request.param))


@pytest.fixture
def log(nodes, home):
    """A log, as clients use it."""
    return declared_anew(nodes, home, durable=True, arguments=of_type("log"))


@pytest.fixture
def real(nodes, home):
    """The queue on its node."""
    return nodes.by_name[home].queue()


def declared_anew(nodes, home, **arguments):
    """Another queue in the place of the first, as clients use it."""
    nodes.delete()
    nodes.declare(home, **arguments)
    return nodes.by_name[A].queue()


def of_type(kind):
    """Encoded arguments of a queue of a kind."""
    return encode_table({"x-queue-type": ("S", kind)})


def full():
    """Encoded arguments of a queue that refuses what is published above two messages."""
    return encode_table({"x-max-length": ("I", 2), "x-overflow": ("S", "reject-publish")})


def test_a_get_after_a_publish_finds_the_message(nodes, queue):
    publish(queue, b"1", b"2")
    got = asked(nodes, queue.get, True)
    assert (got.entry.message.body, got.ready_count) == (b"1", 1)
    assert asked(nodes, queue.get, False).entry.message.body == b"2"
    assert asked(nodes, queue.get, False) is None


def test_consuming_and_settling(nodes, queue, real):
    consumer = consuming(nodes, queue, FakeConsumer())
    publish(queue, b"1", b"2", b"3")
    nodes.settle()
    assert consumer.bodies == [b"1", b"2", b"3"]
    queue.ack(consumer.entries[:1])
    queue.requeue(consumer.entries[1:2])
    nodes.settle()
    assert real.counts.acked == 1
    assert consumer.bodies == [b"1", b"2", b"3", b"2"]
    assert consumer.entries[-1].redelivered
    queue.discard(consumer.entries[2:])
    nodes.settle()
    assert real.backing.unacked_count == 0


def test_a_get_after_a_requeue_finds_the_message(nodes, queue):
    publish(queue, b"1")
    got = asked(nodes, queue.get, True)
    queue.requeue([got.entry])
    again = asked(nodes, queue.get, True)
    assert (again.entry.message.body, again.entry.redelivered) == (b"1", True)


def test_a_queue_that_is_full_refuses(nodes, home):
    queue = declared_anew(nodes, home, arguments=full())
    publisher = Publisher()
    messages = [Message(ADDRESS, HEADER, b"x") for _ in range(4)]
    queue.publish(publication_of(messages, None, publisher, 11))
    nodes.settle()
    assert publisher.refused == [13, 14]
    assert not publisher.owed


def test_length_purge_and_delete_have_counts(nodes, queue):
    publish(queue, b"1", b"2", b"3")
    consuming(nodes, queue, FakeConsumer(credit=1))
    assert tuple(asked(nodes, queue.length)) == (2, 1)
    assert asked(nodes, queue.purge) == 2
    publish(queue, b"4")
    assert asked(nodes, queue.delete, False, False, THE_NODE) == 1
    assert all(not node.vhost.queues for node in nodes)


def test_faults_come_with_their_code_and_text(nodes, queue):
    publish(queue, b"1")
    with pytest.raises(ChannelFault, match="queue 'q' in vhost '/' not empty") as refused:
        asked(nodes, queue.delete, False, True, THE_NODE)
    assert refused.value.reply_code == 406
    consuming(nodes, queue, FakeConsumer())
    exclusive = FakeConsumer("e")
    exclusive.is_exclusive = True
    with pytest.raises(ChannelFault, match="in exclusive use") as refused:
        asked(nodes, queue.subscribe, exclusive)
    assert refused.value.reply_code == 403


def test_no_consumer_gets_more_than_its_room(nodes, any_queue):
    consumer = consuming(nodes, any_queue, FakeConsumer(credit=2))
    publish(any_queue, b"1", b"2", b"3", b"4")
    nodes.settle()
    assert consumer.bodies == [b"1", b"2"]
    any_queue.ack([consumer.entries[0]])
    consumer.credit += 1
    assert consumer.is_waiting, "it wants to be told of room"
    any_queue.credit(consumer)
    nodes.settle()
    assert consumer.bodies == [b"1", b"2", b"3"]


def test_a_cancelled_consumer_gets_first_what_was_published_before(nodes, any_queue):
    consumer = consuming(nodes, any_queue, FakeConsumer())
    publish(any_queue, b"1", b"2")
    cancelled = Answer()
    any_queue.cancel(consumer, answer=cancelled)
    publish(any_queue, b"3")
    nodes.settle()
    assert cancelled.is_given
    assert consumer.bodies == [b"1", b"2"]


def test_consumers_of_a_deleted_queue_are_told_once(nodes, any_queue):
    consumer = consuming(nodes, any_queue, FakeConsumer())
    nodes.delete()
    nodes.settle()
    assert consumer.is_without_queue
    assert consumer.was_told


def test_a_deletion_is_answered_before_the_consumers_are_told(nodes, any_queue):
    consumer = consuming(nodes, any_queue, FakeConsumer())
    deleted = Answer(lambda _: told_before.append(consumer.was_told))
    told_before = []
    any_queue.delete(False, False, THE_NODE, deleted)
    nodes.settle()
    assert told_before == [False]
    assert consumer.was_told


def test_an_auto_delete_queue_goes_with_its_last_consumer(nodes, home):
    queue = declared_anew(nodes, home, auto_delete=True)
    consumer = consuming(nodes, queue, FakeConsumer())
    queue.cancel(consumer)
    nodes.settle()
    assert all(not node.vhost.queues for node in nodes)


# Logs


def reader(nodes, log, start, credit=1000):
    """A consumer that begins to read here."""
    consumer = FakeConsumer(credit=credit)
    consumer.start = start
    return consuming(nodes, log, consumer)


def test_a_consumer_of_a_log_begins_at_its_start(nodes, home, log):
    publish(log, b"1", b"2")
    nodes.settle()
    clock = nodes.by_name[home].clock
    clock.advance(1)
    between = OffsetSpecification(TIMESTAMP, int(clock.wall_time_s() * 1000))
    clock.advance(1)
    publish(log, b"3")
    starts = (FIRST, LAST, NEXT, OffsetSpecification(OFFSET, 1), between)
    readers = [reader(nodes, log, start) for start in starts]
    publish(log, b"4")
    nodes.settle()
    assert [b"".join(one.bodies) for one in readers] == [b"1234", b"34", b"4", b"234", b"34"]


def test_what_is_settled_stays_in_a_log(nodes, log):
    publish(log, b"1", b"2", b"3")
    consumer = reader(nodes, log, FIRST)
    for settle, entry in zip((log.ack, log.requeue, log.discard), consumer.entries, strict=True):
        settle([entry])
    nodes.settle()
    assert consumer.bodies == [b"1", b"2", b"3"]
    assert asked(nodes, log.length).ready_count == 3
    assert reader(nodes, log, FIRST).bodies == [b"1", b"2", b"3"]


def test_a_logs_figures_say_where_a_consumer_is(nodes, home, log):
    publish(log, b"1", b"2", b"3")
    reader(nodes, log, FIRST, credit=2)
    (figures,) = nodes.by_name[home].queue().figures.consumers()
    assert (figures.offset, figures.lag) == (2, 1)
