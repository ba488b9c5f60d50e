"""Long work of many small steps, done by the turn: as much in each as there is work left for.

The steps are an iterator; each does a part of the work when it is asked for, and says how much that
was, in the units of broker/turns.py. So it can be written as a loop in a generator:

    def delete_all(queues):
        for queue in queues:
            delete(queue)
            yield DELETE_WORK

What can be done in this turn is done when `start` returns.
"""

from collections.abc import Generator, Iterator
from typing import TypeVar

from leveret.broker.turns import Turns

Result = TypeVar("Result")


class LongWork:
    """An actor that exists until its steps are done. name: for logs, what is being done."""

    __slots__ = ("_name", "_steps", "_turns", "is_awake")

    def __init__(self, turns: Turns, name: str, steps: Iterator[int]) -> None:
        self._turns = turns
        self._name = name
        self._steps = steps
        self.is_awake = False

    def __repr__(self) -> str:
        return f"<LongWork: {self._name}>"

    def start(self) -> None:
        """Do what there is work left for; the rest follows in turns."""
        self.take_turn()

    def take_turn(self) -> None:
        """Do steps while there is work left."""
        turns = self._turns
        while turns.work_left > 0:
            work = next(self._steps, None)
            if work is None:
                return
            turns.work_left -= work
        turns.wake(self)


def finish(steps: Generator[int, None, Result]) -> Result:
    """Do all steps in this turn; what the generator returns."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: Result = end.value
            return result
