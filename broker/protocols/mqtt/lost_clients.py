"""The ends of connections whose sockets are closed, spread over turns.

When a network is cut, the event loop reports very many closed sockets in one turn. The first of
them end at once, and the others, in order, as turns have work left for them.
"""

from collections import deque
from collections.abc import Callable, Iterator
from typing import Final

from leveret.broker.runtime.long_work import LongWork
from leveret.broker.runtime.turns import Turns

END_WORK: Final = 600
"""The work of ending a connection, in the units of broker/runtime/turns.py."""


class LostClients:
    """The connections of a node that have yet to end."""

    def __init__(self, turns: Turns) -> None:
        self._turns = turns
        self._waiting: deque[Callable[[], object]] = deque()
        self._is_ending = False

    def add(self, end: Callable[[], object]) -> None:
        """End a connection, at once if there is work left in this turn and none waits."""
        self._waiting.append(end)
        if not self._is_ending:
            self._is_ending = True
            LongWork(self._turns, "ending the connections of lost clients", self._steps()).start()

    def _steps(self) -> Iterator[int]:
        try:
            while self._waiting:
                self._waiting.popleft()()
                yield END_WORK
        finally:
            self._is_ending = False
