"""A server's output: bytes to frames, frames to channels, and protocol errors.

A server that breaks the protocol gets a connection.close, as a client would; after an error of this
node the socket is closed. Both are decided here, and nowhere else.

Frames are handled `FRAMES_MAX` at a time; the rest waits for the next turn of the event loop, and
the socket is not read until then. Deliveries that arrive together do not count: the size of a read
bounds their cost.
"""

import logging
from collections import deque
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
from leveret.broker.moving.client.channel import ClientChannel
from leveret.broker.moving.client.delivery_scanner import (
    ClientDelivery,
    DeliveryScanner,
    DeliverySink,
)
from leveret.broker.runtime.turns import TurnOver

FRAME_BYTES_MAX_AT_FIRST: Final = 128 * 1024
"""Before frame_max is negotiated. The properties in a server's connection.start may be long."""
FRAMES_MAX: Final = 1000
"""Frames of a turn. A method takes up to 10 microseconds, and a read may bring 32,000 frames."""

logger = logging.getLogger("leveret.client")


class FrameReceiver(Protocol):
    """The connection that receives the frames."""

    def handle_method(self, method: base.Frame) -> None:
        """Handle a method on channel 0. Raises ConnectionFault."""

    def fail(self, fault: ConnectionFault) -> None:
        """The server has broken the protocol."""

    def drop(self, reason: str) -> None:
        """Close the socket without connection.close."""

    def wait_for_turn(self) -> None:
        """Call `ClientIncoming.go_on` in the next turn of the event loop."""


class ClientIncoming(DeliverySink):
    """The frames of one connection. channels: by number.

    is_closing: the connection is being closed; only the answer to that is handled.
    """

    __slots__ = (
        "_connection", "_frames_left", "_is_waiting", "_later", "_scanner", "channels",
        "has_ended", "is_closing",
    )  # fmt: skip

    def __init__(self, connection: FrameReceiver) -> None:
        self._connection = connection
        self.channels: dict[int, ClientChannel] = {}
        self.has_ended = self.is_closing = False
        self._frames_left = FRAMES_MAX
        self._is_waiting = False
        # Bytes that were read while the scanner waits for its turn.
        self._later: deque[bytes] = deque()
        self._scanner: DeliveryScanner | None = DeliveryScanner(self, FRAME_BYTES_MAX_AT_FIRST)

    def set_frame_max(self, frame_bytes_max: int) -> None:
        """The largest frame is negotiated."""
        if self._scanner is not None:
            self._scanner.frame_bytes_max = frame_bytes_max

    def end(self) -> None:
        """The connection has ended: stop handling frames."""
        self.has_ended = True
        # They refer to each other, and to the channels.
        self._scanner = None
        self.channels.clear()
        self._later.clear()

    def receive(self, data: bytes) -> None:
        """Process bytes from the socket."""
        scanner = self._scanner
        if scanner is None:
            return
        if self._is_waiting:
            self._later.append(data)
        else:
            self._frames_left = FRAMES_MAX
            scanner.add(data)
            self._scan(scanner)

    def go_on(self) -> None:
        """A new turn: handle the waiting bytes."""
        self._is_waiting = False
        self._frames_left = FRAMES_MAX
        if self._scanner is not None:
            self._scan(self._scanner)
        while self._later and not self._is_waiting:
            self.receive(self._later.popleft())

    def _scan(self, scanner: DeliveryScanner) -> None:
        try:
            scanner.scan()
        except TurnOver:
            self._is_waiting = True
            self._connection.wait_for_turn()
        except ConnectionFault as fault:
            self._connection.fail(fault)
        except UnreadableMethod as unreadable:
            self._connection.fail(frame_error(str(unreadable)))
        except Exception as error:
            logger.exception("an internal error; a connection to a server is closed")
            self._connection.drop(f"an internal error of this node: {error!r}")

    def on_deliveries(
        self, channel: int, consumer_tag: bytes, deliveries: list[ClientDelivery]
    ) -> None:
        """Pass deliveries to their channel."""
        if not (self.has_ended or self.is_closing):
            self._channel(channel).deliver(consumer_tag, deliveries)

    def on_ack(self, channel: int, delivery_tags: list[int], multiple: int) -> None:
        """Take a confirm of the server."""
        if not (self.has_ended or self.is_closing):
            self._channel(channel).confirmed(delivery_tags, multiple != 0, True)

    def on_publish(
        self,
        channel: int,
        arguments: bytes,
        properties: list[bytes],
        bodies: list[bytes],
        body_bytes: int,
    ) -> None:
        """Raise a fault: a server never publishes."""
        raise unexpected_frame("basic.publish is not expected of a server")

    def on_frame(self, kind: int, channel: int, payload: bytes) -> None:
        """Handle a frame that is not part of a run."""
        if self.has_ended:
            return
        if not is_known_frame(kind, payload):
            raise frame_error(f"type {kind}, {format_snippet(payload)}: unknown_frame")
        if channel and kind != HEARTBEAT:
            if not self.is_closing:
                self._channel(channel).receive(kind, payload)
        elif kind == METHOD:
            self._connection.handle_method(decode_method(payload))
        elif kind != HEARTBEAT:
            raise unexpected_frame("content is not expected on channel 0")
        self._frames_left -= 1
        if self._frames_left <= 0:
            raise TurnOver

    def _channel(self, number: int) -> ClientChannel:
        channel = self.channels.get(number)
        if channel is None:
            raise channel_error(f"channel {number} is not open")
        return channel
