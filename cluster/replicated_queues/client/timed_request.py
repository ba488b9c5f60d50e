"""A client's request to a queue in a group, which is answered in time even without a leader."""

from collections.abc import Callable
from typing import Any

from leveret.broker.runtime.clock import Clock
from leveret.broker.runtime.pending import Answer


def answer_ms(channel_operation_timeout_ms: int) -> int:
    """How long requests wait: less than a channel does, whose own error is vague.

    RabbitMQ has several fixed limits, such as 5 s for the first leader of a declared quorum queue
    (START_CLUSTER_TIMEOUT), which a busy machine does not keep.
    """
    return 2 * channel_operation_timeout_ms // 3


class TimedRequest:
    """A request with a time limit. A value that comes too late is returned (`Answer.give`)."""

    __slots__ = ("_answer", "_timer")

    def __init__(
        self, answer: Answer[Any], clock: Clock, late: Callable[[], Exception], time_ms: int
    ) -> None:
        """late: makes the error for when there is no answer in time."""
        self._answer = answer
        self._timer = clock.call_later_ms(time_ms, lambda: answer.refuse(late()))

    def give(self, value: Any) -> None:
        """Answer."""
        self._timer.cancel()
        self._answer.give(value)

    def refuse(self, error: Exception) -> None:
        """Answer with an error."""
        self._timer.cancel()
        self._answer.refuse(error)
