"""Programs with aio-pika, all over again, with queues that answer ten milliseconds later."""

import pytest

from leveret.testing import EmbeddedBroker
from tests.clients.test_aio_pika import *  # noqa: F403  (the same programs)
from tests.later_queue import LATER_QUEUES, LaterQueue


@pytest.fixture
async def embedded():
    async with EmbeddedBroker() as broker:
        broker.broker.services.queue_kinds.add(LATER_QUEUES)
        yield broker


async def test_the_queue_is_of_the_other_kind(connection, embedded):
    channel = await connection.channel()
    await channel.declare_queue("q")
    assert isinstance(embedded.broker.services.vhosts["/"].queues["q"], LaterQueue)
