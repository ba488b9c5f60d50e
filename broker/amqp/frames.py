"""Frames: the scanner that splits a byte stream into frames, and the encoding of frames.

A connection passes received bytes to the scanner (`add`), which calls a `FrameSink` for each frame
(`scan`). This is the hottest loop of the broker. It has three optimizations (figures in
docs/performance.md):

- Consecutive messages with the same basic.publish are passed to the sink in one call, each with its
  properties and its body, if their frames are complete in the chunk and each has one body frame.
  When only the body differs from the message before, one `startswith` replaces the decoding of
  three frames.
- Consecutive acks on one channel are passed in one call.
- A body frame that continues after the end of a chunk is collected in pieces and joined once, so
  that a large body is copied once, however many chunks it spans.

The scanner does not know channels or the order of frames, which the sink checks. Bytes that cannot
be a frame raise `ConnectionFault` 501 with RabbitMQ's text and set `is_broken`: the frame
boundaries of the rest of the stream are unknown. If the sink raises, the current frame counts as
handled, and the next `scan` continues after it.
"""

import struct
from typing import Protocol

from leveret.broker.amqp.errors import ConnectionFault, format_snippet, frame_error

METHOD, HEADER, BODY, HEARTBEAT = 1, 2, 3, 8
FRAME_END = 0xCE
FRAME_END_BYTE = b"\xce"
FRAME_OVERHEAD_BYTES = 8
"""The type, channel, size and end octet of a frame, which frame_max includes."""

HEARTBEAT_FRAME = b"\x08\x00\x00\x00\x00\x00\x00\xce"
PROTOCOL_HEADER = b"AMQP\x00\x00\x09\x01"

CLASS_BASIC = 60
BASIC_PUBLISH = CLASS_BASIC << 16 | 40
BASIC_ACK = CLASS_BASIC << 16 | 80
_ACK_PAYLOAD_BYTES = 13
_ACK_TAG_OFFSET = 11
_ACK_FRAME_BYTES = _ACK_PAYLOAD_BYTES + 8
_METHOD_FRAME_BYTES_MIN = 12
_HEADER_FRAME_BYTES_MIN = 22
_START_BYTES = 7
_METHOD_ID_BYTES = 4
_CONTENT_HEADER_BYTES_MIN = 14

_frame_start = struct.Struct(">BHI")
_unpack_frame = _frame_start.unpack_from
_unpack_method_frame = struct.Struct(">BHII").unpack_from
_unpack_header_frame = struct.Struct(">BHIHHQ").unpack_from
_unpack_ack = struct.Struct(">QBB").unpack_from
"""Of an ack frame from its delivery tag on, with its end octet."""


class FrameSink(Protocol):
    """The receiver of a scanner's frames, in the order of the stream."""

    def on_publish(
        self,
        channel: int,
        arguments: bytes,
        properties: list[bytes],
        bodies: list[bytes],
        body_bytes: int,
    ) -> None:
        """Messages with the same method arguments. body_bytes: the sum of their bodies' sizes.

        If a message has the properties of the one before, the same object is in the list twice.
        """

    def on_ack(self, channel: int, delivery_tags: list[int], multiple: int) -> None:
        """basic.ack of each of the tags. If they are multiple, there is one."""

    def on_frame(self, kind: int, channel: int, payload: bytes) -> None:
        """Any other frame, of any type."""


class FrameScanner:
    """Splits the input of one connection into frames.

    frame_bytes_max: the negotiated frame_max; 0 for no limit. As in RabbitMQ, payloads of up to
        frame_max octets are accepted, although frame_max - 8 are allowed.
    """

    __slots__ = (
        "_body", "_body_channel", "_data", "_later", "_missing_bytes", "_pieces", "_position",
        "_sink", "frame_bytes_max", "is_broken",
    )  # fmt: skip

    def __init__(self, sink: FrameSink, frame_bytes_max: int) -> None:
        self._sink = sink
        self.frame_bytes_max = frame_bytes_max
        self.is_broken = False
        self._data = b""
        self._position = 0
        # An incomplete frame at the end of a chunk: its pieces, and how many bytes are missing.
        # The channel if it is a body frame; its pieces then begin at the payload.
        self._pieces: list[bytes | memoryview] | None = None
        self._missing_bytes = 0
        self._body_channel = -1
        # The rest of a chunk whose beginning completed a frame; it is scanned after that frame.
        self._body: bytes | None = None
        self._later: tuple[bytes, int] | None = None

    def add(self, data: bytes) -> None:
        """Append received bytes. The last `scan` must have returned normally."""
        if self._pieces is None:
            self._data = data
            self._position = 0
        elif len(data) < self._missing_bytes:
            self._pieces.append(data)
            self._missing_bytes -= len(data)
        else:
            self._complete_frame(self._pieces, data)

    def scan(self) -> None:
        """Pass every complete frame to the sink and keep the rest."""
        if self.is_broken:
            return
        if self._body is not None:
            self._scan_cut_body(self._body)
        self._scan_chunk()
        if self._later is not None:
            self._take_up_chunk(*self._later)
            self._scan_chunk()
        if self._position < len(self._data):
            self._keep_rest()
        self._data = b""
        self._position = 0

    def _complete_frame(self, pieces: list[bytes | memoryview], data: bytes) -> None:
        stop = self._missing_bytes
        self._pieces = None
        if self._body_channel < 0:
            pieces.append(data[:stop])
            self._data, self._position = b"".join(pieces), 0
            self._later = (data, stop)
            return
        pieces.append(memoryview(data)[: stop - 1])
        self._body = b"".join(pieces)
        self._data, self._position = data, stop

    def _scan_cut_body(self, body: bytes) -> None:
        """Pass on a body frame that was collected in pieces."""
        self._body = None
        channel, self._body_channel = self._body_channel, -1
        end_octet = self._data[self._position - 1]
        if end_octet != FRAME_END:
            self._break(BODY, body, f"{{invalid_frame_end_marker,{end_octet}}}")
        self._sink.on_frame(BODY, channel, body)

    def _take_up_chunk(self, data: bytes, position: int) -> None:
        """Continue with the chunk that completed a frame."""
        start = self._data[self._position :]
        if start:
            data, position = start + data[position:], 0
        self._data, self._position, self._later = data, position, None

    def _keep_rest(self) -> None:
        """Keep an incomplete frame until the rest arrives."""
        data, position = self._data, self._position
        left = len(data) - position
        if left < _START_BYTES:
            self._pieces, self._missing_bytes = [data[position:]], _START_BYTES - left
            return
        kind, channel, size = _unpack_frame(data, position)
        self._missing_bytes = size + FRAME_OVERHEAD_BYTES - left
        if kind == BODY:
            self._body_channel = channel
            self._pieces = [memoryview(data)[position + _START_BYTES :]]
        else:
            self._pieces = [data[position:]]

    def _scan_chunk(self) -> None:
        data = self._data
        position = self._position
        end = len(data)
        while end - position >= _METHOD_FRAME_BYTES_MIN:
            kind, channel, size, method = _unpack_method_frame(data, position)
            stop = position + 7 + size
            if kind == METHOD and stop < end and data[stop] == FRAME_END:
                if method == BASIC_PUBLISH:
                    if self._scan_publish(data, position, stop, channel):
                        position = self._position
                        continue
                elif method == BASIC_ACK and size == _ACK_PAYLOAD_BYTES:
                    self._scan_acks(data, position, channel)
                    position = self._position
                    continue
            if not self._scan_frame(data, position, end):
                return
            position = self._position
        while end - position >= _START_BYTES and self._scan_frame(data, position, end):
            position = self._position

    def _scan_frame(self, data: bytes, position: int, end: int) -> bool:
        """Pass one frame to the sink; False if it is incomplete."""
        kind, channel, size = _unpack_frame(data, position)
        limit = self.frame_bytes_max
        if limit and size > limit:
            allowed = limit - FRAME_OVERHEAD_BYTES
            self._break(kind, b"", f"{{frame_too_large,{size},{allowed}}}")
        stop = position + _START_BYTES + size
        if stop >= end:
            return False
        payload = data[position + _START_BYTES : stop]
        if data[stop] != FRAME_END:
            self._break(kind, payload, f"{{invalid_frame_end_marker,{data[stop]}}}")
        self._position = stop + 1
        self._sink.on_frame(kind, channel, payload)
        return True

    def _scan_acks(self, data: bytes, position: int, channel: int) -> None:
        """Pass on an ack and the acks that follow it; only one if it is multiple."""
        start = data[position : position + _ACK_TAG_OFFSET]
        tags: list[int] = []
        multiple = 0
        end = len(data) - _ACK_FRAME_BYTES
        while position <= end and data.startswith(start, position):
            tag, multiple, end_octet = _unpack_ack(data, position + _ACK_TAG_OFFSET)
            if end_octet != FRAME_END or (multiple and tags):
                multiple = 0
                break
            position += _ACK_FRAME_BYTES
            tags.append(tag)
            if multiple:
                break
        self._position = position
        self._sink.on_ack(channel, tags, multiple)

    def _scan_publish(self, data: bytes, position: int, stop: int, channel: int) -> bool:
        """Pass on a message, and those that follow it with the same basic.publish; False if the
        first is incomplete.

        position, stop: where the method frame begins, and its end octet.
        """
        end = len(data)
        limit = self.frame_bytes_max or 0xFFFFFFFF
        method = data[position : stop + 1]
        method_bytes = len(method)
        all_properties: list[bytes] = []
        bodies: list[bytes] = []
        total_bytes = 0
        while True:
            header = position + method_bytes
            if end - header < _HEADER_FRAME_BYTES_MIN:
                break
            kind, its_channel, size, class_id, weight, body_bytes = _unpack_header_frame(
                data, header
            )
            header_stop = header + 7 + size
            if (
                kind != HEADER or its_channel != channel or class_id != CLASS_BASIC or weight
                or not _CONTENT_HEADER_BYTES_MIN <= size <= limit
                or header_stop >= end or data[header_stop] != FRAME_END
            ):  # fmt: skip
                break
            properties = data[header + 19 : header_stop]
            body = header_stop + 1
            if not body_bytes:
                all_properties.append(properties)
                bodies.append(b"")
                position = body
                if data.startswith(method, position):
                    continue
                break
            if end - body < FRAME_OVERHEAD_BYTES:
                break
            kind, its_channel, size = _unpack_frame(data, body)
            start = body + 7
            stop = start + size
            if (
                kind != BODY or its_channel != channel or size != body_bytes
                or size > limit or stop >= end or data[stop] != FRAME_END
            ):  # fmt: skip
                break
            repeated = data[position:start]
            step = start - position
            while True:
                all_properties.append(properties)
                bodies.append(data[start:stop])
                total_bytes += size
                position = stop + 1
                start = position + step
                stop = start + size
                if (
                    not data.startswith(repeated, position)
                    or stop >= end
                    or data[stop] != FRAME_END
                ):
                    break
            if not data.startswith(method, position):
                break
        if not bodies:
            return False
        self._position = position
        self._sink.on_publish(channel, method[11:-1], all_properties, bodies, total_bytes)
        return True

    def _break(self, kind: int, payload: bytes, problem: str) -> None:
        """Raise 501 with RabbitMQ's text; the stream cannot be scanned any further."""
        self.is_broken = True
        self._body = self._later = self._pieces = None
        self._data, self._position = b"", 0
        raise self._broken(kind, payload, problem)

    @staticmethod
    def _broken(kind: int, payload: bytes, problem: str) -> ConnectionFault:
        return frame_error(f"type {kind}, {format_snippet(payload)}: {problem}")


def encode_frame(kind: int, channel: int, payload: bytes) -> bytes:
    """Encode one frame."""
    return _frame_start.pack(kind, channel, len(payload)) + payload + FRAME_END_BYTE


def is_known_frame(kind: int, payload: bytes) -> bool:
    """Whether the frame's type exists and its payload is long enough for the type.

    RabbitMQ calls the same frames unknown (`rabbit_command_assembler:analyze_frame`).
    """
    if kind == METHOD:
        return len(payload) >= _METHOD_ID_BYTES
    if kind == HEADER:
        return len(payload) >= _CONTENT_HEADER_BYTES_MIN
    return kind == BODY or (kind == HEARTBEAT and not payload)
