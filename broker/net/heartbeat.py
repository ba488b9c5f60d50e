"""Heartbeats of one connection, both ways, with one timer.

Each half interval the connection is looked at: if nothing was written since the last look, a
heartbeat goes out. Each whole interval: if nothing at all came in for two of them in a row, the
peer is gone (RabbitMQ's documentation, "Detecting Dead TCP Connections with Heartbeats"). Any
bytes count. While the connection is blocked nothing is read, so the peer's silence does not count.
"""

from typing import Protocol

from broker.clock import Clock, Timer

SILENT_LOOKS_MAX = 2


class Beating(Protocol):
    """What a heartbeat monitor needs of its connection.

    bytes_in, bytes_out: totals. is_reading: bytes from the peer are taken off the socket.
    """

    bytes_in: int
    bytes_out: int

    @property
    def is_reading(self) -> bool:
        """The connection is not held back."""

    def send_heartbeat(self) -> None:
        """Write a heartbeat frame."""

    def peer_is_silent(self) -> None:
        """Nothing came in for too long."""


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
        """No more looks."""
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
