"""Recognises similar deliveries in received bytes, and processes a run of them at once. Pure.

Deliveries to one consumer are mostly equal in form: the same method except for the delivery tag,
the same content header except for a timestamp, and a body of the same size. The first is parsed
(`shape_of`); the following ones are recognised by their bytes and skipped (`step`), so a message
costs three comparisons and reading its timestamp.
"""

from typing import NamedTuple

from pamqp import commands

from leveret.broker.amqp.frames import BODY, HEADER, METHOD
from leveret.mgmt.perf.histogram import LatencyHistogram
from leveret.mgmt.perf.messages import FRAME_HEAD_BYTES, STAMP_BYTES, STAMP_FIELD

TAG_BYTES = 8
DELIVER = commands.Basic.Deliver.index.to_bytes(4, "big")
DAY_US = 86_400_000_000
"""A message with an older timestamp was not published by this tool."""


class Shape(NamedTuple):
    """The form of a delivery, in order: start, delivery tag, middle, timestamp, rest, rest of the
    body.

    stamp_at, rest_at: offsets. length: bytes of all frames, including the last frame end. The
    timestamp is in the header or the body; has_stamp is False if there is none.
    """

    start: bytes
    middle: bytes
    rest: bytes
    stamp_at: int
    rest_at: int
    length: int
    has_stamp: bool


class DeliveryRun(NamedTuple):
    """A run of deliveries that was processed. stop: the offset after it."""

    messages: int
    stop: int
    last_tag: int


def shape_of(data: bytes, start: int) -> Shape | None:
    """Return the form of the delivery that begins here.

    None if something else begins here, if it is incomplete, or if its body has several frames.
    """
    if data[start + FRAME_HEAD_BYTES : start + FRAME_HEAD_BYTES + 4] != DELIVER:
        return None
    header = _stop_of(data, start, METHOD)
    body = _stop_of(data, header, HEADER)
    stop = _stop_of(data, body, BODY)
    if stop < 0:
        return None
    size = stop - body - FRAME_HEAD_BYTES - 1
    if int.from_bytes(data[header + 11 : header + 19], "big") != size:
        return None
    tag_at = start + FRAME_HEAD_BYTES + 5 + data[start + FRAME_HEAD_BYTES + 4]
    body_at = body + FRAME_HEAD_BYTES
    found = data.find(STAMP_FIELD, header, body)
    stamp_at = body_at if found < 0 else found + len(STAMP_FIELD)
    has_stamp = found >= 0 or size >= STAMP_BYTES
    rest_at = stamp_at + STAMP_BYTES if has_stamp else body_at
    return Shape(
        start=data[start:tag_at], middle=data[tag_at + TAG_BYTES : stamp_at],
        rest=data[rest_at:body_at], stamp_at=stamp_at - start, rest_at=rest_at - start,
        length=stop - start, has_stamp=has_stamp,
    )  # fmt: skip


def _stop_of(data: bytes, start: int, kind: int) -> int:
    """Return the end of the frame that begins here; -1 if it is of another kind or incomplete."""
    if start < 0 or len(data) - start <= FRAME_HEAD_BYTES or data[start] != kind:
        return -1
    size = int.from_bytes(data[start + 3 : start + FRAME_HEAD_BYTES], "big")
    stop = start + FRAME_HEAD_BYTES + size + 1
    return stop if stop <= len(data) else -1


def step(
    data: bytes, start: int, shape: Shape, count_max: int, now_ns: int, latencies: LatencyHistogram
) -> DeliveryRun:
    """Process deliveries of this form from `start` on, and record their latencies."""
    first, middle, rest, stamp_at, rest_at, length, has_stamp = shape
    middle_at = len(first) + TAG_BYTES
    last = min(len(data), start + count_max * length) - length
    position = start
    stamp, alike = b"", 0
    while (
        position <= last
        and data.startswith(first, position)
        and data.startswith(middle, position + middle_at)
        and data.startswith(rest, position + rest_at)
    ):
        if has_stamp:
            found = data[position + stamp_at : position + stamp_at + STAMP_BYTES]
            if found != stamp:
                note_latency(latencies, stamp, alike, now_ns)
                stamp, alike = found, 0
            alike += 1
        position += length
    note_latency(latencies, stamp, alike, now_ns)
    tag_stop = position - length + middle_at
    tag = int.from_bytes(data[tag_stop - TAG_BYTES : tag_stop], "big")
    return DeliveryRun((position - start) // length, position, tag)


class Assembly:
    """A message that is processed frame by frame. is_open: it is incomplete."""

    def __init__(self) -> None:
        self.is_open = False
        self.tag = 0
        self._stamp = b""
        self._missing_bytes = 0

    def begin(self, tag: int) -> None:
        """Begin a message after its method."""
        self.is_open, self.tag, self._stamp = True, tag, b""

    def add(self, kind: int, payload: bytes) -> bytes | None:
        """Add a header or body frame; returns the timestamp of a complete message, b"" if it has
        none.
        """
        if kind == HEADER:
            self._missing_bytes = int.from_bytes(payload[4:12], "big")
            found = payload.find(STAMP_FIELD)
            if found >= 0:
                start = found + len(STAMP_FIELD)
                self._stamp = payload[start : start + STAMP_BYTES]
        else:
            self._stamp = self._stamp or payload[:STAMP_BYTES]
            self._missing_bytes -= len(payload)
        if self._missing_bytes > 0:
            return None
        self.is_open = False
        return self._stamp if len(self._stamp) == STAMP_BYTES else b""


def note_latency(latencies: LatencyHistogram, stamp: bytes, count: int, now_ns: int) -> None:
    """Record the time since the timestamp."""
    if not count:
        return
    waited_us = (now_ns - int.from_bytes(stamp, "big")) // 1000
    if 0 <= waited_us < DAY_US:
        latencies.add(waited_us, count)
