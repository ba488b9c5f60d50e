"""The end of a connection, in any protocol: its state, and the timer that closes its socket.

States of a connection, in order: `HANDSHAKE`, `RUNNING`, `CLOSING` (the client was told of the end,
or its socket is about to be closed) and `GONE` (nothing is sent or handled after it).
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final, Protocol

from leveret.broker.net.peer_answers import is_unanswered
from leveret.broker.net.progress_watch import PROGRESS_MS_MAX
from leveret.broker.net.socket_output import SocketOutput
from leveret.broker.runtime.clock import Clock, Timer

HANDSHAKE, RUNNING, CLOSING, GONE = "handshake", "running", "closing", "gone"

CLOSE_TIMEOUT_MS: Final = 30_000
"""Time limit for a client to answer the last frame of its connection, or to close its socket."""

logger = logging.getLogger("leveret.connection")


class EndingConnection(Protocol):
    """The connection that ends."""

    name: str

    @property
    def output(self) -> SocketOutput:
        """Its output."""

    def release(self) -> None:
        """Release everything that the connection holds."""


class Ending:
    """The state of one connection, and the timer that closes its socket.

    is_protocol_error: it ends because the client does not keep to the protocol.
    """

    __slots__ = (
        "_clock", "_close_timeout_ms", "_connection", "_timer", "_transport", "is_protocol_error",
        "state",
    )  # fmt: skip

    def __init__(
        self,
        connection: EndingConnection,
        clock: Clock,
        close_timeout_ms: int = CLOSE_TIMEOUT_MS,
    ) -> None:
        self._connection = connection
        self._clock = clock
        self._close_timeout_ms = close_timeout_ms
        self._timer: Timer | None = None
        self._transport: asyncio.Transport | None = None
        self.state = HANDSHAKE
        self.is_protocol_error = False

    def connect(self, transport: asyncio.Transport, handshake_timeout_ms: int | None) -> None:
        """Manage this socket; close it unless `open` is called within the handshake timeout."""
        self._transport = transport
        if handshake_timeout_ms is not None:
            self.call_later(handshake_timeout_ms, self._handshake_too_long)

    def disconnect(self) -> None:
        """The socket is closed."""
        self.state = GONE
        self._cancel()
        self._transport = None

    def give_up_socket(self) -> asyncio.Transport:
        """Return the socket: another connection manages it from now on."""
        transport = self._transport
        assert transport is not None, "the socket has a connection once"
        self.disconnect()
        return transport

    def open(self) -> None:
        """The handshake is complete."""
        self.state = RUNNING
        self._cancel()

    @property
    def has_begun(self) -> bool:
        """Whether the state is `CLOSING` or `GONE`."""
        return self.state in (CLOSING, GONE)

    def drop(self) -> None:
        """Close the socket after all written output is sent."""
        output = self._connection.output
        output.flush()
        self.state = GONE
        self._connection.release()
        if self._transport is not None:
            output.when_sent(self._transport.close)
            self.abort_later(self._close_timeout_ms, "the client does not close its socket")

    def drop_silent_peer(self, heartbeat_s: int) -> None:
        """Abort the connection: its client sent nothing for the heartbeat timeout."""
        self.give_up(f"missed heartbeats from client, timeout: {heartbeat_s} s")

    def drop_stuck_peer(self) -> None:
        """Abort the connection: its client does not read what is sent to it."""
        self.give_up(f"the client has read nothing for {PROGRESS_MS_MAX // 1000} s")

    def is_peer_silent(self, since_ms: int) -> bool:
        """Whether the client's machine has not acknowledged sent data for `since_ms`."""
        return self._transport is not None and is_unanswered(self._transport, since_ms)

    def give_up(self, why: str) -> None:
        """Abort the connection, and log the reason."""
        logger.error("closing connection %s: %s", self._connection.name, why)
        self.state = CLOSING
        self._connection.release()
        self.abort()

    def abort(self) -> None:
        """Close the socket immediately and discard unsent output."""
        if self._transport is not None:
            self._transport.abort()

    def abort_later(self, delay_ms: int, why: str) -> None:
        """Abort the connection after a delay, and log the reason."""

        def abort() -> None:
            logger.error("closing connection %s: %s", self._connection.name, why)
            self.abort()

        self.call_later(delay_ms, abort)

    def call_later(self, delay_ms: int, end: Callable[[], object]) -> None:
        """Call this after a delay, in place of what was to be called before."""
        self._cancel()
        self._timer = self._clock.call_later_ms(delay_ms, end)

    def _handshake_too_long(self) -> None:
        logger.error("closing connection %s: the handshake timed out", self._connection.name)
        self.drop()

    def _cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
