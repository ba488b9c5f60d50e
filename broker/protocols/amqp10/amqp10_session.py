"""A session of AMQP 1.0: its links, and the frames that both ends exchange about them. Compiled.

Its parts are its windows (session_windows.py), the publishing of messages (link_publisher.py),
their outcomes (publishing_outcomes.py), and the settling of deliveries (link_settling.py). The
outcomes of a round are sent at its end. The broker uses the same handles and channels as the
client.

As in RabbitMQ 4.0, the error of a link ends its session; as in 4.3, it ends only the link.
"""

import logging
from functools import partial
from typing import Final, Protocol

from leveret.broker.amqp.errors import ChannelFault, Fault
from leveret.broker.amqp.reply_codes import NOT_FOUND as NOT_FOUND_CODE
from leveret.broker.amqp10.unsigned import UINT_MAX
from leveret.broker.amqp10.values import Value
from leveret.broker.net.socket_output import SocketOutput
from leveret.broker.protocols.amqp10.conditions import (
    FRAMING_ERROR,
    ILLEGAL_STATE,
    RESOURCE_DELETED,
    TRANSFER_LIMIT_EXCEEDED,
    UNATTACHED_HANDLE,
    SessionEnds,
    error_of,
)
from leveret.broker.protocols.amqp10.incoming_link import IncomingLink
from leveret.broker.protocols.amqp10.link_publisher import LinkPublisher
from leveret.broker.protocols.amqp10.link_settling import LinkSettling
from leveret.broker.protocols.amqp10.management_links import ManagementPair
from leveret.broker.protocols.amqp10.outgoing_link import OutgoingLink
from leveret.broker.protocols.amqp10.performatives import (
    RECEIVER,
    SENDER,
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
    frame_of,
)
from leveret.broker.protocols.amqp10.publishing_outcomes import (
    SETTLED_BY_CLIENT,
    PublishingOutcomes,
)
from leveret.broker.protocols.amqp10.rejections import rejection_of
from leveret.broker.protocols.amqp10.session_frames import ABSENT, SessionFrame
from leveret.broker.protocols.amqp10.session_windows import SessionWindows
from leveret.broker.protocols.amqp10.transfer_frames import SERIAL, credit_left, transfer_frames
from leveret.broker.runtime.counts import AMQP10
from leveret.broker.runtime.pending import Steps
from leveret.broker.sessions import consuming
from leveret.broker.sessions.session import Session
from leveret.broker.sessions.session_connection import SessionConnection
from leveret.storage.messages.message import Message

HANDLE_MAX: Final = 255

logger = logging.getLogger("leveret.connection")


class Amqp10Connection(Protocol):
    """The connection, as its sessions see it.

    frame_bytes_max: the client's limit. container_id: the client's name.
    """

    container_id: str
    frame_bytes_max: int

    @property
    def output(self) -> SocketOutput:
        """Its output."""

    def settle_later(self, session: "Amqp10Session") -> None:
        """Call the session's `send_outcomes` before the output is written."""

    def end_session(self, session: "Amqp10Session", error: SessionEnds) -> None:
        """End the session with an error, unless it has ended."""


class Amqp10Session(Session):
    """One session.

    channel: its number in the connection. incoming, outgoing: its links by their handles. pairs:
    its pairs of links for management, by their names. temporary_queues: those that are deleted with
    a link, by its handle.
    """

    __slots__ = (
        "_outcomes", "channel", "frame_bytes_max", "handle_max", "incoming", "outgoing", "output",
        "owner", "pairs", "publisher", "settling", "temporary_queues", "windows",
    )  # fmt: skip

    def __init__(
        self, connection: SessionConnection, owner: Amqp10Connection, channel: int, begin: Begin
    ) -> None:
        """owner: the same connection."""
        super().__init__(connection, channel + 1)
        self.owner = owner
        self.channel = channel
        self.frame_bytes_max = owner.frame_bytes_max
        client_max = begin.handle_max
        self.handle_max = HANDLE_MAX if client_max is None else min(HANDLE_MAX, client_max)
        self.incoming: dict[int, IncomingLink] = {}
        self.outgoing: dict[int, OutgoingLink] = {}
        self.pairs: dict[str, ManagementPair] = {}
        self.temporary_queues: dict[int, str] = {}
        self.output = owner.output
        self.windows = SessionWindows(
            owner.output, channel, begin, is_closed=self.services.alarms.are_in_force
        )
        explain = partial(rejection_of, self) if self.is_as_rabbitmq_4_3 else None
        self._outcomes = PublishingOutcomes(owner.output, channel, explain)
        self.publisher = LinkPublisher(self, self._outcomes)
        self.settling = LinkSettling(self)
        # Streams have no consumers without a limit; the credit of links is theirs.
        self.prefetch_count = HANDLE_MAX
        self.begin_confirms()

    # Sending

    def send(self, performative: Performative) -> None:
        """Send a performative."""
        self.output.write(frame_of(self.channel, performative))

    def begun(self) -> Begin:
        """The answer to the client's begin."""
        windows = self.windows
        return Begin(
            self.channel, windows.next_outgoing_id, windows.incoming_window, UINT_MAX,
            self.handle_max,
        )  # fmt: skip

    def _send_state(
        self, handle: int, delivery_count: int, link_credit: int, *, drain: bool
    ) -> None:
        """Send the state of a link to the client, with no messages available."""
        windows = self.windows
        self.send(
            Flow(
                windows.next_incoming_id, windows.incoming_window, windows.next_outgoing_id,
                UINT_MAX, handle, delivery_count, link_credit, 0, drain,
            )
        )  # fmt: skip

    def send_link_flow(self, link: OutgoingLink, *, drained: bool) -> None:
        """Tell the client the state of a link."""
        self._send_state(link.handle, link.delivery_count, link.link_credit, drain=drained)

    def send_link_active(self, link: OutgoingLink, is_active: bool) -> None:
        """Tell the client whether its link is one that gets messages."""
        windows = self.windows
        properties = [(Value("symbol", "rabbitmq:active"), Value("boolean", is_active))]
        self.send(
            Flow(
                windows.next_incoming_id, windows.incoming_window, windows.next_outgoing_id,
                UINT_MAX, link.handle, link.delivery_count, link.link_credit, 0, False, False,
                Value("map", properties),
            )
        )  # fmt: skip

    def send_released(self, tags: list[int]) -> None:
        """Tell the client that a queue has taken back deliveries, which it has to settle (part 2,
        section 2.6.12). tags: in ascending order.
        """
        first = last = tags[0]
        for tag in [*tags[1:], 0]:
            if tag == last + 1:
                last = tag
                continue
            self.send(
                Disposition(SENDER, (first - 1) % SERIAL, (last - 1) % SERIAL, False, Released())
            )
            first = last = tag

    def give_credit(self, link: IncomingLink) -> None:
        """Let the client of a link send more."""
        link.credit = link.credit_max
        self.windows.send_flow(link.handle, link.delivery_count, link.credit)

    # Flows of the client

    def can_go_on(self) -> None:
        """The window, or the socket, has room again."""
        if self.windows.has_room:
            for link in tuple(self.outgoing.values()):
                link.window_opened()

    def credit_link(self, frame: SessionFrame) -> bool:
        """A flow gives credit to a link to the client; returns whether the link exists.

        Raises SessionEnds.
        """
        link = self.outgoing.get(int(frame.handle))
        if link is None:
            return False
        self.windows.client_flow(
            int(frame.next_incoming_id), int(frame.incoming_window), int(frame.outgoing_end)
        )
        seen = 0 if frame.delivery_count == ABSENT else int(frame.delivery_count)
        link.flow(seen, int(frame.link_credit), False)
        if len(self.outgoing) > 1:
            self.can_go_on()
        return True

    def flow(self, flow: Flow) -> None:
        """Handle a flow: the state of the client, and of a link. Raises SessionEnds."""
        seen = flow.next_incoming_id
        self.windows.client_flow(
            ABSENT if seen is None else seen, flow.incoming_window,
            flow.next_outgoing_id + flow.outgoing_window,
        )  # fmt: skip
        handle = flow.handle
        if handle is None:
            if flow.echo:
                self.windows.send_flow(ABSENT, 0, 0)
        elif handle in self.outgoing:
            self._link_flow(self.outgoing[handle], flow)
        elif (pair := self._pair_of(handle)) is not None:
            self._pair_flow(pair, handle, flow)
        elif handle in self.incoming:
            link = self.incoming[handle]
            if flow.echo:
                self.windows.send_flow(link.handle, link.delivery_count, link.credit)
        else:
            raise SessionEnds(UNATTACHED_HANDLE, f"Unattached link handle: {handle}")
        self.can_go_on()

    def _link_flow(self, link: OutgoingLink, flow: Flow) -> None:
        if flow.link_credit is not None:
            link.flow(flow.delivery_count, flow.link_credit, bool(flow.drain))
        if flow.echo and not flow.drain:
            self.send_link_flow(link, drained=False)

    def _pair_of(self, handle: int) -> ManagementPair | None:
        """The pair of links for management whose link to the client has this handle."""
        for pair in self.pairs.values():
            if pair.handle == handle:
                return pair
        return None

    def _pair_flow(self, pair: ManagementPair, handle: int, flow: Flow) -> None:
        if flow.link_credit is not None:
            seen = flow.delivery_count or 0
            pair.credit = credit_left(seen, flow.link_credit, pair.delivery_count)
        if flow.drain:
            pair.delivery_count = (pair.delivery_count + pair.credit) % SERIAL
            pair.credit = 0
        if flow.drain or flow.echo:
            self._send_state(handle, pair.delivery_count, pair.credit, drain=bool(flow.drain))

    # Publishing

    def publish(self) -> Steps | None:
        """Publish the messages that have come. Raises ChannelFault; see `publishing.publish`."""
        link = self.publisher.link
        if link is None:
            return None
        steps: Steps | None = None
        try:
            steps = self.publisher.publish(self, self._next_number)
        except ChannelFault as fault:
            delivery_ids = self.forget_unpublished()
            if fault.reply_code != NOT_FOUND_CODE:
                raise
            self.refuse(link, delivery_ids, self.error_of(fault))
        if link.needs_credit and self.incoming.get(link.handle) is link:
            self.give_credit(link)
        return steps

    @property
    def _next_number(self) -> int:
        """The confirm number of the next message."""
        confirms = self.confirms
        assert confirms is not None, "a session of AMQP 1.0 has confirms"
        return confirms.published + 1

    def forget_unpublished(self) -> list[int]:
        """Publishing has failed: forget the last run's messages; returns their delivery-ids."""
        return [] if self.has_ended else self._outcomes.forget_from(self._next_number)

    def refuse(self, link: IncomingLink, delivery_ids: list[int], error: Error) -> None:
        """Refuse messages to a missing exchange, or detach the link if the address is the link's.

        delivery_ids: SETTLED_BY_CLIENT for messages that were sent settled.
        """
        is_anonymous = link.address is None
        for delivery_id in delivery_ids:
            if delivery_id != SETTLED_BY_CLIENT:
                outcome: Outcome = Rejected(error) if is_anonymous else Released()
                self.send(Disposition(RECEIVER, delivery_id, None, True, outcome))
        if SETTLED_BY_CLIENT in delivery_ids or not is_anonymous:
            self.detach_for(link.handle, error)
        elif link.needs_credit:
            self.give_credit(link)

    def send_returned(self, messages: list[Message], code: int, text: str) -> None:
        """No queue has the messages that were published last: their outcome is `released`."""
        end = self._next_number
        self._outcomes.returned.update(range(end - len(messages), end))

    def send_confirms_later(self) -> None:
        """Send outcomes before the output is written, at the end of the round."""
        self.owner.settle_later(self)

    def send_outcomes(self) -> None:
        """Send the outcomes that are due, and credit to links with few unconfirmed messages."""
        links: dict[IncomingLink, None] = {}
        self._outcomes.send(self.take_confirms(), links)
        for link in links:
            link.grow_credit()
            if link.needs_credit and self.incoming.get(link.handle) is link:
                self.give_credit(link)

    @property
    def is_as_rabbitmq_4_3(self) -> bool:
        """Whether it behaves like RabbitMQ 4.3 where that differs from 4.0."""
        return self.services.config.is_as_rabbitmq_4_3

    def error_of(self, error: SessionEnds | Fault) -> Error:
        """The error that the client is told."""
        return error_of(error, has_code=not self.services.config.is_as_rabbitmq_4)

    def detach_over_limit(self, link: IncomingLink) -> None:
        """The client has sent more than its credit: detach the link."""
        self.detach_for(link.handle, Error(TRANSFER_LIMIT_EXCEEDED))

    def detach_with(self, handle: int, error: SessionEnds | Fault) -> None:
        """End a link with an error."""
        self.detach_for(handle, self.error_of(error))

    def detach_for(self, handle: int, told: Error) -> None:
        """End a link of a publisher, and tell the client why."""
        self.end_incoming(handle)
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
        frames = transfer_frames(
            self.channel, self.frame_bytes_max, pair.handle, delivery_id, b"", True, payload
        )
        self.windows.send(frames)

    # Settling

    async def disposition(self, disposition: Disposition) -> None:
        """The client settles deliveries, or sends their outcome. Raises ChannelFault."""
        if disposition.role is not RECEIVER or isinstance(disposition.state, Received):
            return
        await self.settling.settle(self, disposition)
        if not disposition.settled:
            first, last = disposition.first, disposition.last
            self.send(Disposition(False, first, last, True, disposition.state))

    # Links

    async def detach(self, detach: Detach) -> None:
        """The client ends a link; its unsettled deliveries are requeued."""
        handle = detach.handle
        outgoing = self.outgoing.get(handle)
        if outgoing is not None:
            await self._cancel(outgoing)
        elif (pair := self._pair_of(handle)) is not None:
            pair.handle = None
            self._forget_pairs()
        elif not self.end_incoming(handle):
            return
        self.send(Detach(handle, detach.closed))

    def end_incoming(self, handle: int) -> bool:
        """End a link of a publisher, with its temporary queue. Returns whether it was attached."""
        self._delete_temporary_queue(handle)
        link = self.incoming.pop(handle, None)
        if link is not None and link.is_management:
            self._forget_pairs()
        return link is not None

    def _forget_pairs(self) -> None:
        """Forget pairs of links for management of which both have ended."""
        used = {link.name for link in self.incoming.values() if link.is_management}
        for name, pair in list(self.pairs.items()):
            if pair.handle is None and name not in used:
                del self.pairs[name]

    def _delete_temporary_queue(self, handle: int) -> None:
        queue = self.vhost.queues.get(self.temporary_queues.pop(handle, ""))
        if queue is not None and queue.owner_connection is self.connection:
            self.vhost.delete_queue(queue, self.connection.requester)

    async def _cancel(self, link: OutgoingLink) -> None:
        """End a link to the client, and requeue its unsettled deliveries."""
        if self.outgoing.get(link.handle) is link:
            del self.outgoing[link.handle]
        await consuming.cancel(self, link.tag)
        taken = [(tag, one) for tag, one in self.unacked if one.consumer is link]
        for tag, _ in taken:
            self.unacked.take(tag)
        if taken:
            self.counts.given_back += len(taken)
            self.give_back(taken, channel_ended=False)
        self._delete_temporary_queue(link.handle)

    async def replace(self, handle: int) -> None:
        """End the link with this handle, because another link gets the handle."""
        if handle in self.outgoing:
            await self._cancel(self.outgoing[handle])
        else:
            self.end_incoming(handle)

    def has_handle(self, handle: int) -> bool:
        """Whether a link has this handle."""
        return (
            handle in self.incoming or handle in self.outgoing or self._pair_of(handle) is not None
        )

    def check_handle(self, handle: int) -> None:
        """Raise SessionEnds if a link cannot have this handle."""
        if handle > self.handle_max:
            raise SessionEnds(
                FRAMING_ERROR,
                f"link handle value ({handle}) exceeds maximum link handle value "
                f"({self.handle_max})",
            )

    def end_with(self, error: SessionEnds) -> None:
        """End with an error when the round has ended."""
        self.vhost.turns.after_round(partial(self.owner.end_session, self, error))

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

    @property
    def outlives_timeouts(self) -> bool:
        """Links go on after a timeout, as since RabbitMQ 4.0, unless a setting ends them."""
        config = self.services.config
        return config.is_as_rabbitmq_4 and not config.consumer_timeout_action

    # Management

    @property
    def is_shown_as_channel(self) -> bool:
        """Management shows sessions and links instead."""
        return False

    @property
    def counted_as(self) -> str:
        """RabbitMQ's name of the protocol for which metrics count the messages."""
        return AMQP10

    @property
    def publisher_count(self) -> int:
        """The number of links on which the client may publish."""
        return len([link for link in self.incoming.values() if not link.is_management])

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
        for handle in list(self.temporary_queues):
            self._delete_temporary_queue(handle)
        self.incoming.clear()
        self.outgoing.clear()
        self.publisher.clear()
        self._outcomes.clear()
        self.windows.clear()
