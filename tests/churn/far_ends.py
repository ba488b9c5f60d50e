"""What a shovel or a link may find behind an address, as async context managers of a URI."""

import asyncio
from contextlib import asynccontextmanager

LOOPBACK = "127.0.0.1"


@asynccontextmanager
async def this_node():
    yield "amqp://"


@asynccontextmanager
async def its_other_vhost():
    yield "amqp:///up"


@asynccontextmanager
async def nobody():
    """No server listens."""
    yield f"amqp://{LOOPBACK}:1"


class Closing(asyncio.Protocol):
    """Closes each connection at once."""

    def connection_made(self, transport):
        transport.close()


@asynccontextmanager
async def closing_server():
    async with _serving(Closing) as uri:
        yield uri


@asynccontextmanager
async def silent_server():
    """Never sends anything."""
    async with _serving(asyncio.Protocol) as uri:
        yield uri


@asynccontextmanager
async def _serving(protocol):
    server = await asyncio.get_running_loop().create_server(protocol, LOOPBACK, 0)
    try:
        yield f"amqp://{LOOPBACK}:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        await server.wait_closed()
