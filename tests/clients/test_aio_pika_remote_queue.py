"""Programs with aio-pika, all over again, with queues that live on another node."""

import pytest

from leveret.cluster.remote_queues.remote_queue import RemoteQueue
from leveret.testing import EmbeddedBroker
from tests.clients.test_aio_pika import *  # noqa: F403  (the same programs)
from tests.linked_brokers import LinkedBrokers


@pytest.fixture
async def embedded():
    async with EmbeddedBroker() as broker:
        await LinkedBrokers(broker.broker).start()
        yield broker


async def test_the_queue_is_of_the_other_node(connection, embedded):
    channel = await connection.channel()
    await channel.declare_queue("q")
    assert isinstance(embedded.broker.services.vhosts["/"].queues["q"], RemoteQueue)
