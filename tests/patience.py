"""How long tests wait for what must come about.

It is no limit on speed: only what never comes takes so long, on a machine however busy.
"""

import asyncio
from collections.abc import Callable

PATIENCE_SECONDS = 240
"""A test waits for one thing at a time, not for hundreds of syncs of a busy disk."""
POLL_SECONDS = 0.005
OPERATION_MS = 60_000
"""How long a client's method may wait on the nodes of tests, where a busy machine makes it wait.
Tests of this limit have nodes with a clock of their own.
"""
LOOK_SECONDS = 0.05
"""Between two looks at a node. Each asks it by HTTP: more of them take the processor from it."""


async def until(condition: Callable[[], object]) -> None:
    """Wait for a condition, while the loop goes on."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not condition():
            await asyncio.sleep(POLL_SECONDS)
