"""Closing a connection: with connection.close, without a reply after a delay, or immediately.

In the state `CLOSING`, connection.close or close-ok was sent, and the socket is about to close.
"""

import logging
from typing import Protocol

from pamqp import commands

from leveret.broker.amqp.errors import ConnectionFault, connection_forced
from leveret.broker.protocols.amqp091.connection.output import Output
from leveret.broker.protocols.ending import (
    CLOSE_TIMEOUT_MS,
    CLOSING,
    GONE,
    HANDSHAKE,
    RUNNING,
    Ending,
)
from leveret.broker.protocols.tuning import Tuning
from leveret.broker.runtime.clock import Clock

SILENT_CLOSE_MS = 3_000
"""RabbitMQ's delay before it disconnects a client that failed to log in; slows guessing."""

logger = logging.getLogger("leveret.connection")


class Closable(Protocol):
    """The connection to close. tuning: the negotiated limits."""

    name: str
    tuning: Tuning

    @property
    def output(self) -> Output:
        """Its output."""

    @property
    def is_readable(self) -> bool:
        """Whether the client's bytes can still be split into frames."""

    def may_send_fault(self, fault: ConnectionFault) -> bool:
        """Whether the client receives this error: always after login, only some before."""

    def release(self) -> None:
        """Release everything that the connection holds."""


class Closing(Ending):
    """The end of one connection."""

    __slots__ = ("_closable",)

    def __init__(self, connection: Closable, clock: Clock) -> None:
        super().__init__(connection, clock)
        self._closable = connection

    def fail(self, fault: ConnectionFault) -> None:
        """Close the connection because of an error."""
        if self.has_begun:
            return
        connection = self._closable
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
        self.state = CLOSING
        self.call_later(self._patience_ms() if may_answer else SILENT_CLOSE_MS, self.abort)

    def force(self, explanation: str) -> None:
        """Close the connection at an operator's request, or because the broker stops."""
        if self.state is RUNNING:
            self.fail(connection_forced(explanation))
        else:
            self.drop()

    def answer(self) -> None:
        """Answer connection.close, after deleting the exclusive queues, as RabbitMQ does."""
        connection = self._closable
        if self.state is HANDSHAKE:
            self.drop_in_silence("the client closed the connection before it was open")
            return
        connection.release()
        connection.output.send(0, commands.Connection.CloseOk)
        if self.state is RUNNING:
            logger.info("closing connection %s: the client closed it", connection.name)
        self.state = CLOSING
        self.call_later(self._patience_ms(), self.abort)

    def drop_in_silence(self, why: str) -> None:
        """Close the socket after a delay, without sending connection.close."""
        logger.error("closing connection %s: %s", self._closable.name, why)
        self.state = GONE
        self.call_later(SILENT_CLOSE_MS, self.abort)

    def _patience_ms(self) -> int:
        heartbeat_ms = self._closable.tuning.heartbeat_s * 1000
        return min(heartbeat_ms, CLOSE_TIMEOUT_MS) if heartbeat_ms else CLOSE_TIMEOUT_MS
