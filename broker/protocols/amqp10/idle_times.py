"""The idle time-outs of a connection of AMQP 1.0, one for each direction.

The client announces its time-out, and gets an empty frame when nothing was sent for half of it. The
broker announces half of the time after which it closes the connection of a silent client (part 2,
section 2.4.5). This time does not include the time in which the socket is not read.
"""

from typing import Protocol

from leveret.broker.protocols.amqp10.performatives import EMPTY_FRAME
from leveret.broker.runtime.clock import Clock, Timer


class IdleConnection(Protocol):
    """The connection."""

    @property
    def bytes_in(self) -> int:
        """Total bytes read."""

    @property
    def bytes_out(self) -> int:
        """Total bytes written."""

    @property
    def is_reading(self) -> bool:
        """Whether the socket is being read."""

    def send_frame(self, frame: bytes) -> None:
        """Send a frame."""

    def peer_is_silent(self) -> None:
        """The client has sent nothing for the idle time-out."""


class IdleTimes:
    """The time-outs of one connection."""

    __slots__ = ("_clock", "_connection", "_expected", "_seen_in", "_seen_out",
                 "_send_ms", "_sending", "_silent_ms")  # fmt: skip

    def __init__(
        self, connection: IdleConnection, clock: Clock, send_ms: int, silent_ms: int
    ) -> None:
        """send_ms: the client's time-out; silent_ms: the broker's; 0 for none."""
        self._connection = connection
        self._clock = clock
        self._send_ms = max(1, send_ms // 2) if send_ms else 0
        self._silent_ms = silent_ms
        self._seen_in, self._seen_out = connection.bytes_in, connection.bytes_out
        self._sending: Timer | None = None
        self._expected: Timer | None = None
        if self._send_ms:
            self._sending = clock.call_later_ms(self._send_ms, self._send)
        if silent_ms:
            self._expected = clock.call_later_ms(silent_ms, self._listen)

    def stop(self) -> None:
        """Stop the timers."""
        for timer in (self._sending, self._expected):
            if timer is not None:
                timer.cancel()
        self._sending = self._expected = None

    def _send(self) -> None:
        connection = self._connection
        self._sending = self._clock.call_later_ms(self._send_ms, self._send)
        if connection.bytes_out == self._seen_out:
            connection.send_frame(EMPTY_FRAME)
        self._seen_out = connection.bytes_out

    def _listen(self) -> None:
        connection = self._connection
        is_silent = connection.bytes_in == self._seen_in and connection.is_reading
        self._seen_in = connection.bytes_in
        if is_silent:
            self._expected = None
            connection.peer_is_silent()
        else:
            self._expected = self._clock.call_later_ms(self._silent_ms, self._listen)
