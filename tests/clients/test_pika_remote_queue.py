"""Programs with pika, all over again, with queues that live on another node."""

import asyncio

import pytest

from leveret.cluster.remote_queues.remote_queue import RemoteQueue
from leveret.testing import EmbeddedBroker
from tests.clients.test_pika import *  # noqa: F403  (the same programs)
from tests.linked_brokers import LinkedBrokers
from tests.patience import PATIENCE_SECONDS


@pytest.fixture
def amqp_broker():
    with EmbeddedBroker.in_thread() as broker:
        loop = broker.call(lambda _: asyncio.get_running_loop())
        linked = broker.call(lambda embedded: LinkedBrokers(embedded.broker))
        asyncio.run_coroutine_threadsafe(linked.start(), loop).result(PATIENCE_SECONDS)
        yield broker


@pytest.fixture
def amqp_url(amqp_broker):
    return amqp_broker.url


def test_the_queue_is_of_the_other_node(channel, amqp_broker):
    channel.queue_declare("q")
    found = amqp_broker.call(lambda embedded: embedded.broker.services.vhosts["/"].queues["q"])
    assert isinstance(found, RemoteQueue)
