"""No turn of the event loop is long, though a queue or a channel has very many consumers, or a
connection very many channels.

The calls that Python makes in a turn are counted, as in test_long_turns.py.
"""

import pytest
from pamqp import commands

from leveret.broker.declarations.values import DeleteQueue
from tests.protocol.long_turns import declare, numbered
from tests.protocol.raw_client import method_bytes
from tests.protocol.socketless import Node, most

CONSUMERS, CALLS_MAX = 3000, 30_000
"""A turn of this many calls takes 5 to 8 ms."""


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


CHANNELS, HELD = 1000, 3
"""Of one client, and what each has: consumers, and unacknowledged messages of each."""


async def with_channels(node):
    """A client whose channels have consumers, all of which hold messages of a queue."""
    (queue,) = declare(node, "q")
    client, publisher = node.clients(2)
    for channel in range(1, CHANNELS + 1):
        if channel > 1:
            client.send(method_bytes(channel, commands.Channel.Open))
        client.send(method_bytes(channel, commands.Basic.Qos, prefetch_count=HELD))
        for tag in map(str, range(HELD)):
            consume = {"queue": "q", "consumer_tag": tag, "nowait": True}
            client.send(method_bytes(channel, commands.Basic.Consume, **consume))
    publisher.send(numbered(CHANNELS * HELD * HELD, routing_key="q"))
    async for _ in node.turns(client, publisher):
        pass
    assert queue.backing.unacked_count == CHANNELS * HELD * HELD
    return queue, client


@pytest.mark.parametrize("is_closed", [True, False])
async def test_a_connection_ends_with_very_many_channels(is_closed):
    async with Node() as node:
        queue, client = await with_channels(node)
        names = heard(node)
        if is_closed:
            client.send(method_bytes(0, commands.Connection.Close, reply_code=200))
            turns = node.turns(client)
        else:
            turns = node.turns(after=client.disconnect)
        assert await most(turns) < CALLS_MAX
        assert not queue.ring.consumers
        assert (queue.backing.unacked_count, queue.backing.ready_count) == (0, CHANNELS * HELD**2)
        assert names.count("channel.closed") == CHANNELS
        assert names.count("consumer.deleted") == CHANNELS * HELD


async def test_ended_channels_get_nothing_though_they_are_not_released_yet():
    async with Node() as node:
        queue, client = await with_channels(node)
        (publisher,) = node.clients(1)
        client.send(method_bytes(0, commands.Connection.Close, reply_code=200))
        publisher.send(numbered(CHANNELS, routing_key="q"))
        turns = node.turns(client, publisher)
        await anext(turns)
        assert queue.ring.consumers
        async for _ in turns:
            pass
        assert client.socket.written.endswith(method_bytes(0, commands.Connection.CloseOk))
        assert queue.backing.ready_count == CHANNELS * (HELD**2 + 1)
