"""A session of AMQP 1.0: its windows, its links, the deliveries in both directions.

A session publishes with confirms: the confirm of a message is the outcome of its delivery. Outcomes
of a round are sent at its end, consecutive deliveries in one disposition. The broker's handles are
the client's, and so are its channels.

As in RabbitMQ 4.0 the error of a link ends its session; as 4.3, it ends the link. Numbers of
deliveries and transfers have 32 bits, and 0 follows the highest one (RFC 1982).
"""

import logging
from collections import deque
from typing import Final, Protocol

from leveret.broker.amqp.errors import ChannelFault, Fault
from leveret.broker.amqp.json_form import text
from leveret.broker.amqp.reply_codes import NOT_FOUND as NOT_FOUND_CODE
from leveret.broker.amqp10.values import Amqp10Error
from leveret.broker.protocols.amqp10.addresses import AddressError, ExchangeAddress, read_to
from leveret.broker.protocols.amqp10.conditions import (
    DECODE_ERROR,
    FRAMING_ERROR,
    ILLEGAL_STATE,
    INTERNAL_ERROR,
    PRECONDITION_FAILED,
    RESOURCE_DELETED,
    TRANSFER_LIMIT_EXCEEDED,
    UNATTACHED_HANDLE,
    UNAUTHORIZED_ACCESS,
    WINDOW_VIOLATION,
    SessionEnds,
    error_of,
)
from leveret.broker.protocols.amqp10.incoming_link import IncomingLink, IncomingMessage
from leveret.broker.protocols.amqp10.management_links import ManagementPair
from leveret.broker.protocols.amqp10.messages import (
    AnnotationRefused,
    Published,
    read_published,
)
from leveret.broker.protocols.amqp10.outgoing_link import (
    SERIAL,
    OutgoingLink,
    action_of,
    credit_left,
    forward,
    transfer_frames,
)
from leveret.broker.protocols.amqp10.performatives import (
    RECEIVER,
    UINT_MAX,
    Accepted,
    Begin,
    Detach,
    Disposition,
    Error,
    Flow,
    Outcome,
    Performative,
    Received,
    Rejected,
    Released,
    Transfer,
    frame_of,
)
from leveret.broker.queues.contract.publication import Publication
from leveret.broker.runtime.counts import AMQP10
from leveret.broker.runtime.pending import Steps
from leveret.broker.sessions import consuming, publishing
from leveret.broker.sessions.session import Session
from leveret.broker.sessions.session_connection import SessionConnection
from leveret.broker.sessions.settling import apply_settling
from leveret.broker.sessions.transaction import ACK
from leveret.broker.sessions.unacked import SETTLE_WORK
from leveret.broker.sessions.unacked_record import Unacked
from leveret.storage.messages.message import Message

INCOMING_WINDOW: Final = 400
"""RabbitMQ's window: how many transfers a client may send ahead."""
HANDLE_MAX: Final = 255
FIRST_OUTGOING_ID: Final = SERIAL - 4
"""RabbitMQ's, near the end of the numbers, so that clients that cannot count on are found out."""
SETTLED_AT_ONCE: Final = 2000
_ACCEPTED, _REJECTED, _RELEASED = Accepted(), Rejected(), Released()

logger = logging.getLogger("leveret.connection")


class FrameOutput(Protocol):
    """The output of the connection."""

    @property
    def is_congested(self) -> bool:
        """Whether the client does not read."""

    def write(self, piece: bytes) -> None:
        """Write this at the end of the round."""


class Amqp10Connection(Protocol):
    """The connection, as its sessions see it. frame_bytes_max: of the client."""

    frame_bytes_max: int

    @property
    def output(self) -> FrameOutput:
        """Its output."""

    def settle_later(self, session: "Amqp10Session") -> None:
        """Call the session's `send_outcomes` before the output is written."""


class Amqp10Session(Session):
    """One session.

    channel: its number in the connection. incoming, outgoing: its links by their handles. pairs: of
    links for management, by their names.
    """

    __slots__ = (
        "_excess_max", "_incoming_window", "_keeps", "_next_incoming_id", "_next_outgoing_id",
        "_number_published", "_outgoing_end", "_output", "_remote_window", "_returned",
        "_unsettled", "channel", "frame_bytes_max", "handle_max", "incoming", "outgoing", "owner",
        "pairs",
    )  # fmt: skip

    def __init__(
        self, connection: SessionConnection, owner: Amqp10Connection, channel: int, begin: Begin
    ) -> None:
        """owner: the same connection."""
        super().__init__(connection, channel + 1)
        self.owner = owner
        self.channel = channel
        self.frame_bytes_max = owner.frame_bytes_max
        self.handle_max = min(
            HANDLE_MAX, HANDLE_MAX if begin.handle_max is None else (begin.handle_max)
        )
        self.incoming: dict[int, IncomingLink] = {}
        self.outgoing: dict[int, OutgoingLink] = {}
        self.pairs: dict[str, ManagementPair] = {}
        self._output = owner.output
        self._next_incoming_id = begin.next_outgoing_id
        self._incoming_window = 0 if self.services.alarms.are_in_force else INCOMING_WINDOW
        self._excess_max = 0
        self._next_outgoing_id = FIRST_OUTGOING_ID
        self._remote_window = begin.incoming_window
        self._outgoing_end = begin.next_outgoing_id + begin.outgoing_window
        self._keeps: deque[bytes] = deque()
        self._unsettled: dict[int, tuple[IncomingLink, int | None]] = {}
        self._returned: set[int] = set()
        self._number_published = 0
        # Streams have no consumers without a limit; the credit of links is theirs.
        self.prefetch_count = HANDLE_MAX
        self.begin_confirms()

    # Sending

    def send(self, performative: Performative) -> None:
        """Send a performative."""
        self._output.write(frame_of(self.channel, performative))

    def begun(self) -> Begin:
        """The answer to the client's begin."""
        return Begin(
            self.channel, self._next_outgoing_id, self._incoming_window, UINT_MAX, self.handle_max
        )

    def send_flow(self, handle: int | None = None, **link: int | bool) -> None:
        """Send the state of the session, and that of a link."""
        self.send(
            Flow(
                self._next_incoming_id, max(0, self._incoming_window), self._next_outgoing_id,
                UINT_MAX, handle, **link,  # type: ignore[arg-type]
            )
        )  # fmt: skip

    def send_link_flow(self, link: OutgoingLink, *, drained: bool) -> None:
        """Tell the client the state of a link."""
        self.send_flow(
            link.handle, delivery_count=link.delivery_count, link_credit=link.link_credit,
            available=0, drain=drained,
        )  # fmt: skip

    def give_credit(self, link: IncomingLink) -> None:
        """Let the client of a link send more."""
        link.credit = link.credit_max
        self.send_flow(link.handle, delivery_count=link.delivery_count, link_credit=link.credit)

    # Transfers to the client

    @property
    def has_room(self) -> bool:
        """Whether transfers may be sent: the window is open, and the client reads."""
        return not self._keeps and self._remote_window > 0 and not self._output.is_congested

    def send_transfers(self, frames: list[bytes]) -> None:
        """Send transfers of one message, or keep them until the window is open."""
        if self._keeps or self._remote_window < len(frames):
            self._keeps.extend(frames)
            self._send_kept()
            return
        for frame in frames:
            self._output.write(frame)
        self._sent(len(frames))

    def _sent(self, count: int) -> None:
        self._remote_window -= count
        self._next_outgoing_id = (self._next_outgoing_id + count) % SERIAL

    def _send_kept(self) -> None:
        while self._keeps and self._remote_window > 0:
            self._output.write(self._keeps.popleft())
            self._sent(1)

    def can_go_on(self) -> None:
        """The window, or the socket, has room again."""
        if self.has_room:
            for link in list(self.outgoing.values()):
                link.window_opened()

    def flow(self, flow: Flow) -> None:
        """The client tells its state, and that of a link. Raises SessionEnds."""
        # Before it has seen our begin, a client does not know our first number.
        seen = FIRST_OUTGOING_ID if flow.next_incoming_id is None else flow.next_incoming_id
        if forward(seen, self._next_outgoing_id) > 0:
            raise SessionEnds(
                WINDOW_VIOLATION,
                f"next-incoming-id from FLOW ({seen}) leads next-outgoing-id "
                f"({self._next_outgoing_id})",
            )
        room = (seen + flow.incoming_window) % SERIAL
        self._remote_window = max(0, forward(room, self._next_outgoing_id))
        if flow.incoming_window >= SERIAL // 2:
            self._remote_window = SERIAL // 2
        self._outgoing_end = flow.next_outgoing_id + flow.outgoing_window
        self._send_kept()
        if flow.handle is None:
            if flow.echo:
                self.send_flow()
        elif flow.handle in self.outgoing:
            self._link_flow(self.outgoing[flow.handle], flow)
        elif (pair := self._pair_of(flow.handle)) is not None:
            self._pair_flow(pair, flow)
        elif flow.handle in self.incoming:
            link = self.incoming[flow.handle]
            if flow.echo:
                self.send_flow(
                    link.handle, delivery_count=link.delivery_count, link_credit=link.credit
                )
        else:
            raise SessionEnds(UNATTACHED_HANDLE, f"Unattached link handle: {flow.handle}")
        self.can_go_on()

    def _link_flow(self, link: OutgoingLink, flow: Flow) -> None:
        if flow.link_credit is not None:
            link.flow(flow.delivery_count, flow.link_credit, bool(flow.drain))
        if flow.echo and not flow.drain:
            self.send_link_flow(link, drained=False)

    def _pair_of(self, handle: int) -> ManagementPair | None:
        """The pair of links for management whose link to the client has this handle."""
        pairs = self.pairs.values()
        return next((pair for pair in pairs if pair.handle == handle), None)

    def _pair_flow(self, pair: ManagementPair, flow: Flow) -> None:
        if flow.link_credit is not None:
            seen = flow.delivery_count or 0
            pair.credit = credit_left(seen, flow.link_credit, pair.delivery_count)
        if flow.drain:
            pair.delivery_count = (pair.delivery_count + pair.credit) % SERIAL
            pair.credit = 0
        if flow.drain or flow.echo:
            self.send_flow(
                pair.handle, delivery_count=pair.delivery_count, link_credit=pair.credit,
                available=0, drain=bool(flow.drain),
            )  # fmt: skip

    # Publishing

    def transferred(self, transfer: Transfer) -> IncomingLink:
        """A transfer has come: returns its link. Raises SessionEnds."""
        link = self.incoming.get(transfer.handle)
        if link is None:
            raise SessionEnds(UNATTACHED_HANDLE, f"Unknown link handle: {transfer.handle}")
        self._next_incoming_id = (self._next_incoming_id + 1) % SERIAL
        self._incoming_window -= 1
        if self._incoming_window < -self._excess_max:
            raise SessionEnds(
                WINDOW_VIOLATION,
                f"incoming window violation (tolerated excess tranfers: {self._excess_max})",
            )
        if self._incoming_window <= INCOMING_WINDOW // 2 and not self.services.alarms.are_in_force:
            self._incoming_window = INCOMING_WINDOW
            self.send_flow()
        return link

    def alarms_changed(self, are_in_force: bool) -> None:
        """Close the incoming window during alarms, but for transfers that are under way."""
        is_closed = self._incoming_window <= 0
        if are_in_force and not is_closed:
            self._incoming_window, self._excess_max = 0, INCOMING_WINDOW
        elif not are_in_force and (is_closed or self._excess_max):
            self._incoming_window, self._excess_max = INCOMING_WINDOW, 0
        else:
            return
        self.send_flow()

    def publish(self, link: IncomingLink, message: IncomingMessage) -> Steps | None:
        """Publish a message. Raises SessionEnds, ChannelFault; see `publishing.publish`."""
        published = self._read(message.payload)
        try:
            address = self._address_of(link, published)
        except AddressError as error:
            self._refuse(link, message, Error(PRECONDITION_FAILED, text(str(error))))
            return None
        target = self.connection.targets.find_by_address(
            address.exchange, published.subject or "" if address.routing_key is None else (
                address.routing_key
            ), is_mandatory=True,
        )  # fmt: skip
        assert self.confirms is not None
        self._number_published = number = self.confirms.published + 1
        self._unsettled[number] = (link, message.delivery_id)
        link.unconfirmed += 1
        sent = Message(target.address, published.header, published.body)
        try:
            steps = publishing.publish(self, target, Publication([sent], len(published.body)))
        except ChannelFault as fault:
            del self._unsettled[number]
            link.unconfirmed -= 1
            if fault.reply_code != NOT_FOUND_CODE:
                raise
            self._refuse(link, message, error_of(fault))
            return None
        if link.needs_credit:
            self.give_credit(link)
        return steps

    def _read(self, payload: bytes) -> Published:
        try:
            published = read_published(payload)
        except Amqp10Error as error:
            raise SessionEnds(DECODE_ERROR, f"a message is not valid: {error}") from None
        except AnnotationRefused as error:
            raise SessionEnds(INTERNAL_ERROR, str(error)) from None
        user = self.connection.user
        if published.user not in (None, user.name) and "impersonator" not in user.tags:
            raise SessionEnds(
                UNAUTHORIZED_ACCESS,
                f"user_id property set to '{published.user}' but authenticated user was "
                f"'{user.name}'",
            )
        return published

    def _address_of(self, link: IncomingLink, published: Published) -> ExchangeAddress:
        if link.address is not None:
            return link.address
        if published.to is None:
            raise AddressError("anonymous terminus requires 'to' address to be set")
        return read_to(published.to)

    def _refuse(self, link: IncomingLink, message: IncomingMessage, error: Error) -> None:
        """Refuse a message to an exchange that there is not; its link if that has the address."""
        delivery_id, is_anonymous = message.delivery_id, link.address is None
        if delivery_id is not None:
            outcome = Rejected(error) if is_anonymous else _RELEASED
            self.send(Disposition(RECEIVER, delivery_id, None, True, outcome))
        if delivery_id is None or not is_anonymous:
            self.detach_for(link.handle, error)
        elif link.needs_credit:
            self.give_credit(link)

    def send_returned(self, messages: list[Message], code: int, text: str) -> None:
        """No queue has the message that is being published: its outcome is `released`."""
        self._returned.add(self._number_published)

    def send_confirms_later(self) -> None:
        """Send outcomes before the output is written, at the end of the round."""
        self.owner.settle_later(self)

    def send_outcomes(self) -> None:
        """Send the outcomes that are due, and credit to links that have few messages waiting."""
        outcomes: list[tuple[int, Outcome]] = []
        links: dict[IncomingLink, None] = {}
        for is_ack, number, multiple in self.take_confirms():
            for one in self._numbers_up_to(number) if multiple else [number]:
                link, delivery_id = self._unsettled.pop(one)
                link.unconfirmed -= 1
                links[link] = None
                outcome: Outcome = _ACCEPTED if is_ack else _REJECTED
                if one in self._returned:
                    self._returned.remove(one)
                    outcome = _RELEASED
                if delivery_id is not None:
                    outcomes.append((delivery_id, outcome))
        self._send_dispositions(outcomes)
        for link in links:
            if link.needs_credit and self.incoming.get(link.handle) is link:
                self.give_credit(link)

    def _numbers_up_to(self, last: int) -> list[int]:
        numbers: list[int] = []
        for number in self._unsettled:
            if number > last:
                break
            numbers.append(number)
        return numbers

    def _send_dispositions(self, outcomes: list[tuple[int, Outcome]]) -> None:
        """Send outcomes; those of consecutive deliveries that are equal in one disposition."""
        at = 0
        while at < len(outcomes):
            first, outcome = outcomes[at]
            last = first
            at += 1
            while at < len(outcomes) and outcomes[at] == ((last + 1) % SERIAL, outcome):
                last = outcomes[at][0]
                at += 1
            self.send(Disposition(RECEIVER, first, None if last == first else last, True, outcome))

    @property
    def detaches_links(self) -> bool:
        """Whether the error of a link ends the link, and not its session."""
        return self.services.config.is_as_rabbitmq_4_3

    def detach_over_limit(self, link: IncomingLink) -> None:
        """The client has sent more than its credit: detach the link."""
        self.detach_for(link.handle, Error(TRANSFER_LIMIT_EXCEEDED))

    def detach_with(self, handle: int, error: SessionEnds | Fault) -> None:
        """End a link with an error."""
        self.detach_for(handle, error.error if isinstance(error, SessionEnds) else error_of(error))

    def detach_for(self, handle: int, told: Error) -> None:
        """End a link of a publisher, and tell the client why."""
        self.incoming.pop(handle, None)
        logger.error(
            "link error on connection %s, session %d, link %d: %s",
            self.connection.name, self.channel, handle, told.description or told.condition,
        )  # fmt: skip
        self.send(Detach(handle, True, told))

    def send_answer(self, pair: ManagementPair, payload: bytes) -> None:
        """Send the answer to a request of management."""
        assert pair.handle is not None, "the request was not answered before"
        pair.credit -= 1
        pair.delivery_count = (pair.delivery_count + 1) % SERIAL
        delivery_id = (self.next_delivery_tag - 1) % SERIAL
        self.next_delivery_tag += 1
        transfer = Transfer(pair.handle, delivery_id, b"", 0, True)
        self.send_transfers(transfer_frames(self, transfer, payload))

    # Settling

    async def disposition(self, disposition: Disposition) -> None:
        """The client settles deliveries, or tells their outcome. Raises ChannelFault."""
        if disposition.role is not RECEIVER or isinstance(disposition.state, Received):
            return
        action = action_of(disposition.state)
        first, last = disposition.first, disposition.last
        last = first if last is None else last
        turns = self.vhost.turns
        tags = self._open_tags(first, last)
        for at in range(0, len(tags), SETTLED_AT_ONCE):
            some = tags[at : at + SETTLED_AT_ONCE]
            taken: list[tuple[int, Unacked]] = []
            for tag in some:
                record = self.unacked.take(tag)
                if record is not None:
                    taken.append((tag, record))
            turns.work_left -= SETTLE_WORK * len(some)
            if taken:
                apply_settling(self, action, taken)
                if action is ACK:
                    self._count_acked(taken)
            if at + SETTLED_AT_ONCE < len(tags):
                await turns.give_way()
        if not disposition.settled:
            self.send(Disposition(False, first, disposition.last, True, disposition.state))

    def _count_acked(self, taken: list[tuple[int, Unacked]]) -> None:
        """Count accepted deliveries by the kind of their queue, for metrics."""
        given = self.services.counts.given_in_amqp10
        for _, record in taken:
            given[record.queue.kind.module].acked += 1

    def _open_tags(self, first: int, last: int) -> list[int]:
        """The delivery tags that a disposition may settle."""
        newest = self.next_delivery_tag - 1
        begin = newest + 1 + forward(first, newest % SERIAL)
        end = newest + 1 + forward(last, newest % SERIAL)
        records = self.unacked.records
        if end - begin < len(records):
            return [tag for tag in range(max(1, begin), end + 1) if tag in records]
        return [tag for tag in records if begin <= tag <= end]

    # Links

    async def detach(self, detach: Detach) -> None:
        """The client ends a link; what it has not settled is requeued."""
        handle = detach.handle
        outgoing = self.outgoing.get(handle)
        if outgoing is not None:
            await self._cancel(outgoing)
        elif (pair := self._pair_of(handle)) is not None:
            pair.handle = None
        elif self.incoming.pop(handle, None) is None:
            return
        self.send(Detach(handle, detach.closed))

    async def _cancel(self, link: OutgoingLink) -> None:
        """End a link to the client, and give back what it has not settled."""
        if self.outgoing.get(link.handle) is link:
            del self.outgoing[link.handle]
        await consuming.cancel(self, link.tag)
        taken = [(tag, one) for tag, one in self.unacked if one.consumer is link]
        for tag, _ in taken:
            self.unacked.take(tag)
        if taken:
            self.counts.given_back += len(taken)
            self.give_back(taken, channel_ended=False)

    async def replace(self, handle: int) -> None:
        """Another link is to have this handle: end the one that has it."""
        self.incoming.pop(handle, None)
        if handle in self.outgoing:
            await self._cancel(self.outgoing[handle])

    def check_handle(self, handle: int) -> None:
        """Raise SessionEnds if a link cannot have this handle."""
        if handle > self.handle_max:
            raise SessionEnds(
                FRAMING_ERROR,
                f"link handle value ({handle}) exceeds maximum link handle value "
                f"({self.handle_max})",
            )

    def link_lost(self, link: OutgoingLink, is_deleted: bool) -> None:
        """The queue of a link is gone: detach the link."""
        if self.outgoing.get(link.handle) is not link or self.has_ended:
            return
        del self.outgoing[link.handle]
        condition = RESOURCE_DELETED if is_deleted else ILLEGAL_STATE
        self.send(Detach(link.handle, True, Error(condition)))

    @property
    def returns_replies(self) -> bool:
        """A direct reply that was delivered is accepted."""
        return False

    @property
    def tells_cancels(self) -> bool:
        """A client is notified of the end of its links."""
        return True

    # Management

    @property
    def counted_as(self) -> str:
        """RabbitMQ's name of the protocol for which metrics count the messages."""
        return AMQP10

    @property
    def publisher_count(self) -> int:
        """The links on which the client may publish."""
        return sum(not link.is_management for link in self.incoming.values())

    def windows(self) -> tuple[int, int, int, int, int]:
        """The next incoming id, the incoming window, the next outgoing id; the client's windows."""
        remote_outgoing_window = (self._outgoing_end - self._next_incoming_id) % SERIAL
        return (
            self._next_incoming_id, max(0, self._incoming_window), self._next_outgoing_id,
            self._remote_window, remote_outgoing_window,
        )  # fmt: skip

    def report_closed(self, consumer_count: int) -> None:
        """Do nothing: events of channels are for those of AMQP 0-9-1."""

    # The end

    def fail(self, error: Error) -> None:
        """End the session with an error: give back its messages, then tell the client."""
        logger.error(
            "session error on connection %s, vhost '%s', user '%s', session %d: %s",
            self.connection.name, self.vhost.name, self.connection.user.name, self.channel,
            error.description or error.condition,
        )  # fmt: skip
        self.release()

    def release(self) -> None:
        """Cancel the consumers and requeue unsettled deliveries, because the session ends."""
        super().release()
        self.incoming.clear()
        self.outgoing.clear()
        self._unsettled.clear()
        self._returned.clear()
        self._keeps.clear()
