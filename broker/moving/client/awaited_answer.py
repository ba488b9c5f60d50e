"""An answer of a server that is awaited with a time limit.

A server may accept input, send heartbeats, and never answer a method. Without a time limit,
messages would stop without a visible reason. While this node does not read the socket, or the
server blocks publishes, which it does by not reading its own, no answer counts as late.
"""

from typing import Protocol

from leveret.broker.runtime.clock import Clock, Timer


class Answering(Protocol):
    """A connection. is_reading: whether its socket is read."""

    is_reading: bool

    @property
    def is_blocked(self) -> bool:
        """Whether the server takes no publishes at present."""

    def drop(self, reason: str) -> None:
        """Close the socket without connection.close."""


class AwaitedAnswer:
    """The answer to a method of this name, until `cancel`."""

    __slots__ = ("_clock", "_connection", "_method", "_seconds", "_timer")

    def __init__(self, connection: Answering, clock: Clock, method: str, seconds: float) -> None:
        self._connection = connection
        self._clock = clock
        self._method = method
        self._seconds = seconds
        self._timer: Timer = clock.call_later_ms(seconds * 1000, self._look)

    def cancel(self) -> None:
        """Stop waiting: the answer has arrived, or is no longer needed."""
        self._timer.cancel()

    def _look(self) -> None:
        if self._connection.is_reading and not self._connection.is_blocked:
            seconds = f"{self._seconds:g} s"
            self._connection.drop(f"the server does not answer {self._method} within {seconds}")
        else:
            self._timer = self._clock.call_later_ms(self._seconds * 1000, self._look)
