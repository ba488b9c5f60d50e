"""Opening a port for an aiohttp application."""

from ssl import SSLContext

from aiohttp import web

from leveret.broker.config import Listener


async def listen(runner: web.AppRunner, listener: Listener, context: SSLContext | None) -> Listener:
    """Set a runner up and open its port; where it listens. Raises OSError. context: for TLS."""
    await runner.setup()
    site = web.TCPSite(
        runner, listener.host, listener.port, ssl_context=context, reuse_address=True
    )
    await site.start()
    address = runner.addresses[0]
    return Listener(address[0], address[1])
