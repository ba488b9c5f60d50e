"""A channel: its state, and how it ends. The methods_* files have its methods.

A channel belongs to one connection and is known there by its number. It owns its consumers, the
messages that were delivered on it and not settled, and its mode: plain, confirming or
transactional. When it fails, its consumers are cancelled and its unsettled messages requeued before
channel.close is sent.
"""

import logging
from collections import deque
from collections.abc import Iterator
from functools import partial
from itertools import chain
from typing import Any, Protocol

from mypy_extensions import mypyc_attr
from pamqp import base, commands

from leveret.broker.amqp.content import Piece, content_frames, deliver_prefix, pack_tag
from leveret.broker.amqp.content_assembler import ContentAssembler
from leveret.broker.amqp.content_runs import content_run, get_ok, returned
from leveret.broker.amqp.errors import ChannelFault, precondition_failed
from leveret.broker.amqp.field_table import encode_short_string
from leveret.broker.amqp.frames import settlement_frame
from leveret.broker.amqp.methods import method_frame
from leveret.broker.auth.identity import Identity
from leveret.broker.channel.confirms import Confirms
from leveret.broker.channel.targets import Targets
from leveret.broker.channel.transaction import Transaction
from leveret.broker.channel.unacked import UnackedMessages, by_queue, giving_back
from leveret.broker.channel.unacked_record import Unacked
from leveret.broker.declarations.requester import Requester
from leveret.broker.declarations.values import Declaration
from leveret.broker.events.channel_events import channel_closed, consumer_deleted
from leveret.broker.queues.contract.queue_client import UNLIMITED, QueueClient
from leveret.broker.runtime.counts import MessageCounts, NodeCounts
from leveret.broker.runtime.long_work import LongWork
from leveret.broker.runtime.pending import Answer, PendingOperation
from leveret.broker.runtime.turns import Flushable
from leveret.broker.services.services import Services
from leveret.broker.vhost.virtual_host import VirtualHost
from leveret.storage.messages.message import Message

CONSUMERS_AT_ONCE, CANCEL_WORK = 100, 30
"""The consumers of an ended channel that are cancelled in one turn, and the work of each if there
are more (broker/runtime/turns.py)."""

logger = logging.getLogger("leveret.channel")


@mypyc_attr(allow_interpreted_subclasses=True)
class ConnectionOutput(Flushable):
    """The output of the channels of one connection; this one drops everything.

    pieces: the output gathered in this round. A class, as a Protocol would make a message that
    comes alone look up a dozen attributes by their names.
    """

    __slots__ = ("frame_bytes_max", "pieces", "services")

    def __init__(self, services: Services, frame_bytes_max: int) -> None:
        super().__init__()
        self.services = services
        self.frame_bytes_max = frame_bytes_max
        self.pieces: list[Piece] = []

    @property
    def is_congested(self) -> bool:
        """The client does not keep up; it gets no deliveries until it catches up."""
        return False

    def gathered(self, content_bytes: int) -> None:
        """Contents of about this many bytes were added to `pieces`: write them with the rest
        at the end of the round.
        """

    def flush_later(self) -> None:
        """Write the gathered output at the end of the round."""

    def confirm_later(self, channel: "Channel") -> None:
        """The channel has confirms to send at the end of the round."""


class UnsyncedReplies(Protocol):
    """The replies of a channel that wait for the disk (net/unsynced_replies.py).

    all_sent: given when all replies are sent.
    """

    all_sent: Answer[None]

    def close(self) -> None:
        """Drop the replies: the channel ends."""


class ConnectionLink(Protocol):
    """The connection, as its channels see it.

    targets: the look-ups of publishers on this connection.
    """

    services: Services
    vhost: VirtualHost
    user: Identity
    name: str
    peer_host: str
    peer_port: int
    requester: Requester
    targets: Targets
    exclusive_queues: dict[str, QueueClient]

    @property
    def output(self) -> ConnectionOutput:
        """The output of channels."""

    def forget_queue(self, name: str) -> None:
        """An exclusive queue of this connection was deleted."""

    def has_capability(self, name: str) -> bool:
        """The client announced this capability at login."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Channel:
    """One open channel.

    prefetch_count: the limit of unsettled messages of each later consumer; 0 for no limit.
    global_credit: the number of further messages that all consumers together may hold.
    last_queue: the queue declared last, which an empty queue name stands for.
    committing: transactions that are committed but not on disk yet, the oldest first.
    operation: the method that waits for an answer, if any; the channel is held until then.
    unsynced: the replies that wait for the disk, if any; `output` is behind them until then.
    takes_methods: frames are handled as they arrive: the channel is neither held nor closing.
    has_ended: its consumers get nothing more, though some of very many are not cancelled yet.
    counts: its messages; `message_counts` adds those that are not counted on the message path.
    is_of_a_client: opened by a client, not by management. message_bytes_max: of a body.
    """

    __slots__ = (
        "_has_confirms_due", "assembler", "committing", "confirms", "connection", "consumers",
        "counts", "global_credit", "global_prefetch_count", "has_ended", "is_closing",
        "is_of_a_client", "last_queue", "message_bytes_max", "next_delivery_tag", "number",
        "opened_at_s", "operation", "output", "prefetch_count", "reply_consumer_tag", "reply_name",
        "takes_methods", "transaction", "unacked", "unsynced", "vhost",
    )  # fmt: skip

    def __init__(
        self, connection: ConnectionLink, number: int, is_of_a_client: bool = True
    ) -> None:
        self.connection = connection
        self.is_of_a_client = is_of_a_client
        self.output = connection.output
        self.vhost = connection.vhost
        self.number = number
        self.is_closing = self.has_ended = False
        self.takes_methods = True
        self.operation: PendingOperation | None = None
        self.unsynced: UnsyncedReplies | None = None
        self.assembler: ContentAssembler | None = None
        self.next_delivery_tag = 1
        self.unacked = UnackedMessages()
        self.consumers: dict[str, Any] = {}
        self.prefetch_count = 0
        self.global_prefetch_count = 0
        self.global_credit = UNLIMITED
        self.last_queue = ""
        self.confirms: Confirms | None = None
        self._has_confirms_due = False
        self.transaction: Transaction | None = None
        self.committing: list[Transaction] = []
        self.reply_consumer_tag = ""
        self.reply_name = ""
        self.counts = MessageCounts()
        self.message_bytes_max = connection.services.config.max_message_size_bytes
        self.opened_at_s = connection.services.clock.wall_time_s()
        connection.services.counts.channels_opened += 1

    @property
    def name(self) -> str:
        """Its name in RabbitMQ's form."""
        return f"{self.connection.name} ({self.number})"

    def __repr__(self) -> str:
        return f"<Channel {self.number} of {self.connection.name}>"

    def submit(self, declaration: Declaration) -> Answer[None]:
        """Submit a declaration; the answer is given when it is applied.

        Before the client is told, its `synced` is awaited.
        """
        connection = self.connection
        return connection.services.declarations.submit(declaration, requester=connection.requester)

    def synced(self) -> Answer[None]:
        """An answer that is given when all earlier declarations are on disk.

        It is awaited before the client is told that the requested state existed already.
        """
        return self.connection.services.declarations.synced()

    # Sending

    def send(self, method: type[base.Frame], **arguments: Any) -> None:
        """Send a method; confirms that are due go out before it."""
        if self.is_closing:
            return
        if self._has_confirms_due:
            self.send_confirms()
        self.output.pieces.append(method_frame(self.number, method, **arguments))
        self.output.flush_later()

    def send_got(self, message: Message, tag: int, redelivered: bool, ready_count: int) -> None:
        """Send the answer to a basic.get. ready_count: the messages left in the queue."""
        self._send_contents(
            get_ok(tag, redelivered, message.address.encoded, ready_count), [message]
        )

    def send_returned(self, messages: list[Message], code: int, text: str) -> None:
        """Return messages to their publisher; all were published to one address."""
        self._send_contents(returned(code, text, messages[0].address.encoded), messages)

    def _send_contents(self, method: bytes, messages: list[Message]) -> None:
        output = self.output
        contents = [(message.header.raw, message.body) for message in messages]
        output.pieces += content_run(self.number, method, contents, output.frame_bytes_max)
        output.gathered(sum([len(message.body) for message in messages]))

    # Waiting

    def wait_for(self, operation: PendingOperation) -> None:
        """Handle no methods until an operation of the channel's own is over."""
        self.operation = operation
        self.takes_methods = False

    def resume(self) -> None:
        """Handle methods again: the operation is over."""
        self.operation = None
        self.takes_methods = not self.is_closing

    # Confirms and commits

    def send_commits(self) -> None:
        """Answer the commits whose messages are all safe, in order. Closes the channel on failure.

        A transaction fails as a whole if one of its messages was refused.
        """
        while self.committing and not self.committing[0].is_held:
            transaction = self.committing.pop(0)
            self.counts.refused += transaction.refused_count
            if transaction.has_failed:
                self.fail(precondition_failed("partial tx completion"))
                return
            self.send(commands.Tx.CommitOk)

    def confirms_due(self) -> None:
        """Messages were settled: send confirms at the end of the round."""
        if not self._has_confirms_due:
            self._has_confirms_due = True
            self.output.confirm_later(self)

    @property
    def has_confirms_due(self) -> bool:
        """There are confirms to send."""
        return self._has_confirms_due

    def send_confirms(self) -> None:
        """Send the due confirms to the publisher, in as few frames as possible."""
        if self.connection.services.holds_confirms:
            return
        self._has_confirms_due = False
        if self.confirms is None or self.is_closing:
            return
        pieces = self.output.pieces
        for is_ack, delivery_tag, multiple in self.confirms.take():
            pieces.append(settlement_frame(self.number, is_ack, delivery_tag, multiple))

    # Replies

    def deliver_reply(self, message: Message) -> None:
        """A message for this channel's consumer on amq.rabbitmq.reply-to."""
        if self.is_closing or not self.reply_consumer_tag:
            return
        output = self.output
        address = message.address.encoded
        tag = encode_short_string(self.reply_consumer_tag)
        prefix = deliver_prefix(self.number, tag, address)
        payload = prefix[7:] + pack_tag(self.next_delivery_tag, False) + address
        self.next_delivery_tag += 1
        output.pieces += content_frames(
            self.number, payload, message.header.raw, message.body, output.frame_bytes_max
        )
        output.flush_later()

    # Settling

    def take_unacked(self, delivery_tag: int, multiple: bool) -> list[tuple[int, Unacked]]:
        """Take out the deliveries that a settlement names. Raises 406 for an unknown tag."""
        taken: list[tuple[int, Unacked]] | None
        if multiple:
            taken = self.unacked.take_up_to(delivery_tag)
        else:
            record = self.unacked.take(delivery_tag)
            taken = None if record is None else [(delivery_tag, record)]
        if taken is None:
            raise unknown_delivery_tag(delivery_tag)
        return taken

    def requeue(self, taken: list[tuple[int, Unacked]], channel_ended: bool = False) -> None:
        """Return messages to their queues, each queue getting all of its own at once."""
        for _, record in taken:
            if record.consumer is not None:
                record.consumer.settled()
        for queue, entries in by_queue(taken):
            queue.requeue(entries, channel_ended)

    def give_back(self, taken: list[tuple[int, Unacked]], channel_ended: bool) -> None:
        """Requeue unsettled deliveries that the client did not reject."""
        if taken and self.vhost.tracer is not None:
            self.vhost.tracer.requeued(taken)
        self.requeue(taken, channel_ended)

    def credit_consumers(self) -> None:
        """The channel-wide prefetch limit has room again: credit the consumers that waited.

        The consumer that was served longest ago comes first, as otherwise the first one would get
        all messages.
        """
        self.vhost.turns.work_left -= 2 * len(self.consumers)
        waiting = [consumer for consumer in self.consumers.values() if consumer.is_waiting]
        for consumer in sorted(waiting, key=_served):
            consumer.queue.credit(consumer)

    def check_consumer_timeout(self, timeout_ms: int) -> None:
        """Raise 406 if a delivery has been unsettled for too long."""
        oldest = self.unacked.oldest()
        now_ms = self.connection.services.clock.now_ms()
        if oldest is None or now_ms - oldest.delivered_at_ms <= timeout_ms:
            return
        raise precondition_failed(
            f"delivery acknowledgement on channel {self.number} timed out. Timeout value "
            f"used: {timeout_ms} ms. This timeout value can be configured, see consumers doc "
            "guide to learn more"
        )

    # Ending

    def fail(self, fault: ChannelFault) -> None:
        """Close the channel because of an error: give everything back, then tell the client."""
        connection = self.connection
        logger.error(
            "channel error on connection %s, vhost '%s', user '%s', channel %d: %s",
            connection.name, self.vhost.name, connection.user.name, self.number, fault.reply_text,
        )  # fmt: skip
        if self._has_confirms_due:
            self.send_confirms()
        self.release()
        self.send(
            commands.Channel.Close,
            reply_code=fault.reply_code,
            reply_text=fault.reply_text,
            class_id=fault.class_id,
            method_id=fault.method_id,
        )
        self.end()

    def end(self) -> None:
        """Send nothing more, and handle only the end of the channel."""
        self.is_closing = True
        self.takes_methods = False

    def stop(self) -> None:
        """The channel ends: no method goes on, and no consumer gets anything more."""
        if self.operation is not None:
            self.operation.close()
            self.operation = None
        if self.unsynced is not None:
            self.unsynced.close()
        if self.reply_name:
            self.connection.services.replies.remove(self.reply_name)
            self.reply_name = self.reply_consumer_tag = ""
        self.has_ended = True

    def release(self) -> None:
        """Cancel the consumers and requeue unsettled deliveries: the channel ends."""
        self.stop()
        consumers = deque(self.consumers.values())
        self.consumers.clear()
        count, unsettled = len(self.unacked), self.unacked.hand_over()
        transaction, self.transaction = self.transaction, None
        if transaction is not None:
            count += transaction.settled_count
            unsettled = chain(unsettled, transaction.hand_over())
            transaction.settled = _nobody_listens
        # An auto-delete queue is deleted with its last consumer. The messages that this channel
        # holds of it are lost then, as in RabbitMQ, so they need not be requeued first.
        cancelling = self._cancelling(consumers)
        if len(consumers) > CONSUMERS_AT_ONCE:
            LongWork(self.vhost.turns, f"the consumers of {self!r}", cancelling).start()
        else:
            for _ in cancelling:
                pass
        self.counts.given_back += count
        if count:
            steps = giving_back(unsettled, partial(self.give_back, channel_ended=True))
            LongWork(self.vhost.turns, f"giving back what {self!r} held", steps).start()
        if transaction is not None:
            steps = transaction.dropping_publishes()
            LongWork(self.vhost.turns, f"the transaction of {self!r}", steps).start()
        counts = connection_counts(self)
        counts.channels_closed += 1
        messages = self.message_counts()
        counts.closed_channels.add(messages)
        self.vhost.closed_channels.add(messages)
        if self.confirms is not None:
            counts.published_with_confirms += self.confirms.published
            self.confirms.due = _nobody_listens
        self.confirms = None
        for transaction in self.committing:
            transaction.settled = _nobody_listens
        self.committing = []
        self.assembler = None

    def _cancelling(self, consumers: deque[Any]) -> Iterator[int]:
        """The channel has ended: cancel its consumers, in steps, and report that it is closed."""
        count = len(consumers)
        while consumers:
            consumer = consumers.popleft()
            if not consumer.queue.is_deleted:
                consumer_deleted(consumer)
                consumer.queue.cancel(consumer, channel_ended=True)
            yield CANCEL_WORK
        if self.is_of_a_client:
            channel_closed(self, count)

    # Statistics

    def message_counts(self) -> MessageCounts:
        """The messages of the channel so far."""
        counts = self.counts
        if self.confirms is not None:
            settled = self.confirms.published - self.confirms.unconfirmed_count
            counts.refused = self.confirms.refused_count
            counts.confirmed = max(0, settled - counts.refused)
        taken = counts.delivered + counts.got - len(self.unacked) - counts.given_back
        counts.acked = max(0, taken)
        return counts


def _served(consumer: Any) -> int:
    served: int = consumer.served
    return served


def _nobody_listens() -> None:
    """The channel has ended: ignore confirms that still come."""


def connection_counts(channel: Channel) -> NodeCounts:
    """The node's counts."""
    return channel.connection.services.counts


def unknown_delivery_tag(delivery_tag: int) -> ChannelFault:
    """406 for a tag that is not open on the channel."""
    return precondition_failed(f"unknown delivery tag {delivery_tag}")
