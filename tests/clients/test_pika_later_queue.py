"""Programs with pika, all over again, with queues that answer ten milliseconds later."""

import pytest

from leveret.testing import EmbeddedBroker
from tests.clients.test_pika import *  # noqa: F403  (the same programs)
from tests.later_queue import LATER_QUEUES, LaterQueue


def serve_later_queues(embedded):
    embedded.broker.services.queue_kinds.add(LATER_QUEUES)


@pytest.fixture
def amqp_broker():
    with EmbeddedBroker.in_thread() as broker:
        broker.call(lambda embedded: embedded.broker.services.queue_kinds.add(LATER_QUEUES))
        yield broker


@pytest.fixture
def amqp_url(amqp_broker):
    return amqp_broker.url


def test_the_queue_is_of_the_other_kind(channel, amqp_broker):
    channel.queue_declare("q")
    found = amqp_broker.call(lambda embedded: embedded.broker.services.vhosts["/"].queues["q"])
    assert isinstance(found, LaterQueue)
