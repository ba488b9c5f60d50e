"""A server that does not answer: the connection ends, and says what was not answered."""

import asyncio

import pytest
from pamqp import commands

from leveret.broker.moving.client.address import ServerAddress
from leveret.broker.moving.client.ended import ConnectionClosed
from tests.unit.broker.moving.client.fakes import Server

SECONDS = 60
ADDRESS = ServerAddress("rabbit.example", heartbeat_s=0, connection_timeout_s=SECONDS)
NO_HEARTBEAT = {"heartbeat": 0}


async def calling(server):
    """A method that was sent, and awaits its answer."""
    channel = await server.open_channel()
    call = asyncio.ensure_future(channel.call(commands.Queue.Declare, queue="q"))
    await server.received()
    return call


async def test_a_method_that_is_not_answered_ends_the_connection():
    server = await Server(ADDRESS).open(**NO_HEARTBEAT)
    call = await calling(server)
    server.clock.advance(SECONDS - 1)
    assert not server.connection.closed.done()
    server.clock.advance(1)
    with pytest.raises(ConnectionClosed, match="does not answer queue.declare within 60 s"):
        await call
    assert server.socket.ended == "aborted"


async def test_a_close_that_is_not_answered_ends_the_connection():
    server = await Server(ADDRESS).open(**NO_HEARTBEAT)
    channel = await server.open_channel()
    closing = asyncio.ensure_future(channel.close())
    await server.received()
    server.clock.advance(SECONDS)
    await closing
    assert "does not answer channel.close" in server.connection.closed.result().text


async def test_an_answer_ends_the_wait():
    server = await Server(ADDRESS).open(**NO_HEARTBEAT)
    call = await calling(server)
    server.send(1, commands.Queue.DeclareOk, queue="q", message_count=0, consumer_count=0)
    await call
    server.clock.advance(2 * SECONDS)
    assert server.connection.is_open


async def test_while_nothing_is_read_no_answer_is_late():
    server = await Server(ADDRESS).open(**NO_HEARTBEAT)
    call = await calling(server)
    server.connection.pause_reading()
    server.clock.advance(SECONDS)
    server.connection.resume_reading()
    assert server.connection.is_open
    server.clock.advance(SECONDS)
    with pytest.raises(ConnectionClosed):
        await call


async def test_while_the_server_blocks_publishes_no_answer_is_late():
    server = await Server(ADDRESS).open(**NO_HEARTBEAT)
    call = await calling(server)
    server.send(0, commands.Connection.Blocked, reason="low on memory")
    server.clock.advance(2 * SECONDS)
    assert server.connection.is_open
    server.send(0, commands.Connection.Unblocked)
    server.clock.advance(SECONDS)
    with pytest.raises(ConnectionClosed):
        await call
