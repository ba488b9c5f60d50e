"""A link on which a client gets messages: a consumer whose room is the client's credit.

Each message is written as a transfer, or as several if it is larger than the client's frames. The
delivery-id of a message is its delivery tag in the session, less one.
"""

from struct import Struct
from typing import Final, Protocol

from leveret.broker.amqp.content_header import ContentHeader
from leveret.broker.amqp.field_table import Table
from leveret.broker.protocols.amqp10.messages import Delivered
from leveret.broker.protocols.amqp10.performatives import (
    FRAME_HEADER_BYTES,
    SETTLED,
    Accepted,
    Attach,
    Modified,
    Outcome,
    Rejected,
    Transfer,
)
from leveret.broker.queues.contract.queue_client import UNLIMITED, QueueClient, QueueLength
from leveret.broker.runtime.pending import Answer
from leveret.broker.sessions.interceptors import message_to_send
from leveret.broker.sessions.session import Session
from leveret.broker.sessions.session_consumer import SessionConsumer
from leveret.broker.sessions.transaction import ACK, DISCARD, FAIL, REQUEUE
from leveret.broker.sessions.unacked_record import Unacked
from leveret.storage.messages.message import Address, Entry, Message

SERIAL: Final = 1 << 32
"""Counters of links and sessions have 32 bits; 0 follows the highest number (RFC 1982)."""
_FRAME: Final = Struct(">IBBH")
_UINT: Final = Struct(">I")


def forward(count: int, other: int) -> int:
    """By how much a counter is ahead of another one; negative if it is behind."""
    difference = (count - other) % SERIAL
    return difference - SERIAL if difference >= SERIAL // 2 else difference


def credit_left(seen: int, credit: int, delivery_count: int) -> int:
    """What is left of the credit that a client has given when it had seen this many deliveries."""
    return max(0, credit - forward(delivery_count, seen))


def action_of(outcome: Outcome | None) -> str:
    """What an outcome of the client asks for. Without an outcome, a message is released."""
    match outcome:
        case Accepted():
            return ACK
        case Rejected():
            return DISCARD
        case Modified(_, True):
            return DISCARD
        case Modified(True):
            return FAIL
    return REQUEUE


class LinkSession(Protocol):
    """The session of a link, as the link sees it. frame_bytes_max: of the client."""

    frame_bytes_max: int
    channel: int

    @property
    def has_room(self) -> bool:
        """Whether transfers may be sent: the window is open, and the client reads."""

    def send_transfers(self, frames: list[bytes]) -> None:
        """Send transfers of one message, or keep them until the window is open."""

    def send_link_flow(self, link: "OutgoingLink", *, drained: bool) -> None:
        """Tell the client the state of a link."""

    def link_lost(self, link: "OutgoingLink", is_deleted: bool) -> None:
        """The queue of a link is gone: detach the link."""


class OutgoingLink(SessionConsumer):
    """One link to a client.

    request: with which the client has attached it; its source has the filters in force. handle: the
    client's and the broker's number of it. is_settled: messages are sent settled.
    delivery_count: of messages that were sent, and of credit that a drain used up. link_credit: how
    many more may be sent. is_draining: the client waits until the credit is used up, or no message
    is left.
    """

    __slots__ = (
        "_delivered", "_last_address", "_last_header", "_link_session", "delivery_count", "handle",
        "is_draining", "is_settled", "link_credit", "request",
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
        self.request = request
        self.handle = request.handle
        self.is_settled = request.snd_settle_mode == SETTLED
        self.delivery_count = 0
        self.link_credit = 0
        self.is_draining = False
        self._last_header: ContentHeader | None = None
        self._last_address: Address | None = None
        self._delivered: Delivered | None = None
        self.prefetch_count = 0
        self.credit = self._credit_max()

    def room(self) -> int:
        """The number of messages that it may be given now."""
        if self.session.has_ended or not self._link_session.has_room:
            return 0
        return self.link_credit

    def settled(self) -> None:
        """The client has settled one message. Only its flows give credit."""
        self.credit += 1

    def _credit_max(self) -> int:
        return UNLIMITED

    # Delivering

    def deliver(self, entries: list[Entry]) -> None:
        """Send messages to the client, and record them as unsettled unless they are settled."""
        session, queue = self.session, self.queue
        first = tag = session.next_delivery_tag
        records = None if self.is_settled else session.unacked.records
        now_ms = session.vhost.turns.now_ms
        for entry in entries:
            self._send(entry, tag - 1)
            if records is not None:
                records[tag] = Unacked(entry, queue, self, now_ms)
            tag += 1
        session.next_delivery_tag = tag
        count = len(entries)
        self.link_credit -= count
        self.delivery_count = (self.delivery_count + count) % SERIAL
        self.note_delivered(entries, first)
        self._count(entries)
        if self.is_settled and not self.no_ack:
            # A log counts acknowledgements, and needs none.
            self.credit += count
            queue.ack(entries)
        if self.is_draining:
            self._look_whether_drained()

    def _count(self, entries: list[Entry]) -> None:
        """Count messages that were sent by the kind of their queue, for metrics."""
        queue = self.queue
        given = self.session.services.counts.given_in_amqp10[queue.kind.module]
        if self.no_ack:
            given.delivered_no_ack += len(entries)
        else:
            given.delivered += len(entries)
        if queue.may_redeliver:
            given.redelivered += sum(entry.redelivered for entry in entries)

    def _send(self, entry: Entry, delivery_id: int) -> None:
        message: Message | None = entry.message
        if self.session.intercepts_outgoing:
            message = message_to_send(self.session, self.queue.name, entry.message)
        if message is None:
            return
        header, address = message.header, message.address
        assert isinstance(header, ContentHeader)
        delivered = self._delivered
        if (
            delivered is None
            or header is not self._last_header
            or (address is not self._last_address)
        ):
            delivered = self._delivered = Delivered(header, address)
            self._last_header, self._last_address = header, address
        payload = delivered.payload(message.body, entry.redelivered)
        delivery_id %= SERIAL
        transfer = Transfer(self.handle, delivery_id, _UINT.pack(delivery_id), 0, self.is_settled)
        self._link_session.send_transfers(transfer_frames(self._link_session, transfer, payload))

    # Credit

    def flow(self, delivery_count: int | None, link_credit: int, drain: bool) -> None:
        """The client has changed the credit."""
        # Before it has seen our attach, a client does not know our count, which begins at 0.
        self.link_credit = credit_left(delivery_count or 0, link_credit, self.delivery_count)
        self.is_draining = drain
        if self.is_waiting and self.link_credit:
            self.queue.credit(self)
        if drain:
            self._look_whether_drained()

    def window_opened(self) -> None:
        """Transfers may be sent again."""
        if self.is_waiting and self.link_credit:
            self.queue.credit(self)

    def _look_whether_drained(self) -> None:
        """Ask the queue whether it has more; the answer comes after what it gives this link."""
        if not self.link_credit:
            self._end_drain()
            return
        count = self.delivery_count

        def counted() -> None:
            if self.is_draining and count == self.delivery_count and not self.session.has_ended:
                self._counted(answer)

        def ask() -> None:
            answer.when_given(counted)
            self.queue.length(answer)

        answer: Answer[QueueLength] = Answer()
        # The link gets the messages that are ready now before the end of the round.
        self.session.vhost.turns.after_round(ask)

    def _counted(self, answer: Answer[QueueLength]) -> None:
        """The queue has said how many messages are ready, and the link has got none since."""
        removes = self.queue.kind.removes_messages
        if not removes or not answer.result().ready_count:
            self._end_drain()

    def _end_drain(self) -> None:
        self.is_draining = False
        self.delivery_count = (self.delivery_count + self.link_credit) % SERIAL
        self.link_credit = 0
        self._link_session.send_link_flow(self, drained=True)

    # The queue

    def queue_deleted(self) -> None:
        """The queue is deleted: leave the session."""
        super().queue_deleted()
        self._link_session.link_lost(self, is_deleted=True)

    def tell_cancelled(self) -> None:
        """The queue has ended the consumer: detach the link, if it was not detached before."""
        self._link_session.link_lost(self, is_deleted=False)


def transfer_frames(session: LinkSession, transfer: Transfer, payload: bytes) -> list[bytes]:
    """The transfers of one message. transfer: without `more`."""
    handle = _encoded_uint(transfer.handle)
    delivery_tag = transfer.delivery_tag or b""
    fields = (
        handle + b"\x70" + _UINT.pack(transfer.delivery_id or 0)
        + bytes((0xA0, len(delivery_tag))) + delivery_tag + b"\x43"
        + (b"\x41" if transfer.settled else b"\x42")
    )  # fmt: skip
    whole = _encoded(5, fields)
    size = FRAME_HEADER_BYTES + len(whole) + len(payload)
    if size <= session.frame_bytes_max:
        return [_FRAME.pack(size, 2, 0, session.channel) + whole + payload]
    return _pieces(session, payload, fields, handle)


def _pieces(session: LinkSession, payload: bytes, fields: bytes, handle: bytes) -> list[bytes]:
    frames: list[bytes] = []
    begin = _encoded(6, fields + b"\x41")
    more = _encoded(6, handle + b"\x40\x40\x40\x40\x41")
    last = _encoded(1, handle)
    room = session.frame_bytes_max - FRAME_HEADER_BYTES
    at = 0
    while at < len(payload):
        head = more if frames else begin
        size = room - len(head)
        if frames and len(payload) - at <= room - len(last):
            head, size = last, len(payload) - at
        piece = payload[at : at + size]
        total = FRAME_HEADER_BYTES + len(head) + len(piece)
        frames.append(_FRAME.pack(total, 2, 0, session.channel) + head + piece)
        at += size
    return frames


def _encoded(count: int, fields: bytes) -> bytes:
    """A transfer with these encoded fields; they are few."""
    return b"\x00\x53\x14\xc0" + bytes((len(fields) + 1, count)) + fields


def _encoded_uint(number: int) -> bytes:
    if number == 0:
        return b"\x43"
    return bytes((0x52, number)) if number < 256 else b"\x70" + _UINT.pack(number)
