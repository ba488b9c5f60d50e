"""Callbacks that wait until the entries applied on this node are stable: applied on all members.

SB1. A callback is called once, when the last entry that was applied when it was registered is
     stable: that entry is in every later view that follows from this one (V4, V5), whichever nodes
     die.
"""

from collections import deque
from collections.abc import Callable


class Stability:
    """applied: the index of the last entry that this node has applied, or is applying."""

    def __init__(self) -> None:
        self.applied = -1
        self._waiting: deque[tuple[int, Callable[[], object]]] = deque()

    def when_stable(self, callback: Callable[[], object]) -> None:
        """Call back when the entries applied so far are stable."""
        self._waiting.append((self.applied, callback))

    @property
    def is_awaited(self) -> bool:
        """Whether a callback waits."""
        return bool(self._waiting)

    def advanced(self, stable: int) -> None:
        """Note the index up to which all members of the view have applied entries; -1: unknown.

        Entries found at a restart count as applied before any index.
        """
        if stable < 0:
            return
        while self._waiting and self._waiting[0][0] <= stable:
            self._waiting.popleft()[1]()

    def close(self) -> None:
        """Drop all callbacks: the node stops."""
        self._waiting.clear()
