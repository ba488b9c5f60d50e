"""An aiohttp application in a thread of its own, for brokers to ask."""

import asyncio
import threading
from contextlib import contextmanager

from aiohttp import web


@contextmanager
def served(application):
    """Its address, as long as the block lasts."""
    loop = asyncio.new_event_loop()
    runner = web.AppRunner(application)

    async def start():
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        return runner.addresses[0][1]

    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    port = asyncio.run_coroutine_threadsafe(start(), loop).result(10)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        asyncio.run_coroutine_threadsafe(runner.cleanup(), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
