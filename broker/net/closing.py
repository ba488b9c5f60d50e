"""How a connection ends: with a connection.close that says why, in silence, or at once.

States of a connection, in order: `HANDSHAKE`, `RUNNING`, `CLOSED` (connection.close or its answer
was sent; the socket goes soon) and `GONE`.
"""

import logging

from pamqp import commands

from broker.amqp.errors import ConnectionFault, connection_forced
from broker.amqp.frames import FrameScanner
from broker.clock import Timer
from broker.net.handshake import Tuning
from broker.net.login import Login
from broker.net.socket_side import SocketSide
from broker.services import Services

HANDSHAKE, RUNNING, CLOSED, GONE = "handshake", "running", "closed", "gone"

CLOSE_TIMEOUT_MS = 30_000
"""How long a client may take to answer connection.close, or to close its socket."""
SILENT_CLOSE_MS = 3_000
"""RabbitMQ waits this long before it drops a client that failed to log in, to slow guessing."""

logger = logging.getLogger("leveret.connection")


class ClosingSide(SocketSide):
    """The part of a connection that ends it.

    login: the handshake, until it is over. tuning: the limits that were agreed.
    """

    __slots__ = ("_close_timer", "_method_at_work", "_scanner", "login", "state", "tuning")

    login: Login | None
    _scanner: FrameScanner

    def __init__(self, services: Services) -> None:
        super().__init__(services)
        self.state = HANDSHAKE
        self.tuning = Tuning(0, 0, 0)
        self._close_timer: Timer | None = None
        self._method_at_work = 0

    def release(self) -> None:
        """Give back all that the connection holds."""
        raise NotImplementedError

    def fail(self, fault: ConnectionFault) -> None:
        """Close the connection because of an error."""
        if self.state in (CLOSED, GONE):
            return
        if self.login is not None and not self.login.may_say(fault):
            self._wait_then_drop(fault.reply_text)
            return
        logger.error("closing connection %s: %s", self.name, fault.reply_text)
        self.release()
        self.send(
            0,
            commands.Connection.Close,
            reply_code=fault.reply_code,
            reply_text=fault.reply_text,
            class_id=fault.class_id,
            method_id=fault.method_id,
        )
        self.state = CLOSED
        self.stop_blocking()
        patience_ms = SILENT_CLOSE_MS if self._scanner.is_broken else self._close_patience_ms()
        self._drop_later(patience_ms)

    def force_close(self, explanation: str) -> None:
        """Close the connection at an operator's wish, or because the broker stops."""
        if self.state is RUNNING:
            self._method_at_work = 0
            self.fail(connection_forced(explanation))
        else:
            self.drop()

    def drop(self) -> None:
        """Close the socket, when what was written has gone out."""
        self.flush()
        self.state = GONE
        self.release()
        if self._transport is not None:
            self._transport.close()
            self._drop_later(CLOSE_TIMEOUT_MS)

    def _wait_then_drop(self, why: str) -> None:
        """Drop the client without a word, and not at once."""
        logger.error("closing connection %s: %s", self.name, why)
        self.state = GONE
        self._drop_later(SILENT_CLOSE_MS)

    def _close_patience_ms(self) -> int:
        heartbeat_ms = self.tuning.heartbeat_s * 1000
        return min(heartbeat_ms, CLOSE_TIMEOUT_MS) if heartbeat_ms else CLOSE_TIMEOUT_MS

    def _drop_later(self, delay_ms: int) -> None:
        if self._close_timer is not None:
            self._close_timer.cancel()
        self._close_timer = self.services.clock.call_later_ms(delay_ms, self.abort)
