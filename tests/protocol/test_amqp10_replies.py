"""AMQP 1.0: direct reply-to, also with clients of AMQP 0-9-1, and temporary queues."""

import asyncio
import re

import aio_pika
import pytest

from leveret.broker.amqp10.values import Value
from leveret.broker.config import Config
from leveret.broker.protocols.amqp10.performatives import (
    RECEIVER,
    SENDER,
    SETTLED,
    Accepted,
    Attach,
    Detach,
    Disposition,
    End,
    Source,
    Target,
)
from leveret.testing import EmbeddedBroker
from tests.protocol.amqp10_peer import Amqp10Node, Amqp10Peer, bodies, text


@pytest.fixture
async def node():
    async with Amqp10Node(compat="4.x", is_lone=True) as node:
        yield node


def reply_source(**changes):
    source = Source(
        expiry_policy="link-detach", dynamic=True, capabilities=["rabbitmq:volatile-queue"]
    )
    return source._replace(**changes)


async def requester(node, credit=10):
    """A client with a link for replies on handle 0, and the address of these."""
    client = await node.client()
    [answer] = await client.answers(
        Attach("replies", 0, RECEIVER, SETTLED, source=reply_source(), target=Target())
    )
    client.credit(0, credit)
    return client, answer.source


def outcomes(performatives):
    return [one.state for one in performatives if isinstance(one, Disposition)]


async def test_a_requester_gets_an_address_of_its_own(node):
    _, source = await requester(node)
    assert source.address.startswith("/queues/amq.rabbitmq.reply-to.")
    assert (source.dynamic, source.expiry_policy, source.timeout) == (True, "link-detach", 0)
    assert (source.distribution_mode, source.capabilities) == ("move", ["rabbitmq:volatile-queue"])
    _, other = await requester(node)
    assert source.address != other.address
    assert node.queues() == []


async def test_replies_by_the_anonymous_terminus_and_by_a_link(node):
    client, source = await requester(node)
    responder = await node.client()
    await responder.publisher(None, 0)
    await responder.publisher(source.address, 1)
    to = {"to": text(source.address), "correlation-id": Value("ulong", 7)}
    assert outcomes(await responder.publish("one", 0, properties=to)) == [Accepted()]
    assert outcomes(await responder.publish("two", 1)) == [Accepted()]
    received = await client.received()
    assert bodies(received) == ["one", "two"]
    assert [transfer.settled for transfer, _ in received] == [True, True]
    assert received[0][1].properties["correlation-id"] == Value("ulong", 7)


async def test_replies_without_credit_are_dropped(node):
    client, source = await requester(node, credit=1)
    responder = await node.client()
    await responder.publisher(source.address)
    assert outcomes(await responder.publish("one")) == [Accepted()]
    assert outcomes(await responder.publish("two")) == [Accepted()]
    client.credit(0, 10, delivery_count=1)
    assert bodies(await client.received()) == ["one"]
    assert node.broker.services.counts.discarded["volatile", "maxlen"] == 1


async def test_a_requester_that_is_gone_has_no_address(node):
    client, source = await requester(node)
    responder = await node.client()
    await responder.publisher(source.address, 1)
    assert await client.answers(Detach(0, True)) == [Detach(0, True)]
    assert outcomes(await responder.publish("late", 1)) == [Accepted()]
    _, detach = await responder.answers(Attach("l", 0, SENDER, target=Target(source.address)))
    assert detach.error.condition == "amqp:not-found"


async def test_replies_end_with_the_session(node):
    client, source = await requester(node)
    assert [type(one) for one in await client.answers(End())] == [End]
    responder = await node.client()
    _, detach = await responder.answers(Attach("l", 0, SENDER, target=Target(source.address)))
    assert detach.error.condition == "amqp:not-found"


@pytest.mark.parametrize(
    ("mode", "changes"),
    [
        (None, {}),
        (SETTLED, {"durable": 2}),
        (SETTLED, {"expiry_policy": None}),
        (SETTLED, {"timeout": 5}),
        (SETTLED, {"capabilities": ["other"]}),
    ],
)
async def test_links_that_cannot_be_for_replies(node, mode, changes):
    client = await node.client()
    source = reply_source(**changes)
    _, detach = await client.answers(Attach("l", 0, RECEIVER, mode, source=source, target=Target()))
    assert detach.error.condition == "amqp:not-implemented"
    assert detach.error.description.startswith("Dynamic source not supported: ")


@pytest.mark.parametrize("capabilities", [["temporary-queue"], None])
async def test_a_temporary_queue_is_deleted_with_its_link(node, capabilities):
    client = await node.client()
    source = Source(dynamic=True, capabilities=capabilities)
    [answer] = await client.answers(Attach("l", 0, RECEIVER, source=source, target=Target()))
    [name] = node.queues()
    assert answer.source.address == f"/queues/{name}"
    assert re.fullmatch(r"amq\.dyn-test-l-[\w-]{22}", name)
    await client.publisher(answer.source.address, 1)
    await client.publish("m", 1)
    client.credit(0, 10)
    assert bodies(await client.received()) == ["m"]
    await client.answers(Detach(0, True))
    assert node.queues() == []


def temporary(**changes):
    return Target(dynamic=True, capabilities=["temporary-queue"])._replace(**changes)


async def with_temporary_target(client):
    """Attach a link to a queue of its own on handle 0; returns the queue's address."""
    answer, _ = await client.answers(Attach("l", 0, SENDER, source=Source(), target=temporary()))
    assert (answer.target.dynamic, answer.target.expiry_policy) == (True, "link-detach")
    return answer.target.address


@pytest.mark.parametrize("last", [Detach(0, True), End(), Attach("m", 0, SENDER, target=Target())])
async def test_a_dynamic_target_is_a_queue_that_is_deleted_with_its_link(node, last):
    client = await node.client()
    address = await with_temporary_target(client)
    assert [f"/queues/{name}" for name in node.queues()] == [address]
    assert outcomes(await client.publish("m")) == [Accepted()]
    await client.consumer(address, 1)
    assert bodies(await client.received()) == ["m"]
    await client.answers(Detach(1, True))
    assert len(node.queues()) == 1
    await client.answers(last)
    assert node.queues() == []


async def test_a_dynamic_target_is_of_its_connection_only(node):
    address = await with_temporary_target(await node.client())
    other = await node.client()
    _, detach = await other.answers(Attach("l", 0, RECEIVER, source=Source(address)))
    assert detach.error.condition == "amqp:resource-locked"


@pytest.mark.parametrize("changes", [{"capabilities": ["other"]}, {"address": "/queues/q"}])
async def test_dynamic_targets_that_are_not_supported(node, changes):
    client = await node.client()
    _, detach = await client.answers(Attach("l", 0, SENDER, target=temporary(**changes)))
    assert detach.error.condition == "amqp:not-implemented"
    assert detach.error.description.startswith("Dynamic target not supported: ")


@pytest.mark.parametrize(("size", "prefix"), [(145, f"amq.dyn-test-{'l' * 145}"),
                                               (146, "amq.dyn.gen")])  # fmt: skip
async def test_long_names_of_links_are_not_in_the_names_of_their_queues(node, size, prefix):
    client = await node.client()
    await client.answers(Attach("l" * size, 0, SENDER, source=Source(), target=temporary()))
    [name] = node.queues()
    assert name[:-23] == prefix


@pytest.mark.parametrize(
    ("request_", "text"),
    [
        (Attach("l", 0, SENDER, target=temporary()), "Dynamic targets not supported"),
        (
            Attach("l", 0, RECEIVER, source=Source(dynamic=True, capabilities=["temporary-queue"])),
            "Dynamic sources not supported",
        ),
        (
            Attach("l", 0, RECEIVER, SETTLED, source=reply_source(), target=Target()),
            "Dynamic sources not supported",
        ),
    ],
)
async def test_a_node_as_rabbitmq_4_0_has_no_dynamic_links(request_, text):
    async with Amqp10Node() as node:
        client = await node.client()
        (end,) = await client.answers(request_)
    assert end.error[:2] == ("amqp:not-implemented", text)


async def test_addresses_of_replies_cannot_be_bound_since_4_3(embedded):
    channel = await channel_of_0_9_1(embedded)
    with pytest.raises(aio_pika.exceptions.ChannelClosed, match="ACCESS_REFUSED - cannot bind"):
        await channel.channel.queue_bind("amq.rabbitmq.reply-to.a", "amq.direct", "k")


@pytest.fixture
async def embedded():
    async with EmbeddedBroker(Config(compat="4.x")) as embedded:
        yield embedded


async def client_of_1_0(embedded):
    return await (await Amqp10Peer(embedded.broker).open()).begin()


async def channel_of_0_9_1(embedded):
    connection = await aio_pika.connect(embedded.url)
    return await connection.channel()


async def test_a_responder_of_amqp_0_9_1(embedded):
    channel = await channel_of_0_9_1(embedded)
    queue = await channel.declare_queue("requests", durable=True)
    client = await client_of_1_0(embedded)
    source = reply_source()
    [answer] = await client.answers(Attach("r", 0, RECEIVER, SETTLED, source=source))
    client.credit(0, 10)
    await client.publisher("/queues/requests", 1)
    properties = {"message-id": text("7"), "reply-to": text(answer.source.address)}
    await client.publish("question", 1, properties=properties)

    request = await queue.get(no_ack=True)
    assert f"/queues/{request.reply_to}" == answer.source.address
    await channel.declare_queue(request.reply_to, passive=True)
    reply = aio_pika.Message(b"answer", correlation_id=request.message_id)
    await channel.default_exchange.publish(reply, request.reply_to)
    [(_, message)] = await client.received()
    assert (message.data, message.properties["correlation-id"]) == (b"answer", text("7"))


async def test_a_requester_of_amqp_0_9_1(embedded):
    channel = await channel_of_0_9_1(embedded)
    await channel.declare_queue("requests", durable=True)
    replies = asyncio.Queue()
    pseudo_queue = await channel.get_queue("amq.rabbitmq.reply-to", ensure=False)
    await pseudo_queue.consume(replies.put, no_ack=True)
    request = aio_pika.Message(b"question", message_id="7", reply_to="amq.rabbitmq.reply-to")
    await channel.default_exchange.publish(request, "requests")

    client = await client_of_1_0(embedded)
    await client.consumer("/queues/requests")
    [(_, message)] = await client.received()
    address = message.properties["reply-to"].value
    assert address.startswith("/queues/amq.rabbitmq.reply-to.")
    await client.publisher(None, 1)
    answered = await client.publish("answer", 1, properties={"to": text(address)})
    assert outcomes(answered) == [Accepted()]
    assert (await replies.get()).body == b"answer"
