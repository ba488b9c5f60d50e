"""Work items that are carried out one after the other, each in steps, spread over turns if long.

A node applies changes in order, and some take long: the deletion of a virtual host with 20,000
queues, a snapshot. Clients of the node have their turns in between (broker/runtime/long_work.py).
Short items are done when `add` returns.

OS1. An item is begun when the previous one is done, whatever is added in between.
OS2. After an item has failed no other is done: it would depend on the missing one.
OS3. An item that is put back until an answer is given is then done before all waiting items.
"""

from collections import deque
from collections.abc import Callable, Generator, Iterable
from typing import Generic, TypeVar

from leveret.broker.runtime.long_work import Step, begin
from leveret.broker.runtime.pending import Answer
from leveret.broker.runtime.turns import Turns

WORK_AT_ONCE = 2000
"""The work that is done before `add` returns, in the units of broker/runtime/turns.py."""

Thing = TypeVar("Thing")
Steps = Generator[Step, None, None]


class OrderedSteps(Generic[Thing]):
    """steps_of: performs one item; yields the work of each step. failed: called with its error."""

    def __init__(
        self,
        turns: Turns,
        name: str,
        steps_of: Callable[[Thing], Steps],
        failed: Callable[[Exception], object],
    ) -> None:
        self._turns = turns
        self._name = name
        self._steps_of = steps_of
        self._failed = failed
        self._waiting: deque[Thing] = deque()
        self._steps: Steps | None = None
        self._has_failed = False
        self._awaited: Answer[None] | None = None

    @property
    def has_failed(self) -> bool:
        """Whether an item has failed; then no other is done."""
        return self._has_failed

    @property
    def is_busy(self) -> bool:
        """Whether an item is under way, so that added items wait."""
        return self._steps is not None

    def add(self, things: Iterable[Thing]) -> None:
        """Carry out these items after all that were added before."""
        if self._has_failed:
            # OS2
            return
        self._waiting += things
        if self._steps is None and self._waiting and not self._is_held:
            self._begin()

    def put_back(self, thing: Thing, until: Answer[None]) -> None:
        """Begin an item again when the answer is given. Called from its steps, which then end."""
        self._waiting.appendleft(thing)
        self._awaited = until
        until.when_given(lambda: self.add(()))

    @property
    def _is_held(self) -> bool:
        return self._awaited is not None and not self._awaited.is_given

    def close(self) -> None:
        """Stop; the item under way is abandoned."""
        self._waiting.clear()
        if self._steps is not None:
            self._steps.close()

    def _begin(self) -> None:
        steps = self._steps = self._all()
        begin(self._turns, self._name, steps, WORK_AT_ONCE)

    def _all(self) -> Steps:
        try:
            while self._waiting and not self._is_held:
                yield from self._steps_of(self._waiting.popleft())
        except Exception as error:
            self._has_failed = True
            self._waiting.clear()
            # The caller of `add` is not at fault: it handles the frame of another node.
            self._failed(error)
        finally:
            self._steps = None
