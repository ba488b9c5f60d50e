"""A consumer: one subscription of a channel to a queue, and the way of a message to the socket.

`deliver` is half of the broker's hot path. The frames of a delivery are put together from pieces
(amqp/content.py); those between the delivery tag and the body are kept from one message to the
next, because a queue's messages mostly have the same address, properties and size.
"""

from pamqp import commands

from broker.amqp.content import (
    body_frames,
    deliver_prefix,
    deliver_suffix,
    header_frame,
    pack_tag,
)
from broker.amqp.field_table import Table, encode_short_string
from broker.amqp.frames import FRAME_END_BYTE, FRAME_OVERHEAD_BYTES
from broker.channel.channel import Channel
from broker.channel.channel_events import consumer_lost_its_queue
from broker.channel.unacked import Unacked
from broker.interfaces import UNLIMITED
from broker.queues.actor import Queue
from storage.message import Address, Entry, Header, Message

FRAMES_BYTES_GUESS = 128
"""What a delivery has beside its body, about: enough to notice that a client does not keep up."""
OUTPUT_BYTES_MAX = 1024 * 1024
"""Gathered for one connection in one round; more has to wait for the next."""


class Consumer:
    """One consumer. Its queue knows it as `interfaces.Consumer`.

    credit: how many more messages it may hold unsettled.
    """

    __slots__ = (
        "_address", "_body_bytes", "_header", "_prefix", "_suffix", "_tag_bytes", "arguments",
        "channel", "credit", "is_exclusive", "is_waiting", "no_ack", "prefetch_count", "priority",
        "queue", "tag",
    )  # fmt: skip

    def __init__(
        self,
        channel: Channel,
        queue: Queue,
        tag: str,
        no_ack: bool,
        is_exclusive: bool,
        arguments: Table,
    ) -> None:
        self.channel = channel
        self.queue = queue
        self.tag = tag
        self.no_ack = no_ack
        self.is_exclusive = is_exclusive
        self.is_waiting = False
        self.arguments = arguments
        self.priority: int = arguments["x-priority"][1] if "x-priority" in arguments else 0
        self.prefetch_count = 0 if no_ack else channel.prefetch_count
        self.credit = self.prefetch_count or UNLIMITED
        self._tag_bytes = encode_short_string(tag)
        self._address: Address | None = None
        self._header: Header | None = None
        self._body_bytes = -1
        self._prefix = b""
        self._suffix = b""

    def __repr__(self) -> str:
        return f"<Consumer {self.tag!r} of {self.queue!r}>"

    def room(self) -> int:
        """How many messages it may be given now."""
        channel = self.channel
        if channel.connection.is_congested:
            return 0
        if self.no_ack:
            return UNLIMITED
        credit = channel.global_credit
        return self.credit if self.credit < credit else credit

    def deliver(self, entries: list[Entry]) -> None:
        """Send messages to the client, and note them as unsettled if it has to settle them."""
        channel = self.channel
        connection = channel.connection
        out = connection.out
        tag = channel.next_delivery_tag
        records = None if self.no_ack else channel.unacked.records
        queue = self.queue
        now_ms = connection.services.clock.now_ms()
        total_bytes = FRAMES_BYTES_GUESS * len(entries)
        header, address, size = self._header, self._address, self._body_bytes
        prefix, suffix = self._prefix, self._suffix
        for entry in entries:
            message = entry.message
            body = message.body
            if message.header is not header or message.address is not address or len(body) != size:
                if not self._render(message):
                    self._deliver_in_pieces(message, tag, entry.redelivered)
                    body = b""
                header, address, size = self._header, self._address, self._body_bytes
                prefix, suffix = self._prefix, self._suffix
            if size >= 0:
                out += (prefix, pack_tag(tag, entry.redelivered), suffix, body, FRAME_END_BYTE)
            total_bytes += len(message.body)
            if records is not None:
                records[tag] = Unacked(entry, queue, self, now_ms)
            tag += 1
        channel.next_delivery_tag = tag
        count = len(entries)
        if records is not None:
            self.credit -= count
            channel.global_credit -= count
            channel.counts.delivered += count
        else:
            channel.counts.delivered_no_ack += count
        if queue.may_redeliver:
            channel.counts.redelivered += sum(entry.redelivered for entry in entries)
        connection.out_bytes += total_bytes
        if connection.out_bytes > OUTPUT_BYTES_MAX:
            connection.is_congested = True
        connection.flush_later()
        tracer = channel.vhost.tracer
        if tracer is not None:
            tracer.delivered(channel, queue, self.tag, entries, tag - count, self.no_ack)
        observer = connection.services.observer
        if observer is not None:
            for entry in entries:
                observer.delivered(channel.vhost.name, queue.name, entry.message, entry.redelivered)

    def _render(self, message: Message) -> bool:
        """Make the frames around messages like this one; False if its body needs several."""
        body_bytes = len(message.body)
        frame_bytes_max = self.channel.connection.frame_bytes_max
        if frame_bytes_max and body_bytes > frame_bytes_max - FRAME_OVERHEAD_BYTES:
            self._header = self._address = None
            self._body_bytes = -1
            return False
        number = self.channel.number
        address = message.address
        self._prefix = deliver_prefix(number, self._tag_bytes, address.encoded)
        self._suffix = deliver_suffix(number, address.encoded, message.header.raw, body_bytes)
        self._header, self._address, self._body_bytes = message.header, address, body_bytes
        return True

    def _deliver_in_pieces(self, message: Message, tag: int, redelivered: bool) -> None:
        """A body that is larger than frame_max allows goes out in several frames."""
        channel = self.channel
        connection = channel.connection
        address = message.address.encoded
        connection.out += (
            deliver_prefix(channel.number, self._tag_bytes, address),
            pack_tag(tag, redelivered),
            address,
            FRAME_END_BYTE,
            header_frame(channel.number, message.header.raw, len(message.body)),
            *body_frames(channel.number, message.body, connection.frame_bytes_max),
        )

    def settled(self) -> None:
        """The client is done with one message: there is room for another."""
        channel = self.channel
        self.credit += 1
        channel.global_credit += 1
        if self.is_waiting:
            self.queue.consumer_has_room(self)
        elif channel.global_credit == 1:
            channel.room_appeared()

    def queue_deleted(self) -> None:
        """There will be no more messages: tell the client, if it wants to know."""
        channel = self.channel
        channel.consumers.pop(self.tag, None)
        consumer_lost_its_queue(self)
        if channel.connection.has_capability("consumer_cancel_notify"):
            channel.send(commands.Basic.Cancel, consumer_tag=self.tag, nowait=True)
