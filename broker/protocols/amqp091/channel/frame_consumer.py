"""A channel's consumer: the path of a message to the socket.

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
from leveret.broker.protocols.amqp091.channel.channel import Channel
from leveret.broker.queues.contract.queue_client import QueueClient
from leveret.broker.sessions.interceptors import message_to_send
from leveret.broker.sessions.session_consumer import SessionConsumer
from leveret.broker.sessions.unacked_record import Unacked
from leveret.storage.messages.message import Address, Entry, Message

_WRITER: Final = BytesWriter()
"""Emptied at the beginning of each `FrameConsumer.deliver`."""
FRAMES_BYTES_GUESS: Final = 128
"""Approximate bytes of a delivery besides its body, to notice clients that read too slowly."""


class FrameConsumer(SessionConsumer):
    """One consumer of a channel, which gets its messages as frames."""

    __slots__ = ("_address", "_frames", "_tag_bytes", "_turns", "channel")

    def __init__(
        self,
        channel: Channel,
        queue: QueueClient,
        tag: str,
        no_ack: bool,
        is_exclusive: bool,
        arguments: Table,
    ) -> None:
        super().__init__(channel, queue, tag, no_ack, is_exclusive, arguments)
        self.channel = channel
        self._turns = channel.vhost.turns
        self._tag_bytes = encode_short_string(tag)
        self._address: Address | None = None
        self._frames: DeliveryFrames | None = None

    def room(self) -> int:
        """The number of messages that it may be given now: none if the client does not keep up."""
        return 0 if self.channel.output.is_congested else super().room()

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
        intercepts = channel.intercepts_outgoing
        for entry in entries:
            message = entry.message
            if intercepts:
                changed = message_to_send(channel, queue.name, message)
                if changed is None:
                    if records is not None:
                        records[tag] = Unacked(entry, queue, self, now_ms)
                    tag += 1
                    continue
                message = changed
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
        self.note_delivered(entries, first_tag)

    def _take_over(self, writer: BytesWriter) -> None:
        """Append the written frames to the connection's output."""
        if len(writer):
            self.channel.output.pieces.append(writer.getvalue())
            writer.truncate(0)

    def _deliver_in_pieces(self, message: Message, tag: int, redelivered: bool) -> None:
        """Send a message whose body exceeds frame_max in several frames."""
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

    def tell_cancelled(self) -> None:
        """Notify a client that has the capability for it, unless it uses the tag again by now."""
        channel = self.channel
        if channel.tells_cancels and self.tag not in channel.consumers:
            channel.send(commands.Basic.Cancel, consumer_tag=self.tag, nowait=True)
