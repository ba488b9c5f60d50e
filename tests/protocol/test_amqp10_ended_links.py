"""AMQP 1.0: topic permissions, deliveries that are settled too late, and links that have ended."""

from leveret.broker.amqp10.values import Value
from leveret.broker.declarations.values import PutTopicPermission, TopicPermission
from leveret.broker.protocols.amqp10.performatives import (
    RECEIVER,
    SENDER,
    SETTLED,
    Attach,
    Detach,
    Disposition,
    Released,
    Source,
    Target,
)
from leveret.broker.runtime.virtual_clock import VirtualClock
from tests.protocol.amqp10_peer import Amqp10Node, bodies, text


async def test_topic_permissions_hold_for_links_and_for_each_message():
    async with Amqp10Node() as node:
        client = await node.client()
        allowed = TopicPermission("/", "guest", "amq.topic", "^mine", "^mine")
        node.broker.services.declarations.submit(PutTopicPermission(allowed)).result()
        await client.publisher("/exchanges/amq.topic/mine.1", 0)
        (outcome,) = await client.publish("m", 0)
        assert (type(outcome), outcome.state) == (Disposition, Released())
        await client.publisher(None, 1)
        to = {"to": text("/exchanges/amq.topic/yours")}
        (end,) = await client.publish("m", 1, properties=to)
        assert end.error[:2] == (
            "amqp:unauthorized-access",
            "write access to topic 'yours' in exchange 'amq.topic' in vhost '/' refused for user "
            "'guest'",
        )
        reader = await (await node.connect().open()).begin()
        (end,) = await reader.consumer("/topic/yours", credit=0)
        assert end.error.condition == "amqp:unauthorized-access"


async def test_a_consumer_that_settles_too_late_loses_its_session_before_4_0():
    clock = VirtualClock()
    async with Amqp10Node(clock, compat="3.12", plugins=("rabbitmq_amqp1_0",)) as node:
        client = await node.client()
        await client.publisher("/queue/q", 9)
        await client.publish("m", 9)
        await client.consumer("/queues/q")
        assert bodies(await client.received()) == ["m"]
        clock.advance(91)
        client.connection.check_consumer_timeout(90_000)
        (end,) = [one.performative for one in await client.frames()]
        assert end.error.condition == "amqp:precondition-failed"
        assert "timed out. Timeout value used: 90000 ms" in end.error.description
        other = await node.client()
        await other.consumer("/queues/q")
        assert bodies(await other.received()) == ["m"]


async def test_nothing_is_left_of_links_that_have_ended():
    async with Amqp10Node(compat="4.x") as node:
        client = await node.client()
        await client.publisher("/queue/q", 9)
        session = client.connection.incoming.sessions[0]
        before = node.queues()
        paired = Value("map", [(Value("symbol", "paired"), Value("boolean", True))])
        place = {"source": Source("/management"), "target": Target("/management")}
        temporary = ["temporary-queue"]
        for number in range(50):
            name = f"link {number}"
            for handle, request in enumerate([
                Attach(name, 0, SENDER, target=Target("/queues/q")),
                Attach(name, 0, RECEIVER, source=Source("/queues/q")),
                Attach(name, 0, SENDER, SETTLED, properties=paired, **place),
                Attach(name, 0, RECEIVER, SETTLED, properties=paired, **place),
                Attach(name, 0, SENDER, target=Target(dynamic=True, capabilities=temporary)),
                Attach(name, 0, RECEIVER, source=Source(dynamic=True, capabilities=temporary)),
            ]):  # fmt: skip
                answers = await client.answers(request._replace(handle=handle))
                assert not any(isinstance(one, Detach) for one in answers)
            for handle in (range(6), reversed(range(6)))[number % 2]:
                await client.answers(Detach(handle, True))
        assert (list(session.incoming), session.outgoing, session.pairs) == ([9], {}, {})
        assert (session.consumers, session.temporary_queues, node.queues()) == ({}, {}, before)
