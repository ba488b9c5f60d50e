"""FastStream with quorum queues: handlers that fail, a delivery limit, and requests."""

import asyncio

import pytest

pytest.importorskip("faststream.rabbit", reason="the extra [test] is not fully installed")

from faststream import AckPolicy
from faststream.rabbit import QueueType, RabbitBroker, RabbitQueue

from leveret.testing import EmbeddedBroker
from tests.patience import PATIENCE_SECONDS

ORDERS = RabbitQueue(
    "orders", queue_type=QueueType.QUORUM, durable=True,
    arguments={
        "x-delivery-limit": 2, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "failed",
    },
)  # fmt: skip
FAILED = RabbitQueue("failed", queue_type=QueueType.QUORUM, durable=True)


@pytest.fixture
async def url():
    async with EmbeddedBroker() as broker:
        yield broker.url


async def test_a_message_that_cannot_be_handled_is_dead_lettered(url):
    tries, failed = [], asyncio.Queue()
    broker = RabbitBroker(url, logger=None)

    @broker.subscriber(ORDERS, ack_policy=AckPolicy.NACK_ON_ERROR)
    async def handle(body: str) -> str:
        tries.append(body)
        if body == "bad":
            raise ValueError(body)
        return body.upper()

    @broker.subscriber(FAILED)
    async def note(body: str) -> None:
        await failed.put(body)

    async with broker:
        await broker.start()
        await broker.publish("bad", ORDERS)
        answer = await broker.request("good", ORDERS, timeout=PATIENCE_SECONDS)
        assert await answer.decode() == "GOOD"
        assert await asyncio.wait_for(failed.get(), PATIENCE_SECONDS) == "bad"
    assert tries.count("bad") == 3
