"""Pending operations: methods that may wait for another node, an authentication backend or a disk.

The callee receives an `Answer` and gives it immediately or later. The method is a coroutine that
awaits the answer. If the answer is given immediately the coroutine does not suspend: the method
runs to its end in one call, as a plain function would. A method that waits is held as a
`PendingOperation`, and its coroutine resumes where it was suspended; it never runs a second time.

No event loop and no task is involved. The holder of the operation (a channel, a login) handles its
errors as if the method had raised them immediately. An operation ends when the method ends, when
its holder closes it, or on timeout with a fault that its holder provides.

Code in an asyncio task, such as a request to the management API, awaits the same answers and runs
the same methods with the functions of pending_in_task.py.
"""

from collections.abc import Callable, Coroutine, Generator
from typing import Any, Generic, TypeVar

from leveret.broker.runtime.clock import Clock, Timer

Value = TypeVar("Value")
Steps = Coroutine["Answer[Any]", None, None]
"""The coroutine of a method: it awaits only answers."""


class Answer(Generic[Value]):
    """An answer that is given once. Later values are ignored, or passed to `give_back`.

    is_given: a value or an error has been given.
    """

    __slots__ = ("_accept", "_error", "_give_back", "_listener", "_synced", "_value", "is_given")

    def __init__(
        self,
        accept: Callable[[Value], object] | None = None,
        give_back: Callable[[Value], object] | None = None,
    ) -> None:
        """accept: called with the value when it is given. give_back: called with a value that is
        given after the answer was abandoned: on timeout, or because the channel ended.
        """
        self.is_given = False
        self._accept = accept
        self._give_back = give_back
        self._value: Any = None
        self._error: Exception | None = None
        self._listener: Callable[[], object] | None = None
        self._synced: Synced | None = None

    def give(self, value: Value, synced: "Synced | None" = None) -> None:
        """Answer with a value. synced: see the method; None if nothing has to be on disk."""
        if self.is_given:
            if self._give_back is not None:
                self._give_back(value)
            return
        self._value = value
        self._synced = synced
        # It may be a closure that refers to this answer: without the cycle both are freed at once.
        accept, self._accept = self._accept, None
        if accept is not None:
            accept(value)
        self._given()

    def refuse(self, error: Exception) -> None:
        """Answer with an error, which is raised where the answer is awaited."""
        if not self.is_given:
            self._error = error
            self._accept = None
            self._given()

    def preceding(self, value: Value) -> "Answer[None]":
        """Return another answer: when it is given, this answer gets `value`, or the error."""
        first: Answer[None] = Answer()
        first.when_given(lambda: self._follow(first, value))
        return first

    def _follow(self, first: "Answer[None]", value: Value) -> None:
        if first._error is not None:
            self.refuse(first._error)
        else:
            self.give(value, first._synced)

    def pass_on(self, other: "Answer[Value]") -> None:
        """Give another answer the result of this one."""
        assert self.is_given, "an answer is passed on before it is given"
        if self._error is not None:
            other.refuse(self._error)
        else:
            other.give(self._value, self._synced)

    @property
    def waits_for_sync(self) -> bool:
        """Whether a value was given that reports a change not yet on disk."""
        return self._synced is not None and not self._synced.is_given

    def synced(self) -> "Answer[None]":
        """Return another answer, given when the change that this one reports is on disk.

        It is awaited before a client is told of the change.
        """
        return given(None) if self._synced is None else self._synced

    def abandon(self) -> None:
        """Stop waiting for the answer: a later value is passed to `give_back`."""
        if not self.is_given:
            self._accept = self._listener = None
            self.is_given = True

    def _given(self) -> None:
        self.is_given = True
        listener, self._listener = self._listener, None
        if listener is not None:
            listener()

    def when_given(self, listener: Callable[[], object]) -> None:
        """Call the one listener when the answer is given; immediately if it is already."""
        if self.is_given:
            listener()
        else:
            self._listener = listener

    def result(self) -> Value:
        """The value of a given answer. Raises the error if one was given instead."""
        assert self.is_given, "an answer is read before it is given"
        if self._error is not None:
            raise self._error
        value: Value = self._value
        return value

    def __await__(self) -> Generator["Answer[Any]", None, Value]:
        if not self.is_given:
            yield self
        return self.result()


class Synced(Answer[None]):
    """An answer that is given when the writes so far are on disk (`Answer.synced`).

    A method that awaits it only has to reply then, so its channel need not be held
    (amqp091/connection/unsynced_replies.py).
    """

    __slots__ = ("_when_synced",)

    def __init__(
        self, when_synced: Callable[[Callable[[Exception | None], object]], object]
    ) -> None:
        """when_synced: has a callback called after a sync, with its error if it failed. It is
        called on the first wait: without one, no sync is done.
        """
        super().__init__()
        self._when_synced = when_synced

    def when_given(self, listener: Callable[[], object]) -> None:
        """Call the listener after a sync."""
        super().when_given(listener)
        if not self.is_given:
            self._when_synced(self._ended)

    def _ended(self, error: Exception | None) -> None:
        if error is None:
            self.give(None)
        else:
            self.refuse(error)


def given(value: Value) -> Answer[Value]:
    """An answer that is already given."""
    answer: Answer[Value] = Answer()
    answer.give(value)
    return answer


class PendingOperation:
    """A method that waits for an answer.

    resume: called when the answer is given; it calls `step` where faults are handled.
    """

    __slots__ = ("_awaited", "_resume", "_steps", "_timer")

    def __init__(
        self,
        steps: Steps,
        awaited: Answer[Any],
        resume: Callable[["PendingOperation"], object],
        clock: Clock,
        timeout_ms: int,
        timed_out: Callable[[], Exception],
    ) -> None:
        """timed_out: creates the fault for an operation that exceeds `timeout_ms`."""
        self._steps = steps
        self._resume = resume
        self._awaited: Answer[Any] | None = None
        self._timer: Timer | None = clock.call_later_ms(
            timeout_ms, lambda: self._give_up(timed_out())
        )
        self._wait_for(awaited)

    @property
    def is_over(self) -> bool:
        """Whether the method has ended or was closed."""
        return self._timer is None

    @property
    def is_waiting(self) -> bool:
        """Whether the answer that the method awaits is not given yet."""
        return self._awaited is not None and not self._awaited.is_given

    @property
    def awaits_sync(self) -> bool:
        """Whether the method only has to reply: it waits for a `Synced`."""
        return isinstance(self._awaited, Synced)

    def step(self) -> None:
        """Run the method until it ends or waits, unless it still waits. Raises its errors."""
        if self.is_over or self.is_waiting:
            return
        self._awaited = None
        try:
            awaited = begin(self._steps)
        except BaseException:
            self.close()
            raise
        if awaited is None:
            self.close()
        elif self.is_over:
            # The method closed its own holder, and then waited.
            self._steps.close()
        else:
            self._wait_for(awaited)

    def close(self) -> None:
        """End the operation, because the method or its holder has ended."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        awaited, self._awaited = self._awaited, None
        if awaited is not None:
            # It is suspended. A running method cannot be closed, and ends by itself.
            awaited.abandon()
            self._steps.close()

    def _wait_for(self, awaited: Answer[Any]) -> None:
        self._awaited = awaited
        awaited.when_given(lambda: self._answered(awaited))

    def _answered(self, answer: Answer[Any]) -> None:
        if answer is self._awaited:
            self._resume(self)

    def _give_up(self, fault: Exception) -> None:
        if self._awaited is not None:
            self._awaited.refuse(fault)


def begin(steps: Steps) -> Answer[Any] | None:
    """Run a method until it ends (None) or waits (the awaited answer). Raises its errors."""
    try:
        return steps.send(None)
    except StopIteration:
        return None
