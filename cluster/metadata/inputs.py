"""Inputs of the replication of a node: given one after the other, spread over turns if many.

One read of a link may bring a thousand messages, and one sync may complete as many writes. Each is
little work, but all of them are far more than a turn may take (broker/runtime/turns.py). So inputs
wait here when the work of the turn is used up, and clients have their turns in between.

IN1. Inputs are given in the order of their arrival.
IN2. An input that arrives while another one is given is given after it.
"""

from collections import deque
from collections.abc import Callable

from leveret.broker.runtime.turns import Actor, Turns

INPUT_WORK = 120
"""The work of an input, without that of its outputs, in the units of broker/runtime/turns.py."""

Give = Callable[[], object]


class Inputs(Actor):
    """An actor that is awake while inputs wait."""

    __slots__ = ("_is_giving", "_turns", "_waiting")

    def __init__(self, turns: Turns) -> None:
        super().__init__()
        self._turns = turns
        self._waiting: deque[Give] = deque()
        self._is_giving = False

    def __repr__(self) -> str:
        return "<Inputs: messages of other nodes and syncs for the cluster's declarations>"

    def add(self, give: Give) -> None:
        """Give an input after waiting ones; at once if none waits and the turn has work left."""
        self._waiting.append(give)
        if not self._is_giving and not self.is_awake:
            self.take_turn()

    def take_turn(self) -> None:
        """Give inputs while the turn has work left."""
        turns = self._turns
        self._is_giving = True
        try:
            while self._waiting and turns.work_left > 0:
                turns.work_left -= INPUT_WORK
                self._waiting.popleft()()
        finally:
            self._is_giving = False
            if self._waiting:
                turns.wake(self)

    def close(self) -> None:
        """Give nothing more."""
        self._waiting.clear()
