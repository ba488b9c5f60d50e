"""Handles the frames of a connection of AMQP 1.0 in order, in turns. Compiled.

All frames of a read are handled in one turn (broker/runtime/turns.py), as long as there is work
left. A performative that waits for an answer, such as an attach whose queue is declared, holds up
the frames after it. Meanwhile, and while an alarm blocks publishers, the socket is not read.

Transfers, flows and dispositions are read without an object for each (session_frames.py).
Consecutive messages and settlements are handled together, when a frame of another kind or of
another session comes, and at the end of the read.
"""

import logging
from typing import Final, Protocol

from mypy_extensions import i64

from leveret.broker.amqp.errors import ChannelFault, Fault
from leveret.broker.amqp.json_form import text
from leveret.broker.amqp10.values import Amqp10Error
from leveret.broker.net.held_input import HeldInput, InputConnection
from leveret.broker.protocols.amqp10 import attaching, management_links
from leveret.broker.protocols.amqp10.addresses import AddressError
from leveret.broker.protocols.amqp10.amqp10_session import Amqp10Session
from leveret.broker.protocols.amqp10.conditions import (
    FRAMING_ERROR,
    ILLEGAL_STATE,
    INTERNAL_ERROR,
    PRECONDITION_FAILED,
    UNATTACHED_HANDLE,
    ConnectionEnds,
    SessionEnds,
)
from leveret.broker.protocols.amqp10.frame_input import FrameError, FrameInput
from leveret.broker.protocols.amqp10.incoming_link import IncomingLink
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
from leveret.broker.protocols.amqp10.publishing_outcomes import SETTLED_BY_CLIENT
from leveret.broker.protocols.amqp10.session_frames import (
    ACCEPTED,
    DISPOSITION,
    TRANSFER,
    SessionFrame,
)
from leveret.broker.protocols.amqp10.session_windows import INCOMING_WINDOW
from leveret.broker.protocols.ending import GONE, HANDSHAKE, RUNNING
from leveret.broker.protocols.logging_in import Unexpected
from leveret.broker.runtime.pending import Steps
from leveret.broker.sessions import consumer_timeouts
from leveret.storage.metadata.metadata import MetadataError

INITIAL_FRAME_BYTES_MAX: Final = 64 * 1024
"""The largest frame of a client that is not logged in: there is room for a token."""
PERFORMATIVE_WORK: Final = 50
"""The work of a performative of which an object is made (broker/runtime/turns.py)."""

logger = logging.getLogger("leveret.connection")


class IncomingConnection(LoginConnection, InputConnection, Protocol):
    """The connection whose frames are handled. channel_max: the highest that both ends allow."""

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
    """The input of one connection. sessions: the sessions by channel."""

    __slots__ = (
        "_active", "_connection", "_ended", "_excess", "_frame", "_frames", "_has_frame",
        "_login", "_operating", "sessions",
    )  # fmt: skip

    def __init__(self, connection: IncomingConnection) -> None:
        super().__init__(connection)
        self._connection = connection
        self._frames = FrameInput(INITIAL_FRAME_BYTES_MAX)
        self._frame = SessionFrame()
        self._operating: Amqp10Session | None = None
        # The session whose last frames may not have been handled completely.
        self._active: Amqp10Session | None = None
        self._has_frame = False
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
        self._operating = self._active = None
        self._has_frame = False
        sessions, self.sessions = self.sessions, {}
        for session in sessions.values():
            session.release()

    # Frames

    def take(self, data: bytes) -> None:
        """Handle the bytes of one read."""
        if self._connection.state is GONE:
            return
        self._frames.add(data)
        self.handle_read(len(data))

    def handle(self) -> None:
        """Handle the frames that have come. If some have to wait, the socket is not read."""
        connection = self._connection
        try:
            if self._handle_frames():
                self.resume()
                return
        except Unexpected as unexpected:
            logger.error("closing connection %s: %s", connection.name, unexpected)
            connection.drop()
        except FrameError as no_frame:
            self._close(Error(FRAMING_ERROR, str(no_frame)), drops=True)
        except Amqp10Error as invalid:
            self._close(Error(INTERNAL_ERROR, f"a frame is not valid: {invalid}"))
        except ConnectionEnds as end:
            self._close(end.error)
        if connection.state is GONE:
            self._frames.clear()
            return
        self.pause()

    def _handle_frames(self) -> bool:
        """Handle frames; returns whether none is left that is complete."""
        connection = self._connection
        state = connection.state
        while state is not GONE and not self.has_to_wait:
            if not self._has_frame and not self._take_frame():
                self._end_runs()
                return not self.is_held
            is_handled = state is RUNNING and self._handle_frequent()
            if is_handled:
                self._has_frame = False
                continue
            if self._active is not None:
                # The frame is handled after the frames before it.
                self._end_runs()
            elif self._has_frame:
                self._has_frame = False
                self._handle_frame()
            state = connection.state
        self._end_runs()
        return False

    def _take_frame(self) -> bool:
        """Take the next frame, or a protocol header; returns False if it is not complete."""
        if self._connection.state is HANDSHAKE and self._login.expects_header:
            header = self._frames.take_protocol_header()
            if header is None:
                return False
            self._login.take_header(header)
            return True
        self._has_frame = self._frames.take()
        return self._has_frame

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

    # Frequent frames

    def _handle_frequent(self) -> bool:
        """Handle a frame if it is a frequent one, and the frames before it are handled or are of
        the same session. Returns whether it is handled.
        """
        frames, frame = self._frames, self._frame
        if frames.kind != AMQP_FRAME or not frame.read(frames.data, frames.begin, frames.end):
            return False
        session = self.sessions.get(int(frames.channel))
        if session is None or (session is not self._active and self._active is not None):
            return False
        code = frame.code
        is_handled = True
        try:
            if code == TRANSFER:
                link = session.incoming.get(int(frame.handle))
                if link is None or link.is_management:
                    return False
                self._active = session
                self._transfer(session, link, frames.data, frame.end, frames.end)
            elif code == DISPOSITION:
                if not frame.is_receiver or not frame.is_settled or frame.outcome != ACCEPTED:
                    return False
                is_handled = session.settling.accept(session, frame.first, frame.last)
                self._active = session if is_handled else self._active
            else:
                session.settling.flush()
                is_handled = session.credit_link(frame)
        except (SessionEnds, Fault) as error:
            self._end_runs()
            self._refuse(session, int(frame.handle) if code == TRANSFER else None, error)
        self._turns.work_left -= 1
        return is_handled

    def _transfer(
        self, session: Amqp10Session, link: IncomingLink, data: bytes, at: i64, end: i64
    ) -> None:
        """Handle a transfer. The bytes of its message, or of a part, are from `at` to `end`."""
        frame = self._frame
        session.windows.received()
        if frame.has_more or frame.is_aborted or link.has_parts:
            whole = link.take_part(frame, data[at:end])
            if whole is None:
                return
            data, at, end = whole, 0, len(whole)
        else:
            link.begin(frame)
            link.check_size(int(end - at))
        link.count()
        if link.credit < 0:
            session.detach_over_limit(link)
        elif link.is_management:
            self._run(session, self._manage(session, link, data[at:end]))
        else:
            self._add_message(session, link, data, at, end)

    def _add_message(
        self, session: Amqp10Session, link: IncomingLink, data: bytes, at: i64, end: i64
    ) -> None:
        """Add the message in these bytes to the run of its session."""
        publisher = session.publisher
        try:
            is_of_run = publisher.read(session, link, data, at, end)
        except AddressError as error:
            self._publish(session)
            delivery_ids = [SETTLED_BY_CLIENT if link.is_settled else link.delivery_id]
            session.refuse(link, delivery_ids, Error(PRECONDITION_FAILED, text(str(error))))
            return
        if not is_of_run:
            self._publish(session)
            if session.incoming.get(link.handle) is not link:
                return
        publisher.add(link)

    def _end_runs(self) -> None:
        """Publish the messages and settle the deliveries of the frames that came before."""
        session = self._active
        if session is None or self.is_held:
            return
        self._active = None
        session.settling.flush()
        self._publish(session)

    def _publish(self, session: Amqp10Session) -> None:
        """Publish the run of a session."""
        publisher = session.publisher
        link = publisher.link
        if link is None:
            return
        count, is_persistent, is_much = (
            publisher.message_count, publisher.is_persistent, publisher.is_much,
        )  # fmt: skip
        steps: Steps | None = None
        try:
            steps = session.publish()
            if steps is not None:
                self._run(session, steps)
        except (SessionEnds, Fault) as error:
            session.forget_unpublished()
            self._refuse(session, link.handle, error)
            return
        self._hold_back(count, is_persistent)
        if is_much:
            self._reading.hold_back_for(publisher.queues)

    def _hold_back(self, count: int, is_persistent: bool) -> None:
        """The client has published: stop reading its socket if necessary.

        During an alarm the windows of its sessions are closed. Its socket is still read, so that it
        can settle deliveries, unless more transfers arrive than one window allows.
        """
        if self._services.alarms.are_in_force:
            self._excess += count
            if self._excess <= INCOMING_WINDOW:
                return
        else:
            self._excess = 0
        self._reading.hold_back(is_persistent)

    def _refuse(
        self, session: Amqp10Session, handle: int | None, error: SessionEnds | Fault
    ) -> None:
        """End a link, or its session, with an error. handle: the link's; None without a link."""
        is_of_link = isinstance(error, (SessionEnds, ChannelFault)) and handle in session.incoming
        if is_of_link and handle is not None and session.is_as_rabbitmq_4_3:
            session.detach_with(handle, error)
        else:
            self._fail(session, error)

    # Other frames

    def _handle_frame(self) -> None:
        """Handle a frame of any kind."""
        connection, frames = self._connection, self._frames
        if frames.begin == frames.end:
            return
        if frames.kind not in (AMQP_FRAME, SASL_FRAME):
            raise FrameError(f"there is no frame of type {frames.kind}")
        self._turns.work_left -= PERFORMATIVE_WORK
        performative, at = read_performative(frames.data[frames.begin : frames.end])
        if connection.state is HANDSHAKE:
            self._run(None, self._log_in(performative))
        else:
            payload = frames.data[frames.begin + at : frames.end]
            self._handle(int(frames.channel), performative, payload)

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
        try:
            if isinstance(performative, Transfer):
                self._handle_transfer(session, performative, payload)
            elif isinstance(performative, Disposition):
                self._run(session, session.disposition(performative))
            elif isinstance(performative, Flow):
                session.flow(performative)
            elif isinstance(performative, Attach):
                self._run(session, attaching.attach(session, performative))
            elif isinstance(performative, Detach):
                self._run(session, session.detach(performative))
            elif isinstance(performative, End):
                self._end(session)
            else:
                name = type(performative).__name__.lower()
                raise ConnectionEnds(ILLEGAL_STATE, f"{name} is not expected in a session")
        except (SessionEnds, Fault) as error:
            self._fail(session, error)

    def _handle_transfer(self, session: Amqp10Session, transfer: Transfer, payload: bytes) -> None:
        """Handle a transfer of an unusual form, or to a link for management."""
        handle = transfer.handle
        link = session.incoming.get(handle)
        if link is None:
            raise SessionEnds(UNATTACHED_HANDLE, f"Unknown link handle: {handle}")
        self._frame.take_transfer(transfer)
        self._active = session
        try:
            self._transfer(session, link, payload, 0, len(payload))
        except (SessionEnds, Fault) as error:
            self._refuse(session, handle, error)

    async def _manage(self, session: Amqp10Session, link: IncomingLink, payload: bytes) -> None:
        pair = session.pairs[link.name]
        answer = await management_links.answer(session, pair, payload)
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
        if self._active is session:
            self._active = None
        session.send_outcomes()
        told = session.error_of(error)
        session.fail(told)
        session.send(End(told))

    def end_session(self, session: Amqp10Session, error: SessionEnds) -> None:
        """End a session with an error, unless it has ended."""
        if self.sessions.get(session.channel) is session:
            self._fail(session, error)

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
