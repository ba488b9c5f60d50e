"""Notices a client that reads nothing of what is sent to it."""

from collections.abc import Callable
from typing import Final, Protocol

from leveret.broker.runtime.clock import Clock, Timer

PROGRESS_MS_MAX: Final = 30_000
"""A client whose output is congested is disconnected if it reads nothing for this time. RabbitMQ
gives up a socket to which it could send nothing for the same time."""


class WatchedOutput(Protocol):
    """The output of a connection. stuck: called when the client has read nothing in this time."""

    stuck: Callable[[], object]

    def sent_bytes(self) -> int:
        """The bytes that the system has accepted."""


class ProgressWatch:
    """Watches the output of one connection while it is congested."""

    __slots__ = ("_clock", "_timer")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._timer: Timer | None = None

    def begin(self, output: WatchedOutput) -> None:
        """The output is congested."""
        self.end()
        sent_bytes = output.sent_bytes()
        self._timer = self._clock.call_later_ms(
            PROGRESS_MS_MAX, lambda: self._check(output, sent_bytes)
        )

    def _check(self, output: WatchedOutput, sent_bytes: int) -> None:
        if output.sent_bytes() == sent_bytes:
            output.stuck()
        else:
            self.begin(output)

    def end(self) -> None:
        """The output is no longer congested, or its connection has ended."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
