"""No turn of the event loop is long, though a queue or a channel has very many consumers.

The calls that Python makes in a turn are counted, as in test_long_turns.py.
"""

import pytest
from pamqp import commands

from leveret.broker.declarations import DeleteQueue
from tests.protocol.long_turns import declare, numbered
from tests.protocol.raw_client import method_bytes
from tests.protocol.socketless import Node, most

CONSUMERS, CALLS_MAX = 3000, 30_000
"""A turn of so many calls takes 5 to 8 ms."""


async def consuming(node):
    """A queue, and a client with very many consumers of it on one channel."""
    (queue,) = declare(node, "q")
    (client,) = node.clients(1)
    for tag in map(str, range(CONSUMERS)):
        client.send_method(commands.Basic.Consume, queue="q", consumer_tag=tag, nowait=True)
    async for _ in node.turns(client):
        pass
    assert len(queue.ring.consumers) == CONSUMERS
    return queue, client


def heard(node):
    """The names of all events from now on."""
    names = []
    node.broker.services.events.listen(lambda event: names.append(event["event"]))
    return names


@pytest.mark.parametrize("is_closed", [True, False])
async def test_a_channel_ends_with_very_many_consumers(is_closed):
    async with Node() as node:
        queue, client = await consuming(node)
        names = heard(node)
        if is_closed:
            client.send_method(commands.Channel.Close, reply_code=200)
            turns = node.turns(client)
        else:
            turns = node.turns(after=client.disconnect)
        assert await most(turns) < CALLS_MAX
        assert not queue.ring.consumers
        ended = [name for name in names if name != "connection.closed"]
        assert ended == [*["consumer.deleted"] * CONSUMERS, "channel.closed"]


async def test_an_ended_channel_gets_nothing_though_it_has_consumers_left():
    async with Node() as node:
        queue, client = await consuming(node)
        (publisher,) = node.clients(1)
        client.send_method(commands.Channel.Close, reply_code=200)
        publisher.send(numbered(CONSUMERS, routing_key="q"))
        turns = node.turns(client, publisher)
        await anext(turns)
        assert queue.ring.consumers
        written = len(client.socket.written)
        async for _ in turns:
            pass
        assert client.socket.written[written:] in (b"", method_bytes(1, commands.Channel.CloseOk))
        assert queue.backing.ready_count == CONSUMERS


async def test_a_queue_is_deleted_that_has_very_many_consumers():
    async with Node() as node:
        _, client = await consuming(node)
        submit = node.broker.services.declarations.submit
        turns = node.turns(after=lambda: submit(DeleteQueue("/", "q")))
        assert await most(turns) < CALLS_MAX
        assert not client.channel.consumers
