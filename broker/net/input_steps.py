"""The input of one connection, in steps: handled one at a time, in order, and in turns.

A step handles the bytes of one read, or continues a channel whose answer has arrived. When the turn
has no work left (broker/runtime/turns.py), the step ends with `TurnOver`. The rest of it, and all
later input, waits here until the connection has its turn, and the socket is not read until then. So
a client that publishes to a thousand queues, or a hundred clients that publish at full speed, do
not delay others. The input of a client that publishes during an alarm also waits here, from that
publish on.

Promise: input is handled in the order of its arrival, wherever it was interrupted.
"""

from collections import deque
from collections.abc import Callable
from typing import Protocol

from leveret.broker.runtime.pending import Answer
from leveret.broker.runtime.turns import TurnOver, Turns

Step = Callable[[], object]


class Once:
    """A step that does nothing when it is called again, for instance after a fault."""

    __slots__ = ("_step",)

    def __init__(self, step: Step) -> None:
        self._step: Step | None = step

    def __call__(self) -> None:
        """Do the step, once."""
        step, self._step = self._step, None
        if step is not None:
            step()


class Socket(Protocol):
    """The reading side of the connection."""

    @property
    def is_blocked(self) -> bool:
        """Whether an alarm blocks the client: no input is handled."""

    def pause_for_input(self) -> None:
        """Stop reading: input waits."""

    def resume_after_input(self) -> None:
        """No input is waiting."""


class InputSteps:
    """The steps of one connection that wait.

    waiting: in order. It is not empty while the connection waits for its turn.
    """

    __slots__ = ("_handle", "_has_asked", "_is_busy", "_socket", "_turns", "_until", "waiting")

    def __init__(self, turns: Turns, socket: Socket, handle: Callable[[Step], None]) -> None:
        """handle: runs a step and handles its faults; raises `TurnOver`."""
        self._turns = turns
        self._socket = socket
        self._handle = handle
        self._is_busy = False
        self._has_asked = False
        self._until: Answer[None] | None = None
        self.waiting: deque[Step] = deque()

    def do(self, step: Step) -> None:
        """Run a step at once, or after the step that is running."""
        if self._is_busy:
            self.waiting.append(step)
            return
        is_turn_over = self._do(step)
        if self.waiting:
            self._do_waiting(is_turn_over)

    def wait_with(self, *steps: Step) -> None:
        """Run these steps in a later turn, after those that already wait."""
        self.waiting.extend(steps)
        self._ask_for_turn()

    def clear(self) -> None:
        """Drop the waiting steps: the connection ends."""
        self.waiting.clear()

    def disconnect(self) -> None:
        """Handle no more input: the socket is closed."""
        self._handle = _handle_nothing

    def _do(self, step: Step) -> bool:
        """Run a step; return whether the rest of it has to wait for another turn."""
        self._is_busy = True
        try:
            self._handle(step)
        except TurnOver as over:
            self._until = over.until
            self.waiting.extendleft((step, *map(Once, reversed(over.steps))))
            return True
        finally:
            self._is_busy = False
        return False

    def _do_waiting(self, is_turn_over: bool = False) -> None:
        while self.waiting and not is_turn_over and not self._socket.is_blocked:
            if self._turns.work_left <= 0:
                break
            is_turn_over = self._do(self.waiting.popleft())
        if self.waiting:
            self._ask_for_turn()

    def _ask_for_turn(self) -> None:
        if not self._has_asked:
            self._has_asked = True
            self._socket.pause_for_input()
            if self._socket.is_blocked:
                return
            until, self._until = self._until, None
            if until is None:
                self._turns.after_round(self._take_turn)
            else:
                until.when_given(self.unblocked)

    def unblocked(self) -> None:
        """Give the connection a turn: the client is no longer blocked, or its wait is over."""
        if self._has_asked:
            self._turns.after_round(self._take_turn)

    def _take_turn(self) -> None:
        self._has_asked = False
        self._do_waiting()
        if not self._has_asked:
            self._socket.resume_after_input()


def _handle_nothing(step: Step) -> None:
    """The connection has ended."""
