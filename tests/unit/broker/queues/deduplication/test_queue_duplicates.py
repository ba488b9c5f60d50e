"""The duplicates of a classic queue, while identifiers are read and after that."""

import pytest

from leveret.broker.amqp.content_header import header_with
from leveret.broker.queues.contract.publication import Publication
from leveret.storage.messages.message import Message
from tests.unit.broker.queues import fakes
from tests.unit.broker.queues.fakes import FakeVhost, declared, got, purged, ready
from tests.unit.cluster.remote_queues.fakes import Publisher

DAY_MS = 86_400_000


@pytest.fixture
def vhost():
    return FakeVhost()


def publish(queue, *identifiers, publisher=None, first=1):
    for place, identifier in enumerate(identifiers):
        header = header_with(headers={"x-deduplication-header": ("S", identifier)})
        body = identifier.encode()
        fakes.publish(queue, body, publisher=publisher, first=first + place, header=header)


def configured(queue, **options):
    queue.apply(queue.options._replace(**options))


def reading(vhost, *identifiers, **arguments):
    """A queue that has messages, and that refuses duplicates as soon as it has read these."""
    queue = declared(vhost, **arguments)
    publish(queue, *identifiers)
    vhost.turns.work_left = 0
    configured(queue, deduplicates=True)
    return queue


def test_publications_wait_while_identifiers_are_read(vhost):
    queue, publisher = reading(vhost, "a", "b"), Publisher()
    publish(queue, "a", "c", publisher=publisher)
    assert queue.backing.ready_count == 2
    assert publisher.owed
    vhost.turns.run()
    assert not publisher.owed
    assert ready(queue) == [b"a", b"b", b"c"]


@pytest.mark.parametrize("priorities", [{}, {"x_max_priority": 2}])
def test_a_new_leader_of_a_mirrored_queue_knows_the_last_messages_at_once(vhost, priorities):
    queue = reading(vhost, "a", "b", **priorities)
    for number, identifier in enumerate("bc"):
        header = header_with(headers={"x-deduplication-header": ("S", identifier)})
        message = Message(fakes.ADDRESS, header, identifier.encode())
        queue.publish(Publication([message], 1, sender=1, number=number + 1))
    assert ready(queue) == [b"a", b"b", b"c"]
    vhost.turns.run()


def test_they_are_taken_if_duplicates_are_no_longer_refused(vhost):
    queue, publisher = reading(vhost, "a"), Publisher()
    publish(queue, "a", publisher=publisher)
    configured(queue, deduplicates=False)
    assert not publisher.owed
    assert queue.features is None
    vhost.turns.run()
    assert ready(queue) == [b"a", b"a"]


def test_they_are_refused_when_the_queue_ends(vhost):
    queue, publisher = reading(vhost, "a"), Publisher()
    publish(queue, "b", publisher=publisher, first=7)
    queue.close()
    assert (publisher.refused, publisher.owed) == ([7], {})
    vhost.turns.run()


def test_a_message_that_waits_for_its_retry_is_known(vhost):
    queue = declared(vhost, x_delayed_retry_type="all", x_delayed_retry_min=DAY_MS)
    configured(queue, deduplicates=True)
    publish(queue, "a")
    queue.requeue([got(queue)])
    publish(queue, "a")
    assert queue.backing.ready_count == 0
    assert queue.counts.duplicates == 1, "QF1"
    assert purged(queue) == 1
    assert queue.figures.status().deduplication.entries == 0


def test_messages_that_wait_when_a_policy_begins_to_refuse_duplicates_are_known(vhost):
    queue = declared(vhost, x_delayed_retry_type="all", x_delayed_retry_min=DAY_MS)
    publish(queue, "a")
    queue.requeue([got(queue)])
    configured(queue, deduplicates=True)
    publish(queue, "a")
    assert ready(queue) == []


@pytest.mark.parametrize("no_ack", [False, True])
def test_it_is_known_until_it_is_settled(vhost, no_ack):
    queue = declared(vhost)
    configured(queue, deduplicates=True)
    publish(queue, "a")
    entry = got(queue, ack_required=not no_ack)
    if not no_ack:
        publish(queue, "a")
        assert queue.backing.ready_count == 0
        queue.ack([entry])
    publish(queue, "a")
    assert ready(queue) == [b"a"]
