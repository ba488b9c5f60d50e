"""No turn of the event loop is long, though a client settles very many deliveries at once.

The calls that Python makes in a turn are counted, as in test_long_turns.py.
"""

import pytest
from pamqp import commands

from leveret.broker.queues.contract.publication import publication_of
from leveret.storage.messages.message import Message
from tests.protocol.long_turns import CALLS_MAX, bodies, declare, numbered
from tests.protocol.raw_client import method_bytes
from tests.protocol.socketless import Node, most
from tests.unit.broker.queues.fakes import ADDRESS, HEADER

HELD = 20_000


async def holding(node, *methods):
    """A queue, and a client that holds all of its messages. Its consumer is cancelled.

    methods: are sent by the client first.
    """
    (queue,) = declare(node, "q")
    messages = [Message(ADDRESS, HEADER, b"%06d" % number) for number in range(HELD)]
    queue.publish(publication_of(messages))
    (client,) = node.clients(1)
    for method in methods:
        client.send_method(method)
    client.send_method(commands.Basic.Consume, queue="q", consumer_tag="c")
    async for _ in node.turns(client):
        pass
    client.send_method(commands.Basic.Cancel, consumer_tag="c", nowait=True)
    async for _ in node.turns(client):
        pass
    assert (queue.backing.ready_count, queue.backing.unacked_count) == (0, HELD)
    return queue, client


@pytest.mark.parametrize(
    "settling",
    [
        (commands.Basic.Ack, {"delivery_tag": HELD, "multiple": True}),
        (commands.Basic.Ack, {"delivery_tag": 0, "multiple": True}),
        (commands.Basic.Nack, {"delivery_tag": 0, "multiple": True, "requeue": True}),
        (commands.Basic.Recover, {"requeue": True}),
        (commands.Channel.Close, {"reply_code": 200}),
    ],
)
async def test_one_method_that_settles_many_deliveries(settling):
    async with Node() as node:
        queue, client = await holding(node)
        method, arguments = settling
        client.send_method(method, **arguments)
        assert await most(node.turns(client)) < CALLS_MAX
        assert queue.backing.unacked_count == 0
        is_acked = method is commands.Basic.Ack
        wanted = [] if is_acked else [b"%06d" % number for number in range(HELD)]
        assert bodies(queue) == wanted


async def test_a_client_that_ends_with_many_deliveries():
    async with Node() as node:
        queue, client = await holding(node)
        assert await most(node.turns(after=client.disconnect)) < CALLS_MAX
        assert bodies(queue) == [b"%06d" % number for number in range(HELD)]


async def test_what_follows_an_ack_of_many_comes_after_it():
    async with Node() as node:
        queue, client = await holding(node)
        client.send_method(commands.Basic.Ack, delivery_tag=HELD - 1, multiple=True)
        client.send_method(commands.Basic.Recover, requeue=True)
        client.send(method_bytes(0, commands.Connection.Close, reply_code=200))
        async for _ in node.turns(client):
            pass
        assert bodies(queue) == [b"%06d" % (HELD - 1)]
        assert queue.backing.unacked_count == 0


async def test_an_ack_of_many_up_to_a_tag_that_is_not_open():
    async with Node() as node:
        queue, client = await holding(node)
        client.send_method(commands.Basic.Ack, delivery_tag=HELD + 1, multiple=True)
        async for _ in node.turns(client):
            pass
        assert b"unknown delivery tag" in client.socket.written
        assert queue.backing.ready_count == HELD


async def test_a_commit_of_many_messages():
    async with Node() as node:
        (queue,) = declare(node, "q")
        (client,) = node.clients(1)
        client.send_method(commands.Tx.Select)
        client.send(numbered(3000, routing_key="q"))
        async for _ in node.turns(client):
            pass
        client.send_method(commands.Tx.Commit)
        assert await most(node.turns(client)) < CALLS_MAX
        assert queue.backing.ready_count == 3000
        assert client.socket.written.endswith(method_bytes(1, commands.Tx.CommitOk))


SETTLINGS = [
    (commands.Basic.Ack, {}),
    (commands.Basic.Nack, {"requeue": True}),
    (commands.Basic.Nack, {"requeue": False}),
]


@pytest.mark.parametrize("settling", SETTLINGS)
@pytest.mark.parametrize("at_once", [1, HELD])
async def test_a_commit_of_many_settlements(settling, at_once):
    async with Node() as node:
        queue, client = await holding(node, commands.Tx.Select)
        method, arguments = settling
        for tag in range(at_once, HELD + 1, at_once):
            client.send_method(method, delivery_tag=tag, multiple=at_once > 1, **arguments)
        assert await most(node.turns(client)) < CALLS_MAX
        assert queue.backing.unacked_count == HELD
        client.send_method(commands.Tx.Commit)
        assert await most(node.turns(client)) < CALLS_MAX
        assert queue.backing.unacked_count == 0
        assert queue.backing.ready_count == (HELD if arguments.get("requeue") else 0)
        assert client.socket.written.endswith(method_bytes(1, commands.Tx.CommitOk))


@pytest.mark.parametrize("at_once", [1, HELD])
async def test_a_rollback_of_many_settlements(at_once):
    async with Node() as node:
        queue, client = await holding(node, commands.Tx.Select)
        (other,) = node.clients(1)
        for tag in range(at_once, HELD + 1, at_once):
            client.send_method(commands.Basic.Ack, delivery_tag=tag, multiple=at_once > 1)
        async for _ in node.turns(client):
            pass
        client.send_method(commands.Tx.Rollback)
        other.send_method(commands.Queue.Declare, queue="other")
        rolled_back = method_bytes(1, commands.Tx.RollbackOk)
        served_before = False
        async for calls in node.turns(client, other):
            assert calls < CALLS_MAX
            served_before |= (
                "other" in node.vhost.queues and rolled_back not in client.socket.written
            )
        assert served_before
        assert client.socket.written.endswith(rolled_back)
        assert [tag for tag, _ in client.channel.unacked] == list(range(1, HELD + 1))
        client.send_method(commands.Basic.Ack, delivery_tag=HELD, multiple=True)
        client.send_method(commands.Tx.Commit)
        async for _ in node.turns(client):
            pass
        assert queue.backing.unacked_count == 0


async def test_a_client_that_ends_while_its_settlements_are_rolled_back():
    async with Node() as node:
        queue, client = await holding(node, commands.Tx.Select)
        client.send_method(commands.Basic.Ack, delivery_tag=0, multiple=True)
        client.send(numbered(3000, routing_key="q"))
        async for _ in node.turns(client):
            pass
        client.send_method(commands.Tx.Rollback)
        client.be_read()
        assert not client.is_done
        assert await most(node.turns(after=client.disconnect)) < CALLS_MAX
        assert bodies(queue) == [b"%06d" % number for number in range(HELD)]


async def test_a_client_that_ends_while_its_settlements_are_committed():
    async with Node() as node:
        queue, client = await holding(node, commands.Tx.Select)
        client.send_method(commands.Basic.Ack, delivery_tag=0, multiple=True)
        async for _ in node.turns(client):
            pass
        client.send_method(commands.Tx.Commit)
        await anext(node.turns(client))
        settled = HELD - queue.backing.unacked_count
        assert 0 < settled < HELD
        client.disconnect()
        async for _ in node.turns():
            pass
        assert bodies(queue) == [b"%06d" % number for number in range(settled, HELD)]
