"""Handles the frames of a connection in order, in turns.

All frames of a read are handled in one turn (broker/runtime/turns.py), as long as there is work
left. A command that waits for an answer, such as that of another node, holds up what comes after
it, so responses have the order of the requests. Meanwhile, and while too much is not confirmed or
an alarm blocks publishers, the socket is not read.
"""

import logging
import struct
from typing import Final, Protocol

from leveret.broker.amqp.errors import Fault
from leveret.broker.events.stream_events import OffsetStored
from leveret.broker.net.held_input import HeldInput, InputConnection
from leveret.broker.protocols.ending import GONE, HANDSHAKE, RUNNING
from leveret.broker.protocols.logging_in import Unexpected
from leveret.broker.protocols.stream import codes, responses
from leveret.broker.protocols.stream.commands import REFUSED_BODIES, StreamCommands
from leveret.broker.protocols.stream.frame_input import FrameInput, FrameTooLarge
from leveret.broker.protocols.stream.login import StreamLogin, StreamLoginConnection
from leveret.broker.protocols.stream.publishers import Publishers
from leveret.broker.protocols.stream.requests import ClientRequest, FrameError, decode_request
from leveret.broker.protocols.stream.serving import (
    READ,
    CommandRefused,
    ServingConnection,
    check,
    code_of,
    find_stream,
    note_error,
)
from leveret.broker.protocols.stream.subscriptions import Subscriptions
from leveret.storage.metadata.metadata import MetadataError

INITIAL_FRAME_BYTES_MAX: Final = 64 * 1024
"""The largest frame of a client that is not logged in: there is room for a token."""
_PUBLISHES: Final = (struct.pack(">HH", codes.PUBLISH, 1), struct.pack(">HH", codes.PUBLISH, 2))

logger = logging.getLogger("leveret.connection")


class StreamInputConnection(ServingConnection, StreamLoginConnection, InputConnection, Protocol):
    """The connection whose frames are handled."""

    @property
    def state(self) -> str:
        """One of the states in protocols/ending.py."""

    def drop(self) -> None:
        """Close the socket after all output is sent."""


class StreamInput(HeldInput):
    """The input of one connection, and the parts that handle it."""

    def __init__(self, connection: StreamInputConnection) -> None:
        super().__init__(connection)
        self._connection = connection
        self._frames = FrameInput(INITIAL_FRAME_BYTES_MAX)
        self._login = StreamLogin(connection)
        self.publishers = Publishers(connection)
        self.subscriptions = Subscriptions(connection)
        self._commands = StreamCommands(connection, self.publishers, self.subscriptions)

    @property
    def is_held(self) -> bool:
        """Whether input waits for an answer, or for confirms."""
        return self._operation is not None or self.publishers.is_full

    def limit(self, frame_bytes_max: int) -> None:
        """Set the largest frame from now on."""
        self._frames.frame_bytes_max = frame_bytes_max

    def release(self) -> None:
        """Forget everything: the connection ends."""
        self.end_operations()
        self.subscriptions.close()
        self.publishers.close()

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
                if not self._frames.take():
                    self.resume()
                    return
                self._handle()
        except FrameTooLarge as error:
            self._frames.clear()
            logger.error("%s: %s", connection.name, error)
            self._fail(codes.FRAME_TOO_LARGE, "frame too large")
            return
        if connection.state is GONE:
            self._frames.clear()
            return
        self.pause()

    def _handle(self) -> None:
        """Handle the frame that was taken."""
        connection, frames = self._connection, self._frames
        state = connection.state
        try:
            if state is RUNNING and frames.data.startswith(_PUBLISHES, frames.begin, frames.end):
                self.publishers.publish(frames.data, frames.begin, frames.end)
                connection.reading.hold_back(is_persistent=True)
                return
            request = decode_request(frames.frame)
        except FrameError as error:
            logger.error("%s: %s", connection.name, error)
            self._fail(codes.UNKNOWN_FRAME, "unknown frame")
            return
        if state is RUNNING:
            self._serve(request)
        elif state is HANDSHAKE:
            self.attempt(self._log_in(request))
        elif request.key == codes.CLOSE | codes.RESPONSE:
            connection.drop()

    def _fail(self, code: int, reason: str) -> None:
        """Close the connection with a code; without a word if the client is not logged in."""
        connection = self._connection
        note_error(connection.services, code)
        if connection.state is HANDSHAKE:
            connection.drop()
        else:
            connection.fail(code, reason)

    async def _log_in(self, request: ClientRequest) -> None:
        connection = self._connection
        try:
            await self._login.handle(request)
        except Unexpected as error:
            logger.error("closing connection %s: %s", connection.name, error)
            connection.drop()

    # Commands

    def _serve(self, request: ClientRequest) -> None:
        """Handle a command of an open connection."""
        key, fields, correlation = request.key, request.fields, request.correlation or 0
        connection = self._connection
        if key == codes.CREDIT:
            self.subscriptions.credit(*fields)
        elif key == codes.STORE_OFFSET:
            self.attempt(self._store_offset(*fields))
        elif key == codes.CONSUMER_UPDATE | codes.RESPONSE:
            self.attempt(self.subscriptions.answer_update(correlation, *fields))
        elif key == codes.METADATA:
            self.attempt(self._send_metadata(correlation, *fields))
        elif key == codes.CLOSE:
            logger.info("closing connection %s: the client closed it", connection.name)
            connection.send(responses.response(codes.CLOSE, correlation, codes.OK))
            connection.drop()
        elif key == codes.SASL_AUTHENTICATE:
            self.attempt(self._login.renew(correlation, *fields))
        elif self._commands.has(key):
            self.attempt(self._respond(request))
        elif key != codes.HEARTBEAT:
            self._fail(codes.UNKNOWN_FRAME, "unknown frame")

    async def _respond(self, request: ClientRequest) -> None:
        connection, key = self._connection, request.key
        code, body = codes.OK, b""
        try:
            body = await self._commands.do(key, request.fields)
        except CommandRefused as refused:
            code = refused.code
        except (Fault, MetadataError) as error:
            logger.error("%s: command %d is refused: %s", connection.name, key, error)
            code = code_of(error) if isinstance(error, Fault) else codes.INTERNAL_ERROR
        if code != codes.OK:
            note_error(connection.services, code)
            body = REFUSED_BODIES.get(key, b"")
        connection.send(responses.response(key, request.correlation or 0, code, body))

    async def _send_metadata(self, correlation: int, names: list[str]) -> None:
        found = await self._commands.metadata(names)
        self._connection.send(responses.metadata_response(correlation, found))

    async def _store_offset(self, reference: str, name: str, offset: int) -> None:
        """Store an offset; it is dropped if there is no such stream, or no permission."""
        connection = self._connection
        try:
            await check(connection, name, READ)
            stream = find_stream(connection, name)
        except CommandRefused:
            logger.warning("%s: an offset in stream '%s' is not stored", connection.name, name)
            return
        stream.store_offset(reference.encode("utf-8", "surrogateescape"), offset)
        tracer = connection.vhost.tracer
        if tracer is not None:
            tracer.stream_changed(OffsetStored(connection.session, stream, reference, offset))

    # Operations that may wait

    def operation_failed(self, error: Exception) -> None:
        """A command has failed."""
        logger.error("%s: a command has failed", self._connection.name, exc_info=error)
        self._fail(codes.INTERNAL_ERROR, "internal error")
