"""A consumer: one subscription of a channel to a queue, and the path of a message to the socket.

`deliver` is half of the broker's hot path. The deliveries of a run are written one behind the other
to a buffer that all consumers use in turn (amqp/content.py), and become one piece of the output.
"""

from typing import Final

from librt.strings import BytesWriter
from mypy_extensions import i64
from pamqp import commands

from leveret.broker.amqp.content import (
    COPIED_BYTES_MAX,
    DeliveryFrames,
    body_frames,
    deliver_prefix,
    header_frame,
    pack_tag,
)
from leveret.broker.amqp.content_header import ContentHeader
from leveret.broker.amqp.field_table import Table, encode_short_string
from leveret.broker.amqp.frames import FRAME_END_BYTE, FRAME_OVERHEAD_BYTES
from leveret.broker.amqp.json_form import table_to_json, text
from leveret.broker.channel.channel import Channel
from leveret.broker.channel.unacked_record import Unacked
from leveret.broker.events.channel_events import consumer_lost_its_queue
from leveret.broker.queues.contract.queue_client import UNLIMITED, QueueClient
from leveret.broker.queues.contract.queue_client import Consumer as QueueConsumer
from leveret.broker.queues.contract.status import ConnectionFigures, ConsumerFigures
from leveret.storage.messages.message import Address, Entry, Message

_WRITER: Final = BytesWriter()
"""Emptied at the beginning of each `Consumer.deliver`."""
FRAMES_BYTES_GUESS: Final = 128
"""Bytes of a delivery beside its body, roughly: enough to notice a client that does not keep up."""


class Consumer(QueueConsumer):
    """One consumer of a client.

    credit: the number of further messages that it may hold unsettled.
    served: the time of its last messages among the channel's consumers, if these share a limit.
    """

    __slots__ = (
        "_address", "_frames", "_shares_limit", "_tag_bytes", "_turns", "arguments", "channel",
        "credit", "prefetch_count", "queue", "served",
    )  # fmt: skip

    def __init__(
        self,
        channel: Channel,
        queue: QueueClient,
        tag: str,
        no_ack: bool,
        is_exclusive: bool,
        arguments: Table,
    ) -> None:
        priority: int = arguments["x-priority"][1] if "x-priority" in arguments else 0
        cancels_on_failover = arguments.get("x-cancel-on-ha-failover") == ("t", True)
        super().__init__(tag, no_ack, is_exclusive, priority, cancels_on_failover)
        self.channel = channel
        self._turns = channel.vhost.turns
        self.queue = queue
        self.arguments = arguments
        self.prefetch_count = 0 if no_ack else channel.prefetch_count
        self.served = 0
        self.credit = self._credit_max()
        self._shares_limit = queue.kind.has_global_qos
        self._tag_bytes = encode_short_string(tag)
        self._address: Address | None = None
        self._frames: DeliveryFrames | None = None

    def __repr__(self) -> str:
        return f"<Consumer {self.tag!r} of {self.queue!r}>"

    def _credit_max(self) -> int:
        return self.prefetch_count or self.queue.kind.credit_max or UNLIMITED

    @property
    def held(self) -> int:
        """The number of messages that it holds unsettled."""
        return self._credit_max() - self.credit

    def figures(self, activity: str) -> ConsumerFigures:
        """Its figures for management. activity: one of queues/status.py."""
        channel = self.channel
        connection = channel.connection
        return ConsumerFigures(
            tag=text(self.tag),
            ack_required=not self.no_ack,
            activity=activity,
            is_exclusive=self.is_exclusive,
            priority=self.priority,
            prefetch_count=self.prefetch_count,
            credit=None if self.credit > UNLIMITED // 2 else self.credit,
            timeout_ms=self.queue.options.consumer_timeout_ms,
            arguments=table_to_json(self.arguments),
            connection=ConnectionFigures(
                connection.name, connection.peer_host, connection.peer_port
            ),
            channel_name=channel.name,
            channel_number=channel.number,
            user=text(connection.user.name),
            unacked=self.held,
        )

    def room(self) -> int:
        """The number of messages that it may be given now."""
        channel = self.channel
        if channel.output.is_congested or channel.has_ended:
            return 0
        shared = channel.global_credit
        if self.no_ack:
            return UNLIMITED if shared > 0 or not self._shares_limit else 0
        if self.credit < shared or not self._shares_limit:
            return self.credit
        return shared

    def deliver(self, entries: list[Entry]) -> None:
        """Send messages to the client, and record them as unsettled if they need an ack."""
        channel = self.channel
        output = channel.output
        writer = _WRITER
        writer.truncate(0)
        first_tag = channel.next_delivery_tag
        tag: i64 = first_tag
        records = None if self.no_ack else channel.unacked.records
        queue = self.queue
        now_ms = self._turns.now_ms
        total_bytes: i64 = FRAMES_BYTES_GUESS * len(entries)
        body_bytes_max: i64 = output.frame_bytes_max - FRAME_OVERHEAD_BYTES
        if body_bytes_max < 0 or body_bytes_max > COPIED_BYTES_MAX:
            body_bytes_max = COPIED_BYTES_MAX
        address, frames = self._address, self._frames
        for entry in entries:
            message = entry.message
            body = message.body
            size: i64 = len(body)
            if size > body_bytes_max:
                self._take_over(writer)
                self._deliver_in_pieces(message, tag, entry.redelivered)
            else:
                if frames is None or message.address is not address:
                    address = self._address = message.address
                    frames = self._frames = DeliveryFrames(
                        channel.number, self._tag_bytes, address.encoded
                    )
                header = message.header
                # Compiled code reads attributes of a known class in a tenth of the time.
                assert isinstance(header, ContentHeader)
                frames.write(writer, tag, entry.redelivered, header.raw, body)
            total_bytes += size
            if records is not None:
                records[tag] = Unacked(entry, queue, self, now_ms)
            tag += 1
        self._take_over(writer)
        channel.next_delivery_tag = tag
        output.gathered(total_bytes)
        self._note_delivered(entries, first_tag)

    def _take_over(self, writer: BytesWriter) -> None:
        """Append the written frames to the connection's output."""
        if len(writer):
            self.channel.output.pieces.append(writer.getvalue())
            writer.truncate(0)

    def _note_delivered(self, entries: list[Entry], first_tag: int) -> None:
        """Count messages that were sent, take their credit, and report them."""
        channel, queue = self.channel, self.queue
        output = channel.output
        count = len(entries)
        if channel.global_prefetch_count:
            self.served = channel.next_delivery_tag
        if not self.no_ack:
            self.credit -= count
            channel.global_credit -= count
            channel.counts.delivered += count
        else:
            channel.counts.delivered_no_ack += count
        if queue.may_redeliver:
            channel.counts.redelivered += sum(entry.redelivered for entry in entries)
        tracer = channel.vhost.tracer
        if tracer is not None:
            tracer.delivered(channel, queue, self.tag, entries, first_tag, self.no_ack)
        observer = output.services.observer
        if observer is not None:
            for entry in entries:
                observer.delivered(channel.vhost.name, queue.name, entry.message, entry.redelivered)

    def _deliver_in_pieces(self, message: Message, tag: int, redelivered: bool) -> None:
        """A body that is larger than frame_max allows goes out in several frames."""
        channel = self.channel
        output = channel.output
        address = message.address.encoded
        output.pieces += (
            deliver_prefix(channel.number, self._tag_bytes, address),
            pack_tag(tag, redelivered),
            address,
            FRAME_END_BYTE,
            header_frame(channel.number, message.header.raw, len(message.body)),
            *body_frames(channel.number, message.body, output.frame_bytes_max),
        )

    def settled(self) -> None:
        """The client has settled one message: there is room for another."""
        channel = self.channel
        self.credit += 1
        channel.global_credit += 1
        if channel.global_prefetch_count:
            if self.is_waiting or channel.global_credit == 1:
                channel.credit_consumers()
        elif self.is_waiting:
            self.queue.credit(self)

    def queue_replaced(self, queue: QueueClient) -> None:
        """Another object stands for the queue from now on."""
        self.queue = queue

    def queue_deleted(self) -> None:
        """The queue is deleted: leave the channel."""
        self.channel.consumers.pop(self.tag, None)
        consumer_lost_its_queue(self)

    def tell_cancelled(self) -> None:
        """Notify a client that has the capability for it, unless it uses the tag again by now."""
        channel = self.channel
        may_be_told = channel.connection.has_capability("consumer_cancel_notify")
        if may_be_told and self.tag not in channel.consumers:
            channel.send(commands.Basic.Cancel, consumer_tag=self.tag, nowait=True)
