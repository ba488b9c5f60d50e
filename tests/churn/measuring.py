"""What is left of objects that were declared, used and deleted.

A window is a number of cycles, of which nothing is to be left when it has ended. Two figures, by
cycle, are exact whatever else the machine does:

kept        blocks of memory (`sys.getallocatedblocks`) that are there after the window, and were
            not before it. Who keeps one object a cycle has at least 1.
in cycles   objects that only a collection of garbage frees. A node with many objects looks at few
            of them (broker/resources/garbage_collections.py), so these may stay, too.

What fills a table, or is made once, is in some windows; what leaks is in each of them. So windows
are repeated until memory is flat since the begin of one of them, or there were `WINDOWS_MAX`.
"""

import asyncio
import gc
import sys
from collections import Counter
from typing import NamedTuple

WINDOWS_MAX = 6
KEPT_MAX, IN_CYCLES_MAX = 0.8, 0.5
"""A leak has 1 or more."""
POLL_SECONDS, STILL_POLLS = 0.01, 3
"""The node has come to rest when this many looks in a row find no fewer blocks."""
TYPES_SHOWN = 6


class Left(NamedTuple):
    """What is left, by cycle, and of which types it is if that is too much.

    What the warm-up has left may be freed in a window, and hide what that leaves.
    """

    kept: float
    in_cycles: float
    kept_types: str = ""
    cycle_types: str = ""

    @property
    def is_flat(self):
        return abs(self.kept) < KEPT_MAX and self.in_cycles < IN_CYCLES_MAX

    def __str__(self):
        told = f"{self.kept:8.3f} blocks kept, {self.in_cycles:8.3f} objects in cycles"
        types = ((" kept", self.kept_types), (" in cycles", self.cycle_types))
        return told + "".join(f";{what}: {named}" for what, named in types if named)


class Windows:
    """The windows of one kind of object at a node.

    kind: a coroutine function of the node, the number of the first cycle, and how many to do.
    """

    def __init__(self, kind, node):
        self._kind, self._node = kind, node
        self._done = 0

    async def measured(self, cycles, warm_up):
        """What is left of windows of `cycles` cycles. warm_up: cycles before them."""
        gc.disable()
        try:
            await self._run(warm_up)
            gc.collect()
            points = [sys.getallocatedblocks()]
            for _ in range(WINDOWS_MAX):
                await self._run(cycles)
                in_cycles = gc.collect()
                points.append(sys.getallocatedblocks())
                left = Left(_least_growth(points) / cycles, in_cycles / cycles)
                if left.is_flat:
                    return left
            return await self._explained(left, cycles)
        finally:
            gc.enable()

    async def _run(self, cycles):
        await self._kind(self._node, self._done, cycles)
        self._done += cycles
        await self._node.rest()
        await self._rest()

    async def _rest(self):
        """Wait until the node does nothing more for what has ended."""
        still, blocks = 0, -1
        while still < STILL_POLLS:
            await asyncio.sleep(POLL_SECONDS)
            self._node.empty_caches()
            now = sys.getallocatedblocks()
            still = still + 1 if now >= blocks >= 0 else 0
            blocks = now

    async def _explained(self, left, cycles):
        """The same with its types, which one more window shows."""
        types_before = _types(gc.get_objects())
        await self._run(cycles)
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        gc.set_debug(0)
        cycle_types = _types(gc.garbage)
        gc.garbage.clear()
        gc.collect()
        kept_types = _types(gc.get_objects()) - types_before
        return left._replace(
            kept_types=_told(kept_types, cycles), cycle_types=_told(cycle_types, cycles)
        )


def _least_growth(points):
    """By window, since any point before the last: what is only on its way at the end of a window
    counts less the more windows there are, and what leaks counts the same.
    """
    *before, last = points
    return min(((last - one) / (len(before) - n) for n, one in enumerate(before)), key=abs)


def _types(objects):
    return Counter(f"{type(one).__module__}.{type(one).__qualname__}" for one in objects)


def _told(types, cycles):
    often = [(name, count) for name, count in types.most_common() if count >= cycles / 4]
    return ", ".join(f"{name} {count / cycles:.1f}" for name, count in often[:TYPES_SHOWN])
