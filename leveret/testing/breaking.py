"""Connections that break after a number of frames."""

from collections.abc import Callable

from leveret.broker.amqp.frames import FrameSink
from leveret.broker.protocols.amqp091.connection.connection import Connection


class BreakableConnection(Connection):
    """A connection that can be told to break after some more frames.

    breakable: counts the frames that come in.
    """

    __slots__ = ("breakable",)

    def frame_sink(self) -> FrameSink:
        """What takes the frames that come in."""
        self.breakable = BreakableSink(self.incoming, self.abort)
        return self.breakable


class BreakableSink(FrameSink):
    """Hands frames on until there were too many.

    frames_left: how many; None if the connection is to hold.
    """

    def __init__(self, sink: FrameSink, abort: Callable[[], None]) -> None:
        self._sink = sink
        self._abort = abort
        self.frames_left: int | None = None

    def on_publish(
        self,
        channel: int,
        arguments: bytes,
        properties: list[bytes],
        bodies: list[bytes],
        body_bytes: int,
    ) -> None:
        """Messages, of which only some may come through."""
        if self.frames_left is None:
            self._sink.on_publish(channel, arguments, properties, bodies, body_bytes)
            return
        bodies = [body for body in bodies if self._spend(3 if body else 2)]
        if bodies:
            properties, body_bytes = properties[: len(bodies)], sum(map(len, bodies))
            self._sink.on_publish(channel, arguments, properties, bodies, body_bytes)

    def on_ack(self, channel: int, delivery_tags: list[int], multiple: int) -> None:
        """basic.ack of each of the tags."""
        delivery_tags = [tag for tag in delivery_tags if self._spend(1)]
        if delivery_tags:
            self._sink.on_ack(channel, delivery_tags, multiple)

    def on_frame(self, kind: int, channel: int, payload: bytes) -> None:
        """Any other frame."""
        if self._spend(1):
            self._sink.on_frame(kind, channel, payload)

    def _spend(self, frames: int) -> bool:
        """Count frames that came in; whether the connection still holds."""
        if self.frames_left is None:
            return True
        self.frames_left -= frames
        if self.frames_left < 0:
            self._abort()
            return False
        return True
