"""Connections that break after a number of frames."""

from collections.abc import Callable

from leveret.broker.amqp.frames import FrameSink
from leveret.broker.net.connection import Connection


class BreakableConnection(Connection):
    """A connection that can be told to break after some more frames.

    breakable: counts the frames that come in.
    """

    __slots__ = ("breakable",)

    def frame_sink(self) -> FrameSink:
        """What takes the frames that come in."""
        self.breakable = BreakableSink(self.incoming, self.abort)
        return self.breakable


class BreakableSink:
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
        properties: bytes,
        body_bytes: int,
        bodies: list[bytes],
    ) -> None:
        """A run of messages, of which only some may come through."""
        if self.frames_left is not None:
            frames_a_message = 3 if body_bytes else 2
            allowed = min(self.frames_left // frames_a_message, len(bodies))
            self._spend(len(bodies) * frames_a_message)
            bodies = bodies[:allowed]
        if bodies:
            self._sink.on_publish(channel, arguments, properties, body_bytes, bodies)

    def on_ack(self, channel: int, delivery_tag: int, multiple: int) -> None:
        """A basic.ack."""
        if self._spend(1):
            self._sink.on_ack(channel, delivery_tag, multiple)

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
