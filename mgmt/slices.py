"""Long work in slices, between which the event loop serves clients."""

import asyncio
from collections.abc import Awaitable, Callable
from time import perf_counter

SLICE_SECONDS = 0.002

GiveWay = Callable[[], Awaitable[None]]
"""Ends the slice if it has lasted `SLICE_SECONDS`, and lets the event loop do its other work."""


class Slices:
    """Long work calls `give_way` after each small step. Users of one object share its slices."""

    def __init__(self) -> None:
        self._ends = 0.0

    async def give_way(self) -> None:
        """End the slice if it has lasted `SLICE_SECONDS`."""
        if perf_counter() > self._ends:
            await asyncio.sleep(0)
            self._ends = perf_counter() + SLICE_SECONDS
