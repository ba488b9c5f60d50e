"""Closing a connection: with connection.close, without a reply after a delay, or immediately.

States of a connection, in order: `HANDSHAKE`, `RUNNING`, `CLOSED` (connection.close or close-ok was
sent; the socket is about to close) and `GONE` (the socket is closed).
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Protocol

from pamqp import commands

from leveret.broker.amqp.errors import ConnectionFault, connection_forced
from leveret.broker.net.progress_watch import PROGRESS_MS_MAX
from leveret.broker.protocols.amqp091.connection.handshake import Tuning
from leveret.broker.protocols.amqp091.connection.output import Output
from leveret.broker.runtime.clock import Clock, Timer

HANDSHAKE, RUNNING, CLOSED, GONE = "handshake", "running", "closed", "gone"

CLOSE_TIMEOUT_MS = 30_000
"""Time limit for a client to answer connection.close, or to close its socket."""
SILENT_CLOSE_MS = 3_000
"""RabbitMQ's delay before it disconnects a client that failed to log in; slows guessing."""

logger = logging.getLogger("leveret.connection")


class Closable(Protocol):
    """The connection to close. tuning: the negotiated limits."""

    name: str
    tuning: Tuning
    output: Output

    @property
    def is_readable(self) -> bool:
        """Whether the client's bytes can still be split into frames."""

    def may_send_fault(self, fault: ConnectionFault) -> bool:
        """Whether the client receives this error: always after login, only some before."""

    def release(self) -> None:
        """Release everything that the connection holds."""


class Closing:
    """The state of one connection, and the timer that closes its socket."""

    __slots__ = ("_clock", "_connection", "_timer", "_transport", "state")

    def __init__(self, connection: Closable, clock: Clock) -> None:
        self._connection = connection
        self._clock = clock
        self._timer: Timer | None = None
        self._transport: asyncio.Transport | None = None
        self.state = HANDSHAKE

    def connect(self, transport: asyncio.Transport, handshake_timeout_ms: int | None) -> None:
        """Manage this socket; abort it unless `open` is called within the handshake timeout."""
        self._transport = transport
        if handshake_timeout_ms is not None:
            self._call_later(handshake_timeout_ms, self._handshake_too_long)

    def disconnect(self) -> None:
        """The socket is closed."""
        self.state = GONE
        self._cancel()
        self._transport = None

    def open(self) -> None:
        """The handshake is complete."""
        self.state = RUNNING
        self._cancel()

    @property
    def has_begun(self) -> bool:
        """Whether the state is `CLOSED` or `GONE`."""
        return self.state in (CLOSED, GONE)

    def fail(self, fault: ConnectionFault) -> None:
        """Close the connection because of an error."""
        if self.has_begun:
            return
        connection = self._connection
        if not connection.may_send_fault(fault):
            self.drop_in_silence(fault.reply_text)
            return
        logger.error("closing connection %s: %s", connection.name, fault.reply_text)
        may_answer = self.state is RUNNING and connection.is_readable
        connection.release()
        connection.output.send(
            0,
            commands.Connection.Close,
            reply_code=fault.reply_code,
            reply_text=fault.reply_text,
            class_id=fault.class_id,
            method_id=fault.method_id,
        )
        self.state = CLOSED
        self._abort_later(self._patience_ms() if may_answer else SILENT_CLOSE_MS)

    def force(self, explanation: str) -> None:
        """Close the connection at an operator's request, or because the broker stops."""
        if self.state is RUNNING:
            self.fail(connection_forced(explanation))
        else:
            self.drop()

    def answer(self) -> None:
        """Answer connection.close, after deleting the exclusive queues, as RabbitMQ does."""
        connection = self._connection
        if self.state is HANDSHAKE:
            self.drop_in_silence("the client closed the connection before it was open")
            return
        connection.release()
        connection.output.send(0, commands.Connection.CloseOk)
        if self.state is RUNNING:
            logger.info("closing connection %s: the client closed it", connection.name)
        self.state = CLOSED
        self._abort_later(self._patience_ms())

    def drop(self) -> None:
        """Close the socket after all written output is sent."""
        self._connection.output.flush()
        self.state = GONE
        self._connection.release()
        if self._transport is not None:
            self._transport.close()
            self._abort_later(CLOSE_TIMEOUT_MS)

    def drop_in_silence(self, why: str) -> None:
        """Close the socket after a delay, without sending connection.close."""
        logger.error("closing connection %s: %s", self._connection.name, why)
        self.state = GONE
        self._abort_later(SILENT_CLOSE_MS)

    def drop_silent_peer(self) -> None:
        """Abort the connection: its client sent nothing for the heartbeat timeout."""
        logger.error(
            "closing connection %s: missed heartbeats from client, timeout: %d s",
            self._connection.name, self._connection.tuning.heartbeat_s,
        )  # fmt: skip
        self.state = CLOSED
        self._connection.release()
        self.abort()

    def drop_stuck_peer(self) -> None:
        """Abort the connection: its client does not read what is sent to it."""
        logger.error(
            "closing connection %s: the client has read nothing for %d s",
            self._connection.name, PROGRESS_MS_MAX // 1000,
        )  # fmt: skip
        self.state = CLOSED
        self._connection.release()
        self.abort()

    def abort(self) -> None:
        """Close the socket immediately and discard unsent output."""
        if self._transport is not None:
            self._transport.abort()

    def _handshake_too_long(self) -> None:
        logger.error("closing connection %s: the handshake timed out", self._connection.name)
        self.drop()

    def _patience_ms(self) -> int:
        heartbeat_ms = self._connection.tuning.heartbeat_s * 1000
        return min(heartbeat_ms, CLOSE_TIMEOUT_MS) if heartbeat_ms else CLOSE_TIMEOUT_MS

    def _abort_later(self, delay_ms: int) -> None:
        self._call_later(delay_ms, self.abort)

    def _call_later(self, delay_ms: int, end: Callable[[], None]) -> None:
        self._cancel()
        self._timer = self._clock.call_later_ms(delay_ms, end)

    def _cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
