"""A channel: what belongs to it, and how it ends. What its methods do is in the methods_* files.

A channel lives on one connection and is known there by its number. It owns the messages that were
delivered on it and not settled, its consumers, and its mode: plain, confirming or transactional.
When it fails it gives all of that back before the client hears of it: its consumers are cancelled
and its unsettled messages requeued, then comes channel.close.
"""

import logging
from typing import Any, Protocol

from pamqp import base, commands

from broker.amqp.content import content_frames, deliver_prefix, pack_tag
from broker.amqp.errors import ChannelFault, precondition_failed
from broker.amqp.field_table import Table, encode_short_string
from broker.amqp.methods import encode_method, method_frame
from broker.auth.identity import Identity
from broker.channel.channel_events import channel_closed, consumer_deleted
from broker.channel.confirms import Confirms
from broker.channel.content_assembler import ContentAssembler
from broker.channel.transaction import Transaction
from broker.channel.unacked import Unacked, UnackedMessages
from broker.counts import MessageCounts, NodeCounts
from broker.interfaces import UNLIMITED
from broker.queues.actor import Queue
from broker.services import Services
from broker.vhost import VirtualHost
from storage.message import Entry, Message

logger = logging.getLogger("leveret.channel")


class ConnectionLink(Protocol):
    """What a channel needs of its connection.

    out, out_bytes: frames gathered in this round, and roughly how many bytes they are.
    is_congested: the client does not keep up; it gets no deliveries until it does.
    targets: what publishers on this connection looked up (channel/publishing.py).
    confirming: channels that have confirms to send at the end of the round.
    """

    services: Services
    vhost: VirtualHost
    user: Identity
    name: str
    out: list[bytes]
    out_bytes: int
    is_congested: bool
    frame_bytes_max: int
    targets: dict[bytes, Any]
    exclusive_queues: dict[str, Queue]
    confirming: "list[Channel]"

    def flush_later(self) -> None:
        """Write what was gathered at the end of the round."""

    def forget_queue(self, name: str) -> None:
        """An exclusive queue of this connection is gone."""

    def has_capability(self, name: str) -> bool:
        """The client said at login that it can do this."""


class ChannelConsumer(Protocol):
    """A consumer, from its channel's side."""

    tag: str
    queue: Queue
    is_waiting: bool
    arguments: Table


class Channel:
    """One open channel.

    prefetch_count: what consumers to come may hold each; 0 for no limit.
    global_credit: how many more messages all consumers together may hold.
    last_queue: the queue declared last, which an empty queue name stands for.
    committing: transactions that are committed but not on disk yet, the oldest first.
    counts: its messages; `message_counts` has those that are not counted on their way, too.
    is_of_a_client: it is no channel that management works through.
    """

    __slots__ = (
        "_has_confirms_due", "assembler", "committing", "confirms", "connection", "consumers",
        "counts", "global_credit", "global_prefetch_count", "idle_since_s", "is_closing",
        "last_queue", "next_delivery_tag", "number", "prefetch_count", "reply_consumer_tag",
        "reply_name", "transaction", "unacked", "vhost",
    )  # fmt: skip

    is_of_a_client = True

    def __init__(self, connection: ConnectionLink, number: int) -> None:
        self.connection = connection
        self.vhost = connection.vhost
        self.number = number
        self.is_closing = False
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
        self.idle_since_s = connection.services.clock.wall_time_s()
        connection.services.counts.channels_opened += 1

    def __repr__(self) -> str:
        return f"<Channel {self.number} of {self.connection.name}>"

    # Sending

    def send(self, method: type[base.Frame], **arguments: Any) -> None:
        """Send a method; confirms that are due go out before it."""
        if self.is_closing:
            return
        if self._has_confirms_due:
            self.send_confirms()
        self.connection.out.append(method_frame(self.number, method, **arguments))
        self.connection.flush_later()

    def send_content(self, method: type[base.Frame], message: Message, **arguments: Any) -> None:
        """Send a method that carries a message."""
        connection = self.connection
        payload = encode_method(method, **arguments)
        connection.out += content_frames(
            self.number, payload, message.header.raw, message.body, connection.frame_bytes_max
        )
        connection.out_bytes += len(message.body)
        connection.flush_later()

    # Confirms: what a queue needs of a publisher (interfaces.Publisher)

    def refuse(self, sequence: int) -> None:
        """A queue does not take a message."""
        self.counts.refused += 1
        if self.confirms is not None:
            self.confirms.refuse(sequence)
            self.confirms_due()
        elif self.transaction is not None:
            self.transaction.has_failed = True

    def hold(self, sequence: int, count: int) -> None:
        """A queue will confirm a run later."""
        if self.confirms is not None:
            self.confirms.hold(sequence, count)
        elif self.transaction is not None:
            self.transaction.held_count += 1

    def confirm(self, sequence: int) -> None:
        """A queue confirms a run that it held."""
        if self.confirms is not None:
            if self.confirms.confirm(sequence):
                self.confirms_due()
        elif self.committing:
            # The store confirms in order: it is the oldest transaction that waits.
            self.committing[0].held_count -= 1
            self.send_commits()

    def send_commits(self) -> None:
        """Say of transactions that are on disk that they are committed, in order."""
        while self.committing and not self.committing[0].held_count:
            del self.committing[0]
            self.send(commands.Tx.CommitOk)

    def confirms_due(self) -> None:
        """Messages were settled: say so at the end of the round."""
        if not self._has_confirms_due:
            self._has_confirms_due = True
            self.connection.confirming.append(self)
            self.connection.flush_later()

    @property
    def has_confirms_due(self) -> bool:
        """There are confirms to send."""
        return self._has_confirms_due

    def send_confirms(self) -> None:
        """Send what is due to the publisher, in as few frames as possible."""
        if self.connection.services.holds_confirms:
            return
        self._has_confirms_due = False
        if self.confirms is None or self.is_closing:
            return
        out = self.connection.out
        for is_ack, delivery_tag, multiple in self.confirms.take():
            if is_ack:
                frame = method_frame(
                    self.number, commands.Basic.Ack, delivery_tag=delivery_tag, multiple=multiple
                )
            else:
                frame = method_frame(
                    self.number,
                    commands.Basic.Nack,
                    delivery_tag=delivery_tag,
                    multiple=multiple,
                    requeue=True,
                )
            out.append(frame)

    # Replies

    def deliver_reply(self, message: Message) -> None:
        """A message for this channel's consumer on amq.rabbitmq.reply-to."""
        if self.is_closing or not self.reply_consumer_tag:
            return
        connection = self.connection
        address = message.address.encoded
        tag = encode_short_string(self.reply_consumer_tag)
        prefix = deliver_prefix(self.number, tag, address)
        payload = prefix[7:] + pack_tag(self.next_delivery_tag, False) + address
        self.next_delivery_tag += 1
        connection.out += content_frames(
            self.number, payload, message.header.raw, message.body, connection.frame_bytes_max
        )
        connection.flush_later()

    # Settling

    def take_unacked(self, delivery_tag: int, multiple: bool) -> list[tuple[int, Unacked]]:
        """The deliveries that an ack, nack or reject is about. Raises 406 for an unknown tag."""
        taken: list[tuple[int, Unacked]] | None
        if multiple:
            taken = self.unacked.take_up_to(delivery_tag)
        else:
            record = self.unacked.take(delivery_tag)
            taken = None if record is None else [(delivery_tag, record)]
        if taken is None:
            raise unknown_delivery_tag(delivery_tag)
        return taken

    def requeue(self, taken: list[tuple[int, Unacked]]) -> None:
        """Messages go back to their queues, each queue getting all of its own at once."""
        self.counts.given_back += len(taken)
        by_queue: dict[Queue, list[Entry]] = {}
        for _, record in taken:
            by_queue.setdefault(record.queue, []).append(record.entry)
        for _, record in taken:
            if record.consumer is not None:
                record.consumer.settled()
        for queue, entries in by_queue.items():
            queue.requeue(entries)

    def give_back(self, taken: list[tuple[int, Unacked]]) -> None:
        """Requeue what the client has not settled, without having been asked to reject it."""
        if taken and self.vhost.tracer is not None:
            self.vhost.tracer.requeued(taken)
        self.requeue(taken)

    def room_appeared(self) -> None:
        """The channel-wide limit has room again: consumers that waited for it may go on."""
        for consumer in self.consumers.values():
            if consumer.is_waiting:
                consumer.queue.consumer_has_room(consumer)

    def check_consumer_timeout(self, timeout_ms: int) -> None:
        """Close the channel if a client sits on a delivery for too long."""
        oldest = self.unacked.oldest()
        now_ms = self.connection.services.clock.now_ms()
        if oldest is None or now_ms - oldest.delivered_at_ms <= timeout_ms:
            return
        self.fail(
            precondition_failed(
                f"delivery acknowledgement on channel {self.number} timed out. Timeout value "
                f"used: {timeout_ms} ms. This timeout value can be configured, see consumers doc "
                "guide to learn more"
            )
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
        self.is_closing = True

    def release(self) -> None:
        """Cancel the consumers and requeue what is unsettled: the channel is going."""
        if self.reply_name:
            self.connection.services.reply_consumers.pop(self.reply_name, None)
            self.reply_name = self.reply_consumer_tag = ""
        consumers = tuple(self.consumers.values())
        self.consumers.clear()
        unsettled = self.unacked.take_all()
        if self.transaction is not None:
            unsettled += self.transaction.taken()
            self.transaction = None
        # Auto-delete queues go with their last consumer; what this channel holds of theirs is
        # lost with them, as in RabbitMQ, so the order does not matter to anybody else.
        for consumer in consumers:
            if not consumer.queue.is_deleted:
                consumer_deleted(consumer)
                consumer.queue.remove_consumer(consumer)
        self.give_back(unsettled)
        counts = connection_counts(self)
        counts.channels_closed += 1
        messages = self.message_counts()
        counts.closed_channels.add(messages)
        self.vhost.closed_channels.add(messages)
        if self.confirms is not None:
            counts.published_with_confirms += self.confirms.published
        self.confirms = None
        self.committing = []
        self.assembler = None
        if self.is_of_a_client:
            channel_closed(self, len(consumers))

    # Statistics

    def message_counts(self) -> MessageCounts:
        """What has happened on the channel until now."""
        counts = self.counts
        if self.confirms is not None:
            settled = self.confirms.published - self.confirms.unconfirmed_count
            counts.confirmed = max(0, settled - counts.refused)
        taken = counts.delivered + counts.got - len(self.unacked) - counts.given_back
        counts.acked = max(0, taken)
        return counts


def connection_counts(channel: Channel) -> NodeCounts:
    """The node's counts."""
    return channel.connection.services.counts


def unknown_delivery_tag(delivery_tag: int) -> ChannelFault:
    """406 for a tag that is not open on the channel."""
    return precondition_failed(f"unknown delivery tag {delivery_tag}")
