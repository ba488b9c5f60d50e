"""Long work of many small steps, spread over turns of the event loop.

The steps are an iterator. Each step does a part of the work when it is requested, and returns the
amount of that work, in the units of broker/runtime/turns.py. So the work can be written as a loop
in a generator:

    def delete_all(queues):
        for queue in queues:
            delete(queue)
            yield DELETE_WORK

A step that is an `Answer` makes the work wait until the answer is given.

Steps that fit into the present turn are done when `start` returns.
"""

from collections.abc import Generator, Iterator
from itertools import chain
from typing import TypeVar

from leveret.broker.runtime.pending import Answer
from leveret.broker.runtime.turns import Actor, Turns

Step = int | Answer[None]

Result = TypeVar("Result")


class LongWork(Actor):
    """An actor that exists until its steps are done. name: the work, for logs."""

    __slots__ = ("_name", "_steps", "_turns")

    def __init__(self, turns: Turns, name: str, steps: Iterator[Step]) -> None:
        super().__init__()
        self._turns = turns
        self._name = name
        self._steps = steps

    def __repr__(self) -> str:
        return self._name

    def start(self) -> None:
        """Do the steps that fit into this turn; the rest follows in later turns."""
        self.take_turn()

    def take_turn(self) -> None:
        """Do steps while there is work left."""
        turns = self._turns
        while turns.work_left > 0:
            step = next(self._steps, None)
            if step is None:
                return
            if isinstance(step, Answer):
                step.when_given(lambda: turns.wake(self))
                return
            turns.work_left -= step
        turns.wake(self)


def begin(turns: Turns, name: str, steps: Iterator[Step], work_at_once: int) -> None:
    """Do steps of at least this much work at once, even if the turn has none left.

    The rest follows in later turns. name: the work, for logs.
    """
    work = 0
    for step in steps:
        if isinstance(step, Answer):
            LongWork(turns, name, chain([step], steps)).start()
            return
        turns.work_left -= step
        work += step
        if work > work_at_once:
            LongWork(turns, name, steps).start()
            return


def finish(steps: Generator[int, None, Result]) -> Result:
    """Do all steps in this turn; return the generator's result."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: Result = end.value
            return result
