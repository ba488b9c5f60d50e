"""Handles the frames of a connection of AMQP 1.0 in order, in turns.

All frames of a read are handled in one turn (broker/runtime/turns.py), as long as there is work
left. A performative that waits for an answer, such as an attach whose queue is declared, holds up
what comes after it. Meanwhile, and while an alarm blocks publishers, the socket is not read.
"""

import logging
from typing import Final, Protocol

from leveret.broker.amqp.errors import ChannelFault, Fault
from leveret.broker.amqp10.values import Amqp10Error
from leveret.broker.net.held_input import HeldInput, InputConnection
from leveret.broker.protocols.amqp10 import attaching, management_links
from leveret.broker.protocols.amqp10.amqp10_session import INCOMING_WINDOW, Amqp10Session
from leveret.broker.protocols.amqp10.conditions import (
    FRAMING_ERROR,
    ILLEGAL_STATE,
    INTERNAL_ERROR,
    ConnectionEnds,
    SessionEnds,
    error_of,
)
from leveret.broker.protocols.amqp10.frame_input import FrameError, FrameInput
from leveret.broker.protocols.amqp10.incoming_link import IncomingLink, IncomingMessage
from leveret.broker.protocols.amqp10.login import Login, LoginConnection
from leveret.broker.protocols.amqp10.performatives import (
    AMQP_FRAME,
    SASL_FRAME,
    Attach,
    Begin,
    Close,
    Detach,
    Disposition,
    End,
    Error,
    Flow,
    Performative,
    Transfer,
    read_performative,
)
from leveret.broker.protocols.ending import GONE, HANDSHAKE, RUNNING
from leveret.broker.protocols.logging_in import Unexpected
from leveret.broker.runtime.pending import Steps
from leveret.broker.sessions import consumer_timeouts
from leveret.storage.metadata.metadata import MetadataError

INITIAL_FRAME_BYTES_MAX: Final = 64 * 1024
"""The largest frame of a client that is not logged in: there is room for a token."""
MESSAGE_WORK: Final = 40
"""The work of a message whose sections are decoded (broker/runtime/turns.py)."""

logger = logging.getLogger("leveret.connection")


class IncomingConnection(LoginConnection, InputConnection, Protocol):
    """The connection whose frames are handled. channel_max: the highest of both."""

    channel_max: int

    @property
    def state(self) -> str:
        """One of the states in protocols/ending.py."""

    def new_session(self, channel: int, request: Begin) -> Amqp10Session:
        """The session that a client begins."""

    def fail(self, error: Error) -> None:
        """Close the connection with an error."""

    def closed_by_client(self) -> None:
        """The client has closed the connection, or answered its close."""


class Incoming(HeldInput):
    """The input of one connection. sessions: by their channels."""

    def __init__(self, connection: IncomingConnection) -> None:
        super().__init__(connection)
        self._connection = connection
        self._frames = FrameInput(INITIAL_FRAME_BYTES_MAX)
        self._operating: Amqp10Session | None = None
        self._excess = 0
        self._login = Login(connection)
        self.sessions: dict[int, Amqp10Session] = {}
        self._ended: set[int] = set()

    def limit(self, frame_bytes_max: int) -> None:
        """The largest frame from now on."""
        self._frames.frame_bytes_max = frame_bytes_max

    def release(self) -> None:
        """Forget everything: the connection ends."""
        self.end_operations()
        self._operating = None
        sessions, self.sessions = self.sessions, {}
        for session in sessions.values():
            session.release()

    # Frames

    def take(self, data: bytes) -> None:
        """Handle the bytes of one read."""
        if self._connection.state is not GONE:
            self._frames.add(data)
            self.handle()

    def handle(self) -> None:
        """Handle the frames that have come. If some have to wait, the socket is not read."""
        connection = self._connection
        try:
            while connection.state is not GONE and not self.has_to_wait:
                if not self._handle_next():
                    self.resume()
                    return
        except Unexpected as error:
            logger.error("closing connection %s: %s", connection.name, error)
            connection.drop()
        except FrameError as error:
            self._close(Error(FRAMING_ERROR, str(error)), drops=True)
        except Amqp10Error as error:
            self._close(Error(INTERNAL_ERROR, f"a frame is not valid: {error}"))
        except ConnectionEnds as error:
            self._close(error.error)
        if connection.state is GONE:
            self._frames.clear()
            return
        self.pause()

    def _close(self, error: Error, *, drops: bool = False) -> None:
        """Close the connection with an error; without a word if the client is not logged in."""
        connection = self._connection
        self._frames.clear()
        if connection.state is HANDSHAKE:
            logger.error("closing connection %s: %s", connection.name, error.description)
            connection.drop()
            return
        connection.fail(error)
        if drops:
            connection.drop()

    def _handle_next(self) -> bool:
        """Handle the next frame; returns False if it is not complete."""
        connection, frames = self._connection, self._frames
        if connection.state is HANDSHAKE and self._login.expects_header:
            header = frames.take_protocol_header()
            if header is None:
                return False
            self._login.take_header(header)
            return True
        if not frames.take():
            return False
        if frames.begin == frames.end:
            return True
        if frames.kind not in (AMQP_FRAME, SASL_FRAME):
            raise FrameError(f"there is no frame of type {frames.kind}")
        performative, at = read_performative(frames.data[frames.begin : frames.end])
        if connection.state is HANDSHAKE:
            self._run(None, self._log_in(performative))
        else:
            payload = frames.data[frames.begin + at : frames.end]
            self._handle(frames.channel, performative, payload)
        return True

    async def _log_in(self, performative: Performative) -> None:
        connection = self._connection
        try:
            await self._login.handle(performative)
        except (Unexpected, Fault, ConnectionEnds) as error:
            logger.error("closing connection %s: %s", connection.name, error)
            connection.drop()

    def _handle(self, channel: int, performative: Performative, payload: bytes) -> None:
        connection = self._connection
        if isinstance(performative, Close):
            connection.closed_by_client()
        elif connection.state is not RUNNING:
            return
        elif isinstance(performative, Begin):
            self._begin(channel, performative)
        elif channel in self._ended:
            if isinstance(performative, End):
                self._ended.discard(channel)
        else:
            session = self.sessions.get(channel)
            if session is None:
                name = type(performative).__name__.lower()
                raise ConnectionEnds(ILLEGAL_STATE, f"{name} on channel {channel} without session")
            self._handle_in(session, performative, payload)

    # Sessions

    def _begin(self, channel: int, request: Begin) -> None:
        connection = self._connection
        if channel > connection.channel_max:
            raise ConnectionEnds(
                FRAMING_ERROR,
                f"channel number ({channel}) exceeds maximum channel number "
                f"({connection.channel_max})",
            )
        if channel in self.sessions or channel in self._ended:
            raise ConnectionEnds(ILLEGAL_STATE, f"channel {channel} has a session already")
        session = self.sessions[channel] = connection.new_session(channel, request)
        session.send(session.begun())

    def _handle_in(
        self, session: Amqp10Session, performative: Performative, payload: bytes
    ) -> None:
        """Handle a performative of a session."""
        self._turns.work_left -= 1
        try:
            match performative:
                case Transfer():
                    self._transfer_or_detach(session, performative, payload)
                case Disposition():
                    self._run(session, session.disposition(performative))
                case Flow():
                    session.flow(performative)
                case Attach():
                    self._run(session, attaching.attach(session, performative))
                case Detach():
                    self._run(session, session.detach(performative))
                case End():
                    self._end(session)
                case _:
                    name = type(performative).__name__.lower()
                    raise ConnectionEnds(ILLEGAL_STATE, f"{name} is not expected in a session")
        except (SessionEnds, Fault) as error:
            self._fail(session, error)

    def _transfer_or_detach(
        self, session: Amqp10Session, transfer: Transfer, payload: bytes
    ) -> None:
        try:
            self._transfer(session, transfer, payload)
        except (SessionEnds, ChannelFault) as error:
            if not session.detaches_links or transfer.handle not in session.incoming:
                raise
            session.detach_with(transfer.handle, error)

    def _transfer(self, session: Amqp10Session, transfer: Transfer, payload: bytes) -> None:
        link = session.transferred(transfer)
        message = link.take(transfer, payload)
        if message is None:
            return
        if link.credit < 0:
            session.detach_over_limit(link)
        elif link.is_management:
            self._run(session, self._manage(session, link, message))
        else:
            self._turns.work_left -= MESSAGE_WORK
            steps = session.publish(link, message)
            self._hold_back()
            if steps is not None:
                self._run(session, steps)

    def _hold_back(self) -> None:
        """The client has published: stop reading it if need be.

        An alarm has closed the windows of its sessions. It is read on, so that it can settle what
        it consumes, unless more is still under way than one window.
        """
        if self._connection.services.alarms.are_in_force:
            self._excess += 1
            if self._excess <= INCOMING_WINDOW:
                return
        else:
            self._excess = 0
        self._connection.reading.hold_back(is_persistent=True)

    async def _manage(
        self, session: Amqp10Session, link: IncomingLink, message: IncomingMessage
    ) -> None:
        pair = session.pairs[link.name]
        answer = await management_links.answer(session, pair, message.payload)
        session.send_answer(pair, answer)
        if link.needs_credit:
            session.give_credit(link)

    def _end(self, session: Amqp10Session) -> None:
        del self.sessions[session.channel]
        session.send_outcomes()
        session.release()
        session.send(End())

    def _fail(self, session: Amqp10Session, error: SessionEnds | Fault) -> None:
        """End a session with an error."""
        if self.sessions.pop(session.channel, None) is None:
            return
        self._ended.add(session.channel)
        session.send_outcomes()
        told = error.error if isinstance(error, SessionEnds) else error_of(error)
        session.fail(told)
        session.send(End(told))

    def check_consumer_timeout(self, timeout_ms: int) -> None:
        """End each session that holds a delivery unsettled for longer than its timeout."""
        for session in list(self.sessions.values()):
            try:
                consumer_timeouts.check(session, timeout_ms)
            except Fault as fault:
                self._fail(session, fault)

    def end_timed_out(self, channel: int, timeout_ms: int) -> None:
        """End a session that has held deliveries for too long."""
        session = self.sessions.get(channel)
        if session is not None:
            try:
                session.fail_timed_out(timeout_ms)
            except Fault as fault:
                self._fail(session, fault)

    # Operations that may wait

    def _run(self, session: Amqp10Session | None, steps: Steps) -> None:
        """Run the steps of a performative; input waits until they have ended."""
        self._operating = session
        try:
            self.run(steps)
        except (SessionEnds, ChannelFault):
            raise
        except Exception as error:
            self.operation_failed(error)

    def operation_failed(self, error: Exception) -> None:
        """The operation of a performative has failed."""
        session = self._operating
        if session is not None and isinstance(error, (SessionEnds, Fault)):
            self._fail(session, error)
            return
        name = self._connection.name
        if isinstance(error, MetadataError):
            logger.error("%s: a change cannot be written: %s", name, error)
        else:
            logger.error("%s: an operation has failed", name, exc_info=error)
        self._close(Error(INTERNAL_ERROR, "internal error"))
