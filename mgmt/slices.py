"""Long work in slices, so that deliveries do not wait for it."""

import asyncio
from collections.abc import Awaitable, Callable
from time import perf_counter

SLICE_SECONDS = 0.002

GiveWay = Callable[[], Awaitable[None]]
"""Lets the node do its other work, if the slice has lasted long enough."""


class Slices:
    """Whoever works long calls `give_way` after each little piece; all share the same slices."""

    def __init__(self) -> None:
        self._ends = 0.0

    async def give_way(self) -> None:
        """Let others work, if this slice has lasted long enough."""
        if perf_counter() > self._ends:
            await asyncio.sleep(0)
            self._ends = perf_counter() + SLICE_SECONDS
