"""Handles the frames of a connection in order, in turns. Compiled.

All frames of a read are handled in one turn (broker/runtime/turns.py), as long as there is work
left. Messages of SEND are gathered in a run (sending.py), which is published before any other frame
is handled. A frame that waits for an answer, such as a permission check of a backend, holds up the
frames after it. Meanwhile, and while an alarm blocks the publisher, the socket is not read.

Frames of a transaction are kept, and are handled at COMMIT as if they had arrived then.
"""

import logging
from collections import deque
from functools import partial
from typing import Final

from leveret.broker.amqp.errors import Fault, internal_error
from leveret.broker.amqp.properties import PropertiesError
from leveret.broker.net.held_input import HeldInput
from leveret.broker.protocols.ending import GONE, HANDSHAKE, RUNNING
from leveret.broker.protocols.stomp.acknowledging import acknowledge
from leveret.broker.protocols.stomp.destinations import QUEUE, TEMP_QUEUE, parse_destination
from leveret.broker.protocols.stomp.errors import StompError, of_fault, processing_error
from leveret.broker.protocols.stomp.frames import (
    SEND,
    FrameScanner,
    Head,
    MalformedFrame,
)
from leveret.broker.protocols.stomp.login import log_in
from leveret.broker.protocols.stomp.message_headers import content_header_of
from leveret.broker.protocols.stomp.sending import Sending, SendUse, add_target, target_of
from leveret.broker.protocols.stomp.serving import StompClient
from leveret.broker.protocols.stomp.stomp_session import StompSession
from leveret.broker.protocols.stomp.subscribing import (
    Subscribing,
    missing_destination,
    not_valid_for,
)
from leveret.broker.protocols.stomp.transactions import Transactions
from leveret.broker.runtime.pending import Answer, Steps
from leveret.broker.sessions import consumer_timeouts, publishing
from leveret.storage.metadata.metadata import MetadataError

INITIAL_FRAME_BYTES_MAX: Final = 64 * 1024
"""The largest frame of a client that is not logged in: there is room for a token."""
FRAME_WORK: Final = 40
"""The work of a frame that is not part of a run, in the units of broker/runtime/turns.py."""
SETTLED: Final = ("ACK", "NACK")
OF_TRANSACTIONS: Final = ("SEND", "ACK", "NACK")
CONNECTS: Final = ("CONNECT", "STOMP")
NAME_BYTES_MAX: Final = 255
_NO_HEADERS: Final[dict[str, str]] = {}

logger = logging.getLogger("leveret.connection")


class StompInput(HeldInput):
    """The input of one connection, and the parts that handle it."""

    def __init__(self, connection: StompClient) -> None:
        super().__init__(connection)
        self._connection = connection
        self._settings = connection.services.config.stomp
        self._flow = connection.services.flow
        self._scanner = FrameScanner(INITIAL_FRAME_BYTES_MAX)
        self._waiting: deque[tuple[Head, bytes]] = deque()
        """Frames to handle before those of the scanner."""
        self._sending: Sending | None = None
        self._transactions = Transactions()
        self.subscribing = Subscribing(connection)

    def open(self, session: StompSession, version: str) -> None:
        """The client has logged in."""
        self._sending = Sending(session)
        self._scanner.frame_bytes_max = self._settings.max_frame_size_bytes
        self._scanner.trims_values = version == "1.0"

    def release(self) -> None:
        """Forget everything: the connection ends."""
        self.end_operations()
        if self._sending is not None:
            self._sending.close()
        self._waiting.clear()
        self._transactions.clear()
        self._scanner.clear()

    # Frames

    def take(self, data: bytes) -> None:
        """Handle the bytes of one read."""
        if self._connection.state is not GONE:
            self._scanner.add(data)
            self.handle()

    def handle(self) -> None:
        """Handle the frames that have come. If some have to wait, the socket is not read."""
        connection = self._connection
        try:
            is_done = self._handle_all()
        except MalformedFrame as malformed:
            logger.error("closing connection %s: a frame is malformed: %s", connection.name,
                         malformed)  # fmt: skip
            connection.drop()
            return
        if connection.state is GONE:
            return
        if is_done:
            self.resume()
        else:
            self.pause()

    def _handle_all(self) -> bool:
        """Handle frames; returns whether all that have come are handled."""
        scanner, waiting, turns = self._scanner, self._waiting, self._turns
        while not self._has_to_wait:
            if turns.work_left <= 0:
                self._publish()
                return False
            if waiting:
                head, body = waiting.popleft()
            elif scanner.take():
                head, body = scanner.head, scanner.body
            else:
                return self._publish()
            use = head.use
            if isinstance(use, SendUse):
                self._send(use, head, body)
            elif self._publish():
                self._handle(head, body)
            else:
                waiting.appendleft((head, body))
        return False

    @property
    def _has_to_wait(self) -> bool:
        connection = self._connection
        return (
            self.is_held or connection.reading.is_blocked
            or connection.state is GONE
        )  # fmt: skip

    # Publishing

    def _send(self, use: SendUse, head: Head, body: bytes) -> None:
        """Add a message to the run."""
        sending = self._sending
        assert sending is not None, "it is logged in"
        if sending.takes(use, len(body)) or self._publish():
            sending.add(use, head.receipt, body)
        else:
            self._waiting.appendleft((head, body))

    def _publish(self) -> bool:
        """Publish the run; returns False if it, or the frames after it, have to wait."""
        sending = self._sending
        if sending is None or not sending.is_any:
            return True
        connection = self._connection
        try:
            if self._flow.is_held:
                if connection.reading.hold_back(sending.is_persistent):
                    assert connection.session is not None, "it is logged in"
                    reason = connection.services.alarms.reason
                    publishing.refuse(connection.session, sending.drop(), reason)
                    return True
                if connection.reading.is_blocked:
                    return False
            steps = sending.publish()
        except Fault as fault:
            self._fail(of_fault(fault))
            return False
        if steps is not None:
            self.attempt(self._finish(steps))
            return not self.is_held and connection.state is not GONE
        target = sending.outruns()
        if target is not None:
            connection.reading.hold_back_for(target.queues)
        return True

    async def _finish(self, steps: Steps) -> None:
        """Finish an operation; a fault ends the connection."""
        try:
            await steps
        except Fault as fault:
            self._fail(of_fault(fault))

    # Other frames

    def _handle(self, head: Head, body: bytes) -> None:
        connection = self._connection
        self._turns.work_left -= FRAME_WORK
        command, session = head.command, connection.session
        if command in CONNECTS:
            if connection.state is HANDSHAKE:
                self.attempt(self._log_in(head))
            else:
                logger.error("closing connection %s: a second %s", connection.name, command)
                connection.drop()
        elif session is None:
            if self._settings.implicit_connect and connection.state is HANDSHAKE:
                self._waiting.appendleft((head, body))
                self.attempt(self._log_in_without_connect())
            else:
                detail = "You must log in using CONNECT first"
                connection.fail(StompError("Illegal command", detail))
        elif connection.state is RUNNING:
            self._serve(session, head, body)

    async def _log_in(self, head: Head) -> None:
        try:
            await log_in(self._connection, head.headers)
        except StompError as error:
            self._fail(error)

    async def _log_in_without_connect(self) -> None:
        try:
            await log_in(self._connection, _NO_HEADERS, is_told=False)
        except StompError as error:
            self._waiting.clear()
            self._fail(error)
            self._connection.drop()

    def _serve(self, session: StompSession, head: Head, body: bytes) -> None:
        """Handle a frame of an open connection."""
        command, headers = head.command, head.headers
        try:
            transaction = headers.get("transaction")
            if (
                transaction is not None
                and command in OF_TRANSACTIONS
                and not self._transactions.is_committing(head)
            ):
                self._transactions.add(transaction, head, body)
                return
            if command == SEND:
                self._begin_send(session, head, body)
                return
            if command in SETTLED:
                steps = acknowledge(
                    session, command, headers, self._connection.version,
                    self._settings.default_nack_requeue,
                )  # fmt: skip
                if steps is not None:
                    self.attempt(self._respond(head, steps))
                    return
            else:
                self.attempt(self._respond(head, self._serve_rarely(session, head)))
                return
        except StompError as error:
            self._fail(error)
            return
        except Fault as fault:
            # As in RabbitMQ, whose channel fails only after the frame has been handled.
            self._send_receipt(head)
            self._fail(of_fault(fault))
            return
        self._send_receipt(head)

    def _send_receipt(self, head: Head) -> None:
        if head.receipt is not None:
            self._connection.output.send_receipt(head.receipt)

    async def _respond(self, head: Head, steps: Steps) -> None:
        """Carry out the steps of a frame, then answer it."""
        connection = self._connection
        try:
            await steps
        except StompError as error:
            self._fail(error)
        except Fault as fault:
            self._fail(of_fault(fault))
        except MetadataError as unwritten:
            logger.error("%s: %s failed: %s", connection.name, head.command, unwritten)
            self._fail(of_fault(internal_error("the declaration could not be written")))
        else:
            if head.command == "DISCONNECT":
                logger.info("closing connection %s: the client closed it", connection.name)
                self._send_receipt(head)
                connection.drop()
            elif head.command not in ("SUBSCRIBE", SEND):
                self._send_receipt(head)

    async def _serve_rarely(self, session: StompSession, head: Head) -> None:
        command, headers = head.command, head.headers
        match command:
            case "SUBSCRIBE":
                synced = await self.subscribing.subscribe(session, headers)
                synced.when_given(partial(self._declared, synced, head))
            case "UNSUBSCRIBE":
                await self.subscribing.unsubscribe(session, headers)
            case "BEGIN":
                self._transactions.begin(headers)
            case "COMMIT":
                self._waiting.extendleft(reversed(self._transactions.commit(headers)))
            case "ABORT":
                self._transactions.abort(headers)
            case "DISCONNECT":
                await session.all_receipts_sent()
            case _:
                detail = f'Could not interpret command "{command}"\n'
                raise StompError("Bad command", detail)

    def _declared(self, synced: Answer[None], head: Head) -> None:
        """The declarations of SUBSCRIBE are on disk: send its receipt."""
        if self._connection.state is not RUNNING:
            return
        try:
            synced.result()
        except MetadataError as error:
            logger.error("%s: SUBSCRIBE failed: %s", self._connection.name, error)
            self._fail(of_fault(internal_error("the declaration could not be written")))
            return
        self._send_receipt(head)

    # The first SEND with a head

    def _begin_send(self, session: StompSession, head: Head, body: bytes) -> None:
        """Resolve the target of a message, and send it. Raises StompError and Fault."""
        headers = head.headers
        if "message-id" in headers:
            raise StompError("Invalid header", "'message-id' is not allowed on 'SEND'.\n")
        text = headers.get("destination")
        if text is None:
            raise missing_destination(SEND)
        target = target_of(session, text)
        reply_to = headers.get("reply-to", "")
        if target is not None and not reply_to.startswith("/temp-queue/"):
            try:
                use = SendUse(target, content_header_of(headers))
            except PropertiesError:
                raise processing_error() from None
            if "transaction" not in headers:
                head.keep_use(use)
            self._send(use, head, body)
            return
        self.attempt(self._respond(head, self._prepare(session, text, head, body)))

    async def _prepare(self, session: StompSession, text: str, head: Head, body: bytes) -> None:
        """Declare the queues that a SEND needs, then handle it again."""
        headers = head.headers
        destination = parse_destination(text, self._settings.default_topic_exchange)
        if destination.kind == TEMP_QUEUE:
            raise not_valid_for(SEND, text)
        names = (destination.exchange, destination.routing_key)
        if any(len(name.encode("utf-8", "surrogateescape")) > NAME_BYTES_MAX for name in names):
            raise processing_error()
        if destination.kind == QUEUE:
            await self.subscribing.declare(session, destination, headers, is_sent=True)
        reply_to = headers.get("reply-to", "")
        if reply_to.startswith("/temp-queue/"):
            reply = parse_destination(reply_to, "")
            queue = await self.subscribing.reply_queue(session, reply.routing_key)
            head = Head(SEND, {**headers, "reply-to": queue}, head.body_bytes, head.receipt)
        add_target(session, text, *names)
        if "transaction" in headers:
            self._transactions.commits(head)
        self._waiting.appendleft((head, body))

    # Deliveries that are held for too long

    def check_consumer_timeout(self, timeout_ms: int) -> None:
        """Close the connection if it holds a delivery unsettled for longer than its timeout."""
        session = self._connection.session
        if session is not None:
            try:
                consumer_timeouts.check(session, timeout_ms)
            except Fault as fault:
                self._fail(of_fault(fault))

    def end_timed_out(self, timeout_ms: int) -> None:
        """Close the connection, because it has held deliveries for too long."""
        session = self._connection.session
        if session is not None:
            try:
                session.fail_timed_out(timeout_ms)
            except Fault as fault:
                self._fail(of_fault(fault))

    # Errors, and operations that may wait

    def _fail(self, error: StompError) -> None:
        self._connection.fail(error)

    def operation_failed(self, error: Exception) -> None:
        """The operation of a frame has failed."""
        logger.error("%s: a frame has failed", self._connection.name, exc_info=error)
        self._fail(of_fault(internal_error("internal error")))
