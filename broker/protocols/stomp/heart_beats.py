"""Heart-beats of STOMP: each side has an interval of its own, or none."""

from collections.abc import Callable

from leveret.broker.runtime.clock import Clock
from leveret.broker.runtime.heartbeat import Beating, Heartbeat


class HeartBeats:
    """The heart-beats of one connection.

    sent_s, expected_s: the intervals of the server and of the client, in seconds; 0 for none.
    """

    __slots__ = ("_monitors",)

    def __init__(self, connection: Beating, clock: Clock, sent_s: int, expected_s: int) -> None:
        self._monitors: list[Heartbeat] = []
        if sent_s:
            sending = OneWay(connection, connection.send_heartbeat, _do_nothing)
            self._monitors.append(Heartbeat(sending, clock, sent_s))
        if expected_s:
            listening = OneWay(connection, _do_nothing, connection.peer_is_silent)
            self._monitors.append(Heartbeat(listening, clock, expected_s))

    def stop(self) -> None:
        """Stop the timers."""
        for monitor in self._monitors:
            monitor.stop()


class OneWay:
    """A connection, as the monitor of one direction sees it."""

    __slots__ = ("_connection", "peer_is_silent", "send_heartbeat")

    def __init__(
        self,
        connection: Beating,
        send_heartbeat: Callable[[], None],
        peer_is_silent: Callable[[], None],
    ) -> None:
        self._connection = connection
        self.send_heartbeat = send_heartbeat
        self.peer_is_silent = peer_is_silent

    @property
    def bytes_in(self) -> int:
        """Total bytes read."""
        return self._connection.bytes_in

    @property
    def bytes_out(self) -> int:
        """Total bytes written."""
        return self._connection.bytes_out

    @property
    def is_reading(self) -> bool:
        """Whether the socket is being read."""
        return self._connection.is_reading


def _do_nothing() -> None:
    """Do nothing: the other monitor does it."""
