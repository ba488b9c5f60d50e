"""Messages of one read that differ in their properties: each is treated as if it came alone."""

import asyncio
from dataclasses import replace

import pytest
from pamqp import commands

from leveret.broker.amqp.field_table import encode_table
from leveret.broker.declarations.values import PutBinding, PutQueue
from leveret.broker.runtime.names import QUEUE
from leveret.broker.runtime.virtual_clock import VirtualClock
from tests.protocol.raw_client import method_bytes, publish_bytes
from tests.protocol.socketless import Node

NO_TABLE = b"\0\0\0\0"
PRIORITIES = encode_table({"x-max-priority": ("I", 5)})


def declare(node, name="q", durable=False, arguments=NO_TABLE):
    submit = node.broker.services.declarations.submit
    submit(PutQueue("/", name, durable, False, arguments)).result()
    return node.vhost.queues[name]


def messages_in(queue):
    cursor, found = queue.backing.cursor(), []
    while entries := cursor.read(1 << 30):
        found += [entry.message for entry in entries]
    return found


async def all_read(node, *clients):
    async for _ in node.turns(*clients):
        pass


async def test_order_and_properties_stay():
    async with Node() as node:
        queue, (client,) = declare(node), node.clients(1)
        varied = [
            {"delivery_mode": 1 + number % 2, "message_id": str(number), "priority": number % 3}
            for number in range(50)
        ]
        for number, properties in enumerate(varied):
            client.send(publish_bytes(1, "q", b"x" * number, **properties))
        await all_read(node, client)
        found = messages_in(queue)
        assert [len(message.body) for message in found] == list(range(50))
        assert [message.header.properties for message in found] == varied


async def test_each_priority_has_its_place():
    async with Node() as node:
        queue, (client,) = declare(node, arguments=PRIORITIES), node.clients(1)
        for number, priority in enumerate([1, 1, 5, 0, 5, 1]):
            client.send(publish_bytes(1, "q", b"%d" % number, priority=priority))
        await all_read(node, client)
        assert [message.body for message in messages_in(queue)] == [
            b"2", b"4", b"0", b"1", b"5", b"3",
        ]  # fmt: skip


async def test_only_messages_with_an_expiration_expire():
    async with Node(VirtualClock()) as node:
        queue, (client,) = declare(node), node.clients(1)
        for number in range(6):
            expires = {"expiration": "100"} if number % 2 else {}
            client.send(publish_bytes(1, "q", b"%d" % number, **expires))
        await all_read(node, client)
        node.broker.services.clock.advance(1)
        client.send_method(commands.Basic.Consume, queue="q", no_ack=True)
        await all_read(node, client)
        assert client.channel.counts.delivered_no_ack == 3
        assert queue.backing.ready_count == 0


async def test_messages_of_one_read_have_each_their_own_time_to_live():
    async with Node(VirtualClock()) as node:
        queue, (client,) = declare(node), node.clients(1)
        client.send_method(commands.Confirm.Select)
        lives_ms = [300, 100, 100, 0, 500]
        client.send(b"".join(
            publish_bytes(1, "q", b"x", expiration=str(ttl_ms), message_id=str(number))
            for number, ttl_ms in enumerate(lives_ms)
        ))  # fmt: skip
        await all_read(node, client)
        now_ms = node.broker.services.clock.now_ms()
        entries = queue.backing.cursor().read(1 << 30)
        assert [entry.expires_at_ms - now_ms for entry in entries] == lives_ms
        counts = client.channel.message_counts()
        assert (counts.published, counts.routed, counts.confirmed) == (5, 5, 5)


async def test_confirms_count_every_message():
    async with Node() as node:
        declare(node, "durable", durable=True)
        (client,) = node.clients(1)
        client.send_method(commands.Confirm.Select)
        for number in range(20):
            mode = 2 if number % 3 else 1
            client.send(publish_bytes(1, "durable", delivery_mode=mode, message_id=str(number)))
        await all_read(node, client)
        confirms = client.channel.confirms
        assert (confirms.published, confirms.unconfirmed_count) == (20, 0)


async def test_what_comes_before_malformed_properties_is_published():
    async with Node() as node:
        queue, (client,) = declare(node), node.clients(1)
        broken = bytearray(publish_bytes(1, "q", b"2", message_id="abc"))
        broken[broken.index(b"\3abc")] = 99
        client.send(publish_bytes(1, "q", b"0") + publish_bytes(1, "q", b"1", type="x"))
        client.send(bytes(broken) + publish_bytes(1, "q", b"3"))
        await all_read(node, client)
        assert [message.body for message in messages_in(queue)] == [b"0", b"1"]
        assert client.connection.ending.has_begun


async def test_what_comes_before_a_message_that_is_refused_is_published():
    async with Node() as node:
        queue, (client,) = declare(node), node.clients(1)
        sent = [b"0", b"1", b"2"]
        properties = [{}, {"user_id": "somebody"}, {}]
        for body, one in zip(sent, properties, strict=True):
            client.send(publish_bytes(1, "q", body, **one))
        await all_read(node, client)
        assert [message.body for message in messages_in(queue)] == [b"0"]
        assert client.channel.is_closing


async def test_a_run_that_is_split_over_turns_keeps_its_order():
    async with Node() as node:
        submit = node.broker.services.declarations.submit
        queues = []
        for number in range(60):
            queues.append(declare(node, str(number)))
            submit(PutBinding("/", "amq.fanout", str(number), "", QUEUE, NO_TABLE)).result()
        (client,) = node.clients(1)
        for number in range(900):
            properties = {"message_id": str(number), "delivery_mode": 1 + number // 7 % 2}
            client.send(publish_bytes(1, "", b"%d" % number, "amq.fanout", **properties))
        await all_read(node, client)
        for queue in (queues[0], queues[-1]):
            assert [message.body for message in messages_in(queue)] == [
                b"%d" % number for number in range(900)
            ]


@pytest.mark.parametrize("is_transactional", [False, True])
async def test_acks_of_one_read(is_transactional):
    async with Node() as node:
        queue, (client,) = declare(node), node.clients(1)
        client.send(b"".join(publish_bytes(1, "q", b"%d" % number) for number in range(10)))
        if is_transactional:
            client.send_method(commands.Tx.Select)
        client.send_method(commands.Basic.Consume, queue="q")
        await all_read(node, client)
        for tag in (3, 1, 2, 5):
            client.send_method(commands.Basic.Ack, delivery_tag=tag)
        client.send_method(commands.Basic.Ack, delivery_tag=7, multiple=True)
        client.send_method(commands.Basic.Ack, delivery_tag=9)
        if is_transactional:
            client.send_method(commands.Tx.Commit)
        await all_read(node, client)
        assert sorted(client.channel.unacked.records) == [8, 10]
        assert queue.backing.unacked_count == 2


async def test_an_ack_of_an_unknown_tag_between_others():
    async with Node() as node:
        queue, (client,) = declare(node), node.clients(1)
        client.send(b"".join(publish_bytes(1, "q", b"%d" % number) for number in range(4)))
        client.send_method(commands.Basic.Consume, queue="q")
        await all_read(node, client)
        for tag in (1, 99, 2):
            client.send(method_bytes(1, commands.Basic.Ack, delivery_tag=tag))
        await all_read(node, client)
        assert client.channel.is_closing
        # The first is settled, the others have gone back to the queue.
        assert [message.body for message in messages_in(queue)] == [b"1", b"2", b"3"]


async def test_a_publisher_that_outruns_its_consumers_is_not_read_until_they_have_caught_up():
    async with Node(VirtualClock()) as node:
        queue, (publisher, consumer) = declare(node), node.clients(2)
        consumer.send_method(commands.Basic.Qos, prefetch_count=100)
        consumer.send_method(commands.Basic.Consume, queue="q")
        await all_read(node, consumer)
        publisher.send(b"".join(publish_bytes(1, "q") for _ in range(5000)))
        publisher.be_read()
        await all_read(node)
        ready = queue.backing.ready_count
        publisher.be_read()
        await all_read(node)
        assert not publisher.socket.is_read
        assert publisher.connection.publishing_state == "flow"
        while queue.backing.ready_count > ready // 2:
            consumer.send_method(commands.Basic.Ack, delivery_tag=0, multiple=True)
            await all_read(node, consumer)
        assert publisher.socket.is_read
        assert publisher.connection.publishing_state == "running"


class EachTopicAsked:
    """Permits everything, and answers questions about topics in a later turn."""

    def may_use(self, *_question):
        return True

    async def may_use_topic(self, *_question):
        await asyncio.sleep(0)
        return True


class OneTopicRefused:
    """Permits everything but one topic."""

    def may_use(self, *_question):
        return True

    def may_use_topic(self, _identity, _vhost, _exchange, routing_key, _permission):
        return routing_key != "secret"


def topic_rig(node, authorization):
    """A queue with all messages of amq.topic, and a client whose permissions are asked there."""
    queue = declare(node)
    submit = node.broker.services.declarations.submit
    submit(PutBinding("/", "amq.topic", "q", "#", QUEUE, NO_TABLE)).result()
    (client,) = node.clients(1)
    client.connection.user = replace(client.connection.user, authorization=authorization)
    return queue, client


def copied(key):
    return {"headers": {"CC": ("A", [("S", key)])}}


@pytest.mark.parametrize("is_closed", [False, True])
async def test_a_run_that_waits_for_permissions_again_stays_before_what_follows(is_closed):
    async with Node() as node:
        queue, client = topic_rig(node, EachTopicAsked())
        has_copies = [True, True, False, True, False, False, False]
        sent = [
            publish_bytes(1, "k", b"", "amq.topic", message_id=str(number),
                          **(copied("other") if is_copied else {}))
            for number, is_copied in enumerate(has_copies)
        ]  # fmt: skip
        for read in (sent[:1], sent[1:5], sent[5:]):
            client.send(b"".join(read))
            client.be_read()
        if is_closed:
            arguments = {"reply_code": 200, "reply_text": "", "class_id": 0, "method_id": 0}
            client.send_method(commands.Channel.Close, **arguments)
            client.be_read()
        while queue.backing.ready_count < 7:
            await asyncio.sleep(0)
        assert [message.header.properties["message_id"] for message in messages_in(queue)] == [
            str(number) for number in range(7)
        ]


async def test_copies_that_are_refused_refuse_no_message_before_them():
    async with Node() as node:
        queue, client = topic_rig(node, OneTopicRefused())
        for body, key in ((b"0", "a"), (b"1", "b"), (b"2", "secret"), (b"3", "c")):
            client.send(publish_bytes(1, "k", body, "amq.topic", **copied(key)))
        await all_read(node, client)
        assert [message.body for message in messages_in(queue)] == [b"0", b"1"]
        assert client.channel.is_closing


async def outrunning(node):
    """A queue with a consumer without room, a consumer, and a publisher that is not read."""
    queue, (publisher, consumer) = declare(node), node.clients(2)
    consumer.send_method(commands.Basic.Qos, prefetch_count=100)
    consumer.send_method(commands.Basic.Consume, queue="q", consumer_tag="c")
    await all_read(node, consumer)
    for _ in range(2):
        publisher.send(b"".join(publish_bytes(1, "q") for _ in range(1500)))
        publisher.be_read()
        await all_read(node)
    assert not publisher.socket.is_read
    return queue, publisher, consumer


@pytest.mark.parametrize(
    ("method", "arguments"),
    [
        (commands.Basic.Cancel, {"consumer_tag": "c"}),
        (commands.Queue.Purge, {"queue": "q"}),
        (commands.Queue.Delete, {"queue": "q"}),
    ],
)
async def test_a_publisher_is_read_when_there_is_nothing_to_wait_for(method, arguments):
    async with Node(VirtualClock()) as node:
        _, publisher, consumer = await outrunning(node)
        consumer.send_method(method, **arguments)
        await all_read(node, consumer)
        assert publisher.socket.is_read


async def test_a_publisher_that_is_closed_is_read():
    async with Node(VirtualClock()) as node:
        _, publisher, _ = await outrunning(node)
        publisher.connection.force_close("it is time")
        assert publisher.socket.is_read


async def test_a_connection_that_consumes_is_read_whatever_it_publishes():
    async with Node(VirtualClock()) as node:
        queue, (client,) = declare(node), node.clients(1)
        client.send_method(commands.Basic.Qos, prefetch_count=100)
        client.send_method(commands.Basic.Consume, queue="q")
        for _ in range(3):
            client.send(b"".join(publish_bytes(1, "q") for _ in range(1500)))
            await all_read(node, client)
        assert queue.backing.ready_count == 4400
        assert client.socket.is_read


NUMBERS = [b"%d" % number for number in range(20)]


@pytest.mark.parametrize("are_routes_changed", [False, True])
async def test_a_transaction_keeps_the_messages_of_a_read_as_a_run(are_routes_changed):
    """What is declared before the commit counts: until then nothing is routed."""
    async with Node() as node:
        queue, (client,) = declare(node), node.clients(1)
        client.send_method(commands.Tx.Select)
        client.send(b"".join(publish_bytes(1, "q", body, type=body.decode()) for body in NUMBERS))
        await all_read(node, client)
        transaction = client.channel.transaction
        # A run of which it is not known yet where it goes is cut once.
        assert len(transaction.publishes) <= 2
        assert transaction.publish_count == len(NUMBERS)
        assert not messages_in(queue)
        if are_routes_changed:
            declare(node, "another")
        client.send_method(commands.Tx.Commit)
        await all_read(node, client)
        assert [message.body for message in messages_in(queue)] == NUMBERS
        assert client.channel.transaction.publish_count == 0
