"""Runs an aiohttp application for brokers to query: in a thread, or in the test's loop."""

import asyncio
import threading
from contextlib import asynccontextmanager, contextmanager

from aiohttp import web

from tests.patience import PATIENCE_SECONDS


@contextmanager
def served(application):
    """Return its address; it runs during the block."""
    loop = asyncio.new_event_loop()
    runner = web.AppRunner(application, shutdown_timeout=1)

    async def start():
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        return runner.addresses[0][1]

    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    port = asyncio.run_coroutine_threadsafe(start(), loop).result(PATIENCE_SECONDS)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        asyncio.run_coroutine_threadsafe(runner.cleanup(), loop).result(PATIENCE_SECONDS)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(PATIENCE_SECONDS)


@asynccontextmanager
async def serving(application, context=None):
    """Return its address; it runs during the block. context: for TLS."""
    runner = web.AppRunner(application, shutdown_timeout=1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
    scheme = "https" if context else "http"
    try:
        yield f"{scheme}://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()
