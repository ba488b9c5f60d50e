"""Opening a connection that is cancelled: it is closed, whatever round of the event loop it is."""

import asyncio

import pytest
import uvloop
from pamqp import commands

from leveret.broker.amqp.methods import method_frame
from leveret.broker.moving.client.address import ServerAddress
from leveret.broker.moving.client.connection import ClientConnection
from tests.unit.broker.moving.client.fakes import ADDRESS, START, Server

ROUNDS = 40


class Greeting(asyncio.Protocol):
    """A server that greets, and says nothing more."""

    def connection_made(self, transport):
        transport.write(method_frame(0, commands.Connection.Start, **START))


async def cancelled_after(rounds):
    """Open a connection, and cancel that after a number of rounds of the loop."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Greeting, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        opening = loop.create_task(ClientConnection.open(ServerAddress("127.0.0.1", port), {}))
        for _ in range(rounds):
            await asyncio.sleep(0)
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening


@pytest.mark.parametrize("rounds", range(ROUNDS))
def test_it_is_cancelled_and_nothing_else(rounds):
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(cancelled_after(rounds))


async def test_a_connection_that_is_open_before_its_cancelled_opener_knows_is_closed():
    servers = []
    opening = asyncio.create_task(
        ClientConnection.open(
            ADDRESS, {}, connect=lambda connection: servers.append(Server(connection=connection))
        )
    )
    await asyncio.sleep(0)
    (server,) = servers
    await server.open()
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    assert server.socket.ended
