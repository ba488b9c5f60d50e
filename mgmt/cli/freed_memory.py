"""Gives memory that was freed back to the system when the node has little to do.

The C library keeps freed blocks for later (`keep_freed_memory` in serve.py), and returns only
those at the end of its heap. After 50,000 queues were deleted, 400 MB stay allocated and unused.
`malloc_trim` returns them page by page. It holds up all other allocations, so it waits until there
is little to do.
"""

import ctypes
import logging
from collections.abc import Callable

from leveret.mgmt.metrics.allocators import MallocInfo

FREE_BYTES_MAX = 64 * 1024 * 1024
"""Freed memory that a node may keep."""
KEPT_BYTES = 32 * 1024 * 1024
"""The bytes kept at the end of the heap for later allocations."""
IDLE_ROUNDS_A_SECOND = 20
"""A node with fewer rounds of turns (broker/runtime/turns.py) has little to do."""

logger = logging.getLogger("leveret")


class Allocator:
    """glibc's. info: its function mallinfo2."""

    def __init__(self, info: Callable[[], MallocInfo]) -> None:
        self._info = info
        self._trim = ctypes.CDLL(None).malloc_trim
        self._trim.argtypes = [ctypes.c_size_t]

    def free_bytes(self) -> int:
        """The bytes that were freed and are kept."""
        return int(self._info().fordblks)

    def trim(self) -> None:
        """Give freed pages back to the system."""
        self._trim(KEPT_BYTES)


class FreedMemory:
    """Checks from time to time. rounds: counts rounds of turns so far; called in the loop."""

    def __init__(self, allocator: Allocator, rounds: Callable[[], int]) -> None:
        self._allocator = allocator
        self._rounds = rounds
        self._rounds_before = rounds()

    def is_idle(self, seconds: float) -> bool:
        """Whether the node has had little to do since the last call, this number of seconds ago."""
        before, self._rounds_before = self._rounds_before, self._rounds()
        return 0 <= self._rounds_before - before < seconds * IDLE_ROUNDS_A_SECOND

    def give_back(self) -> None:
        """Give freed memory back, if there is much. For a worker thread."""
        free_bytes = self._allocator.free_bytes()
        if free_bytes > FREE_BYTES_MAX:
            logger.debug("returned %d bytes of freed memory to the system", free_bytes)
            self._allocator.trim()
