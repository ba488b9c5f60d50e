"""Heartbeats of one connection, in both directions, with one timer.

Every half interval the monitor sends a heartbeat if nothing was written since the last check. If
nothing was received in two consecutive whole intervals, the peer is dead (RabbitMQ's documentation,
"Detecting Dead TCP Connections with Heartbeats"). Any bytes count. While the connection is blocked
the socket is not read, so intervals without input do not count.
"""

from typing import Protocol

from leveret.broker.runtime.clock import Clock, Timer

SILENT_LOOKS_MAX = 2


class Beating(Protocol):
    """The connection, as a heartbeat monitor sees it."""

    @property
    def bytes_in(self) -> int:
        """Total bytes read."""

    @property
    def bytes_out(self) -> int:
        """Total bytes written."""

    @property
    def is_reading(self) -> bool:
        """Whether the socket is being read."""

    def send_heartbeat(self) -> None:
        """Write a heartbeat frame."""

    def peer_is_silent(self) -> None:
        """The peer sent nothing for the heartbeat timeout."""


class Heartbeat:
    """The monitor of one connection. interval_s: as negotiated, and not 0."""

    __slots__ = (
        "_clock", "_connection", "_half_interval_ms", "_is_whole", "_seen_in", "_seen_out",
        "_silent_looks", "_timer",
    )  # fmt: skip

    def __init__(self, connection: Beating, clock: Clock, interval_s: int) -> None:
        self._connection = connection
        self._clock = clock
        self._half_interval_ms = interval_s * 500
        self._is_whole = False
        self._seen_in = connection.bytes_in
        self._seen_out = connection.bytes_out
        self._silent_looks = 0
        self._timer: Timer = clock.call_later_ms(self._half_interval_ms, self._look)

    def stop(self) -> None:
        """Stop the timer."""
        self._timer.cancel()

    def _look(self) -> None:
        self._timer = self._clock.call_later_ms(self._half_interval_ms, self._look)
        connection = self._connection
        if connection.bytes_out == self._seen_out:
            connection.send_heartbeat()
        self._seen_out = connection.bytes_out
        self._is_whole = not self._is_whole
        if not self._is_whole:
            self._listen()

    def _listen(self) -> None:
        connection = self._connection
        if connection.bytes_in != self._seen_in or not connection.is_reading:
            self._seen_in = connection.bytes_in
            self._silent_looks = 0
            return
        self._silent_looks += 1
        if self._silent_looks >= SILENT_LOOKS_MAX:
            connection.peer_is_silent()
