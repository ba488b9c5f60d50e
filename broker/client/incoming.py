"""What a server sends: bytes to frames, frames to channels, and what is wrong with them.

A server that breaks the protocol is told so with connection.close, as a client would be; after an
error of this node the socket is closed. Both are decided here, and nowhere else.
"""

import logging
from typing import Final, Protocol

from pamqp import base

from leveret.broker.amqp.errors import (
    ConnectionFault,
    channel_error,
    format_snippet,
    frame_error,
    unexpected_frame,
)
from leveret.broker.amqp.frames import HEARTBEAT, METHOD, is_known_frame
from leveret.broker.amqp.methods import UnreadableMethod, decode_method
from leveret.broker.client.channel import ClientChannel
from leveret.broker.client.delivery_scanner import Delivery, DeliveryScanner, DeliverySink

FRAME_BYTES_MAX_AT_FIRST: Final = 128 * 1024
"""Before frame_max is negotiated. The properties in a server's connection.start may be long."""

logger = logging.getLogger("leveret.client")


class Receiver(Protocol):
    """The connection that receives the frames."""

    def handle_method(self, method: base.Frame) -> None:
        """Handle a method on channel 0. Raises ConnectionFault."""

    def fail(self, fault: ConnectionFault) -> None:
        """The server has broken the protocol."""

    def drop(self, reason: str) -> None:
        """Close the socket without a word."""


class ClientIncoming(DeliverySink):
    """The frames of one connection. scanner: takes the bytes. channels: by number."""

    __slots__ = ("_connection", "channels", "has_ended", "scanner")

    def __init__(self, connection: Receiver) -> None:
        self._connection = connection
        self.channels: dict[int, ClientChannel] = {}
        self.has_ended = False
        self.scanner = DeliveryScanner(self, FRAME_BYTES_MAX_AT_FIRST)

    def receive(self, data: bytes) -> None:
        """Process bytes from the socket."""
        if self.has_ended:
            return
        scanner = self.scanner
        try:
            scanner.add(data)
            scanner.scan()
        except ConnectionFault as fault:
            self._connection.fail(fault)
        except UnreadableMethod as unreadable:
            self._connection.fail(frame_error(str(unreadable)))
        except Exception as error:
            logger.exception("an internal error; a connection to a server is closed")
            self._connection.drop(f"an internal error of this node: {error!r}")

    def on_deliveries(self, channel: int, consumer_tag: bytes, deliveries: list[Delivery]) -> None:
        """See `DeliverySink`."""
        if not self.has_ended:
            self._channel(channel).deliver(consumer_tag, deliveries)

    def on_ack(self, channel: int, delivery_tags: list[int], multiple: int) -> None:
        """Confirms. See `FrameSink`."""
        if not self.has_ended:
            self._channel(channel).confirmed(delivery_tags, multiple != 0, True)

    def on_publish(
        self,
        channel: int,
        arguments: bytes,
        properties: list[bytes],
        bodies: list[bytes],
        body_bytes: int,
    ) -> None:
        """A server publishes nothing."""
        raise unexpected_frame("basic.publish is not expected of a server")

    def on_frame(self, kind: int, channel: int, payload: bytes) -> None:
        """See `FrameSink`."""
        if self.has_ended:
            return
        if not is_known_frame(kind, payload):
            raise frame_error(f"type {kind}, {format_snippet(payload)}: unknown_frame")
        if kind == HEARTBEAT:
            return
        if channel:
            self._channel(channel).receive(kind, payload)
        elif kind == METHOD:
            self._connection.handle_method(decode_method(payload))
        else:
            raise unexpected_frame("content is not expected on channel 0")

    def _channel(self, number: int) -> ClientChannel:
        channel = self.channels.get(number)
        if channel is None:
            raise channel_error(f"channel {number} is not open")
        return channel
