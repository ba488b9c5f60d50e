"""Assembles a message from its frames: a method such as basic.publish, a content header, bodies.

The scanner hands over most messages whole (amqp/frames.py). This is for the rest: a body in several
frames, frames that arrived in different reads, frames of several channels mixed. Frames out of
order raise 505 with RabbitMQ's texts (`rabbit_command_assembler`).
"""

from io import BytesIO
from typing import NamedTuple

from leveret.broker.amqp.errors import (
    ConnectionFault,
    format_snippet,
    frame_error,
    unexpected_frame,
)
from leveret.broker.amqp.frames import BASIC_PUBLISH, BODY, CLASS_BASIC, HEADER

HEADER_BYTES_MIN = 14
GATHERED_BYTES_MIN = 1024 * 1024
"""A body of this size is gathered in a `BytesIO` as it arrives, which returns its buffer without a
copy: joining 100 MB at the end would take 50 ms.
"""


class Content(NamedTuple):
    """A whole message."""

    arguments: bytes
    properties: bytes
    body: bytes


class ContentAssembler:
    """The message of which one channel has received some frames.

    arguments: the method's, as they were received.
    """

    __slots__ = (
        "_arguments", "_body_bytes", "_gathered", "_missing_bytes", "_pieces", "_properties",
    )  # fmt: skip

    def __init__(self, arguments: bytes) -> None:
        self._arguments = arguments
        self._properties: bytes | None = None
        self._pieces: list[bytes] = []
        self._gathered: BytesIO | None = None
        self._body_bytes = 0
        self._missing_bytes = 0

    @property
    def body_bytes(self) -> int:
        """The size of the body, as announced."""
        return self._body_bytes

    def add(self, kind: int, payload: bytes) -> Content | None:
        """The message, if this frame completes it."""
        if self._properties is None:
            self._add_header(kind, payload)
        else:
            self._add_body(kind, payload)
        if self._missing_bytes or self._properties is None:
            return None
        return Content(self._arguments, self._properties, self._body())

    def _body(self) -> bytes:
        if self._gathered is not None:
            return self._gathered.getvalue()
        return self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)

    def _add_header(self, kind: int, payload: bytes) -> None:
        expected = f"expected content header for class {CLASS_BASIC}, "
        if kind != HEADER or payload[2:4] not in (b"\0\0", b""):
            raise _blaming_publish(
                unexpected_frame(f"{expected}got non content header frame instead")
            )
        if len(payload) < HEADER_BYTES_MIN:
            raise frame_error(f"type {kind}, {format_snippet(payload)}: unknown_frame")
        class_id = int.from_bytes(payload[:2], "big")
        if class_id != CLASS_BASIC:
            raise _blaming_publish(
                unexpected_frame(f"{expected}got one for class {class_id} instead")
            )
        self._body_bytes = self._missing_bytes = int.from_bytes(payload[4:12], "big")
        self._properties = payload[12:]
        if self._body_bytes >= GATHERED_BYTES_MIN:
            self._gathered = BytesIO()

    def _add_body(self, kind: int, payload: bytes) -> None:
        if kind != BODY or len(payload) > self._missing_bytes:
            raise _blaming_publish(
                unexpected_frame("expected content body, got non content body frame instead")
            )
        if self._gathered is not None:
            self._gathered.write(payload)
        else:
            self._pieces.append(payload)
        self._missing_bytes -= len(payload)


def _blaming_publish(fault: ConnectionFault) -> ConnectionFault:
    fault.class_id, fault.method_id = BASIC_PUBLISH >> 16, BASIC_PUBLISH & 0xFFFF
    return fault
