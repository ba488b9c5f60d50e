"""AMQP 1.0: links whose client does not settle messages in time."""

import pytest

from leveret.broker.amqp10.values import Value
from leveret.broker.protocols.amqp10.performatives import SENDER, Disposition, Released
from leveret.broker.runtime.virtual_clock import VirtualClock
from tests.protocol.amqp10_peer import Amqp10Node, bodies


def impatient(**settings):
    """A node where deliveries have to be settled within 90 seconds."""
    patience = {"consumer_timeout_ms": 90_000, "heartbeat_s": 0}
    return Amqp10Node(VirtualClock(), is_lone=True, **patience, **settings)


async def late_consumer(node, queue_type, **properties):
    """A client that has held two messages for too long, and what it was sent since."""
    await node.declare("q", queue_type=queue_type)
    client = await node.client()
    await client.publisher("/queue/q", 9)
    for body in ("a", "b"):
        await client.publish(body, 9)
    await client.consumer("/queue/q", **properties)
    assert bodies(await client.received()) == ["a", "b"]
    found = []
    for _ in range(3):
        node.broker.services.clock.advance(60)
        found += [one.performative for one in await client.frames()]
    return client, found


async def test_a_quorum_queue_takes_back_what_a_link_has_held_for_too_long_since_4_3():
    async with impatient(compat="4.x") as node:
        client, sent = await late_consumer(node, "quorum")
        assert sent == [Disposition(SENDER, 0, 1, False, Released())]
        client.settle(0)
        assert await client.received() == []
        client.settle(1)
        assert bodies(await client.received()) == ["a", "b"]


async def test_a_link_may_ask_for_a_timeout_of_its_own_since_4_3():
    async with impatient(compat="4.x") as node:
        patience = Value("map", [(
            Value("symbol", "rabbitmq:consumer-timeout"), Value("uint", 600_000),
        )])  # fmt: skip
        _, sent = await late_consumer(node, "quorum", properties=patience)
        assert sent == []


@pytest.mark.parametrize("compat", ["4.0", "4.x"])
async def test_links_from_other_queues_have_no_timeout_since_4_0(compat):
    async with impatient(compat=compat) as node:
        client, sent = await late_consumer(node, "classic")
        assert sent == []
        client.settle(0, 1)
        assert await client.frames() == []
        assert node.queue("q").figures.counts().unacked == 0


async def test_a_link_that_settles_too_late_is_detached_if_a_setting_says_so():
    async with impatient(compat="4.x", consumer_timeout_action="cancel_consumer") as node:
        _, (detach,) = await late_consumer(node, "quorum")
        assert (detach.handle, detach.error.condition) == (0, "amqp:illegal-state")
