"""A link on which a client gets messages: a consumer whose room is the client's credit. Compiled.

Each message is written as a transfer, or as several if it is larger than the client's frames. The
delivery-id of a message is its delivery tag in the session, less one.
"""

import logging
from functools import partial
from typing import Final, Protocol

from librt.strings import BytesWriter
from mypy_extensions import i64

from leveret.broker.amqp.field_table import Table
from leveret.broker.net.socket_output import SocketOutput
from leveret.broker.protocols.amqp10.conditions import SessionEnds, size_error
from leveret.broker.protocols.amqp10.delivery_writing import DeliveryWriter
from leveret.broker.protocols.amqp10.performatives import SETTLED, Attach, kept_of
from leveret.broker.protocols.amqp10.session_windows import SessionWindows
from leveret.broker.protocols.amqp10.transfer_frames import SERIAL, credit_left
from leveret.broker.queues.contract.queue_client import UNLIMITED, QueueClient, QueueLength
from leveret.broker.queues.contract.queue_kind import QUORUM
from leveret.broker.runtime.pending import Answer
from leveret.broker.sessions.interceptors import message_to_send
from leveret.broker.sessions.session import Session
from leveret.broker.sessions.session_consumer import SessionConsumer
from leveret.broker.sessions.unacked_record import Unacked
from leveret.storage.messages.message import Entry, Message

logger = logging.getLogger("leveret.connection")

_WRITER: Final = BytesWriter()
"""Emptied at the beginning of each `OutgoingLink.deliver`."""
FRAME_BYTES_GUESS: Final = 192
"""Approximate bytes of a delivery besides its body, to notice clients that read too slowly."""
FIRST_TRANSFERS_MS: Final = 10
"""The time between the answer to an attach, and the first transfers, if the client has given credit
without waiting for the answer (`OutgoingLink.begin`)."""


class LinkSession(Protocol):
    """The session of a link, as the link sees it. frame_bytes_max: the client's limit."""

    frame_bytes_max: int
    channel: int
    windows: SessionWindows
    output: SocketOutput

    def send_link_flow(self, link: "OutgoingLink", *, drained: bool) -> None:
        """Tell the client the state of a link."""

    def send_link_active(self, link: "OutgoingLink", is_active: bool) -> None:
        """Tell the client whether its link is one that gets messages."""

    def send_released(self, tags: list[int]) -> None:
        """Tell the client that a queue has taken back deliveries. tags: in ascending order."""

    def link_lost(self, link: "OutgoingLink", is_deleted: bool) -> None:
        """The queue of a link is gone: detach the link."""

    def end_with(self, error: SessionEnds) -> None:
        """End the session with an error when the round has ended."""


class OutgoingLink(SessionConsumer):
    """One link to a client.

    request: the client's attach, without properties; its source has the filters in force. handle:
    its number for the client and the broker. is_settled: messages are sent settled. delivery_count:
    the number of messages that were sent, and of credit that a drain used up. link_credit: the
    number of messages that may still be sent. is_draining: the client waits until the credit is
    used up, or no message is left. Since RabbitMQ 4.3, clients of quorum queues are told whether a
    link is active: with its first credit, and when that changes.
    """

    __slots__ = (
        "_deliveries",
        "_given",
        "_is_active",
        "_is_active_told",
        "_is_beginning",
        "_is_ending",
        "_link_session",
        "_message_bytes_max",
        "_output",
        "_windows",
        "delivery_count",
        "handle",
        "is_draining",
        "is_settled",
        "link_credit",
        "request",
    )  # fmt: skip

    def __init__(
        self,
        session: Session,
        link_session: LinkSession,
        queue: QueueClient,
        tag: str,
        request: Attach,
        no_ack: bool,
        arguments: Table,
    ) -> None:
        super().__init__(session, queue, tag, no_ack, False, arguments)
        self._link_session = link_session
        self._windows = link_session.windows
        self._output = link_session.output
        self.request = kept_of(request)
        self.handle = request.handle
        self.is_settled = request.snd_settle_mode == SETTLED
        self._deliveries = DeliveryWriter(
            link_session.channel, self.handle, self.is_settled, link_session.frame_bytes_max
        )
        self._given = session.services.counts.given_in_amqp10[queue.kind.module]
        self._is_active = not queue.options.single_active_consumer
        is_4_3 = session.services.config.is_as_rabbitmq_4_3
        self._is_active_told = not is_4_3 or queue.kind.name != QUORUM
        self._is_beginning = False
        self._is_ending = False
        self._message_bytes_max = request.max_message_size or 0
        self.delivery_count = 0
        self.link_credit = 0
        self.is_draining = False
        self.prefetch_count = 0
        self.credit = self._credit_max()

    def room(self) -> int:
        """The number of messages that it takes now."""
        windows = self._windows
        if self._is_beginning or self.session.has_ended or not windows.has_room:
            return 0
        return min(self.link_credit, windows.room)

    def settled(self) -> None:
        """The client has settled one message. Only its flows give credit."""
        self.credit += 1

    def _credit_max(self) -> int:
        return UNLIMITED

    # Beginning

    def begin(self) -> None:
        """The answer to the attach is about to be sent: give its client time to read it alone.

        A client that gives credit without waiting for the answer may read the answer together with
        transfers, while it is not ready for them: RabbitMQ's Python client calls the handler of
        messages before the consumer is returned to the program. RabbitMQ is slow enough that the
        first transfers come later. A client that has waited for the answer is ready.
        """
        self._is_beginning = True
        self.session.vhost.turns.after_round(self._end_first_round)

    def _end_first_round(self) -> None:
        """The answer has been sent, and all that the client sent with its attach is handled."""
        if self.link_credit:
            self.session.services.clock.call_later_ms(FIRST_TRANSFERS_MS, self._end_beginning)
        else:
            self._end_beginning()

    def _end_beginning(self) -> None:
        self._is_beginning = False
        session = self.session
        if not session.has_ended and session.consumers.get(self.tag) is self:
            self._use_credit()

    # Delivering

    def deliver(self, entries: list[Entry]) -> None:
        """Send messages to the client, and record them as unsettled unless they are settled."""
        session, queue, windows, deliveries = (
            self.session, self.queue, self._windows, self._deliveries,
        )  # fmt: skip
        writer = _WRITER
        writer.truncate(0)
        first = session.next_delivery_tag
        tag: i64 = first
        records = None if self.is_settled else session.unacked.records
        now_ms = session.vhost.turns.now_ms
        total_bytes: i64 = 0
        written = 0
        changed = session.intercepts_outgoing or self._message_bytes_max > 0
        messages = self._messages_to_send(entries) if changed else None
        if messages is not None and records is None:
            # The queue has removed what is not sent, and delivery-ids have no gaps.
            entries = [one for one, sent in zip(entries, messages, strict=True) if sent is not None]
            messages = [sent for sent in messages if sent is not None]
        for place, entry in enumerate(entries):
            message = entry.message if messages is None else messages[place]
            if message is None:
                pass
            elif not windows.keeps and deliveries.write(
                writer, message, entry.redelivered, tag - 1
            ):
                total_bytes += FRAME_BYTES_GUESS + len(message.body)
                written += 1
            else:
                self._take_over(writer, written)
                written = 0
                windows.send(deliveries.pieces(message, entry.redelivered, tag - 1))
            if records is not None:
                records[int(tag)] = Unacked(entry, queue, self, now_ms)
            tag += 1
        self._take_over(writer, written)
        session.next_delivery_tag = int(tag)
        count = len(entries)
        self.link_credit = 0 if self._is_ending else self.link_credit - count
        self.delivery_count = (self.delivery_count + count) % SERIAL
        self._output.gathered(int(total_bytes))
        self.note_delivered(entries, first)
        self._count(entries)
        if self.is_settled and not self.no_ack:
            # A log counts acknowledgements, and needs none.
            self.credit += count
            queue.ack(entries)
        if self.is_draining:
            self._look_whether_drained()

    def _messages_to_send(self, entries: list[Entry]) -> list[Message | None]:
        """The messages as the client gets them; None for one that is not sent.

        A message that is too large for the client ends the session, as in RabbitMQ: unsettled
        messages go back to their queues. On a settled link only messages that are too large are
        lost; the others of the run are sent before the end.
        """
        session = self.session
        found: list[Message | None] = []
        for entry in entries:
            message: Message | None = entry.message
            if session.intercepts_outgoing:
                message = message_to_send(session, self.queue.name, entry.message)
            if message is not None and self._message_bytes_max:
                error = self._error_of_size(message, entry.redelivered)
                if error is not None and not self._is_ending:
                    self._is_ending = True
                    self._link_session.end_with(error)
                if error is not None or (self._is_ending and not self.is_settled):
                    message = None
            found.append(message)
        return found

    def _error_of_size(self, message: Message, redelivered: bool) -> SessionEnds | None:
        """The error that ends the session if the message is too large for the client."""
        size = len(self._deliveries.payload(message, redelivered))
        size_max = self._message_bytes_max
        return size_error(size, size_max) if size > size_max else None

    def _count(self, entries: list[Entry]) -> None:
        """Count messages that were sent by the kind of their queue, for metrics."""
        given = self._given
        if self.no_ack:
            given.delivered_no_ack += len(entries)
        else:
            given.delivered += len(entries)
        if self.queue.may_redeliver:
            given.redelivered += sum([entry.redelivered for entry in entries])

    def settled_at_once(self, count: int) -> None:
        """The client has accepted and settled this many messages. Only its flows give credit."""
        self.credit += count
        self._given.acked += count

    def _take_over(self, writer: BytesWriter, count: int) -> None:
        """Append the written frames, this many, to the connection's output."""
        if count:
            self._output.pieces.append(writer.getvalue())
            writer.truncate(0)
            self._windows.sent(count)

    # Credit

    def flow(self, delivery_count: int | None, link_credit: int, drain: bool) -> None:
        """The client has changed the credit."""
        # Before it has seen our attach, a client does not know our count, which begins at 0.
        self.link_credit = credit_left(delivery_count or 0, link_credit, self.delivery_count)
        self.is_draining = drain
        if not self._is_active_told and self.link_credit:
            self._is_active_told = True
            self._link_session.send_link_active(self, self._is_active)
        if not self._is_beginning:
            self._use_credit()

    def _use_credit(self) -> None:
        """Ask the queue for messages, if it has not sent them for a lack of room."""
        if self.is_waiting and self.link_credit:
            self.queue.credit(self)
        if self.is_draining:
            self._look_whether_drained()

    def active_changed(self, is_active: bool) -> None:
        """The link has become the queue's single active consumer, or ceased to be it."""
        has_changed, self._is_active = is_active != self._is_active, is_active
        session = self.session
        if has_changed and self._is_active_told and session.services.config.is_as_rabbitmq_4_3:
            self._link_session.send_link_active(self, is_active)

    def window_opened(self) -> None:
        """Transfers may be sent again."""
        if self.is_waiting and self.link_credit:
            self.queue.credit(self)

    def _look_whether_drained(self) -> None:
        """Ask the queue for more messages; the answer comes after those for this link."""
        if not self.link_credit:
            self._end_drain()
            return
        if not self.queue.kind.removes_messages:
            # Skipping filtered messages may take several rounds: the log reports its end.
            self.queue.credit(self)
            return
        # The link gets the messages that are ready now before the end of the round.
        self.session.vhost.turns.after_round(partial(self._ask_length, self.delivery_count))

    def _ask_length(self, delivery_count: int) -> None:
        answer: Answer[QueueLength] = Answer()
        answer.when_given(partial(self._counted, answer, delivery_count))
        self.queue.length(answer)

    def _counted(self, answer: Answer[QueueLength], delivery_count: int) -> None:
        """The queue has said how many messages are ready. delivery_count: when it was asked."""
        if not self.is_draining or delivery_count != self.delivery_count or self.session.has_ended:
            return
        if not answer.result().ready_count:
            self._end_drain()

    def caught_up(self) -> None:
        """A log has no further messages for the link now."""
        if self.is_draining and not self.session.has_ended:
            self._end_drain()

    def _end_drain(self) -> None:
        self.is_draining = False
        self.delivery_count = (self.delivery_count + self.link_credit) % SERIAL
        self.link_credit = 0
        self._link_session.send_link_flow(self, drained=True)

    # The queue

    def queue_replaced(self, queue: QueueClient) -> None:
        """Another object stands for the queue from now on, perhaps of another kind."""
        super().queue_replaced(queue)
        self._given = self.session.services.counts.given_in_amqp10[queue.kind.module]

    def released(self, positions: set[int]) -> bool:
        """The queue has taken back deliveries that the client held for too long: tell it so.

        As since RabbitMQ 4.3, the link goes on when the client has settled them.
        """
        session = self.session
        if session.has_ended or not session.outlives_timeouts:
            return False
        tags = [
            tag
            for tag, record in session.unacked.records.items()
            if record.consumer is self and record.entry.position in positions
        ]
        if tags:
            session.services.counts.consumer_timeouts += 1
            self._link_session.send_released(tags)
            self._log_released(len(tags))
        return True

    def _log_released(self, count: int) -> None:
        services, connection = self.session.services, self.session.connection
        addition = services.timeout_log_limit.permit(connection.name, services.clock.now_ms())
        if addition is not None:
            logger.warning(
                "%s: released %d messages of queue '%s' due to consumer timeout on link '%s'%s",
                connection.name, count, self.queue.name, self.tag, addition,
            )  # fmt: skip

    def queue_deleted(self) -> None:
        """The queue is deleted: leave the session."""
        super().queue_deleted()
        self._link_session.link_lost(self, is_deleted=True)

    def tell_cancelled(self) -> None:
        """The queue has ended the consumer: detach the link, if it was not detached before."""
        self._link_session.link_lost(self, is_deleted=False)
