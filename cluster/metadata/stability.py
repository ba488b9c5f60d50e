"""Callbacks that wait until the entries applied on this node are stable: applied on all members.

SB1. A callback is called once, after the entry that was the last applied when it was given is
     stable: that entry is in every later view that this one leads to (V4, V5), whichever nodes die.
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
        """All members of the view have applied everything up to an index; -1: it is unknown.

        Entries found at a restart count as applied before any index.
        """
        if stable < 0:
            return
        while self._waiting and self._waiting[0][0] <= stable:
            self._waiting.popleft()[1]()

    def close(self) -> None:
        """The node stops: call nothing from now on."""
        self._waiting.clear()
