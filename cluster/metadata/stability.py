"""Who waits until what is applied on this node is stable: applied on all members of its view.

SB1. A callback is called once, and after the entry that was applied last when it was given is
     stable: in every later view that this one leads to (V4, V5), whoever dies.
"""

from collections import deque
from collections.abc import Callable


class Stability:
    """applied: the index of the last entry that this node has applied, or is applying."""

    def __init__(self) -> None:
        self.applied = -1
        self._waiting: deque[tuple[int, Callable[[], object]]] = deque()

    def when_stable(self, callback: Callable[[], object]) -> None:
        """Call back when what is applied so far is stable."""
        self._waiting.append((self.applied, callback))

    @property
    def is_awaited(self) -> bool:
        """Whether anybody waits."""
        return bool(self._waiting)

    def advanced(self, stable: int) -> None:
        """All members of the view have applied everything up to an index; -1: that is not known.

        What a restart has found was applied before any index.
        """
        if stable < 0:
            return
        while self._waiting and self._waiting[0][0] <= stable:
            self._waiting.popleft()[1]()

    def close(self) -> None:
        """The node stops: nobody is called any more."""
        self._waiting.clear()
