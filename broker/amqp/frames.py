"""Frames: the scanner that splits a byte stream into frames, and the encoding of frames.

A connection passes received bytes to the scanner (`add`), which calls a `FrameSink` for each frame
(`scan`). This is the hottest loop of the broker. It has three optimizations (figures in
docs/reference/performance.md):

- Consecutive messages with the same basic.publish are passed to the sink in one call, each with its
  properties and its body, if their frames are complete in the chunk and each has one body frame.
  When only the body differs from the message before, one comparison replaces the decoding of
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
from typing import Final

from librt.strings import read_i32_be, read_i64_be
from mypy_extensions import i64, mypyc_attr

from leveret.broker.amqp.errors import ConnectionFault, format_snippet, frame_error

METHOD: Final = 1
HEADER: Final = 2
BODY: Final = 3
HEARTBEAT: Final = 8
FRAME_END: Final = 0xCE
FRAME_END_BYTE: Final = b"\xce"
FRAME_OVERHEAD_BYTES: Final = 8
"""The type, channel, size and end octet of a frame, which frame_max includes."""

HEARTBEAT_FRAME: Final = b"\x08\x00\x00\x00\x00\x00\x00\xce"
PROTOCOL_HEADER: Final = b"AMQP\x00\x00\x09\x01"

CLASS_BASIC: Final = 60
BASIC_PUBLISH: Final = CLASS_BASIC << 16 | 40
_ACK: Final = 80
BASIC_ACK: Final = CLASS_BASIC << 16 | _ACK
BASIC_DELIVER: Final = CLASS_BASIC << 16 | 60
_BASIC_WITHOUT_WEIGHT: Final = CLASS_BASIC << 16
"""Class and weight of a content header."""
_ACK_PAYLOAD_BYTES: Final = 13
_ACK_FRAME_BYTES: Final = _ACK_PAYLOAD_BYTES + 8
_METHOD_FRAME_BYTES_MIN: Final = 12
_HEADER_FRAME_BYTES_MIN: Final = 22
_START_BYTES: Final = 7
_METHOD_ID_BYTES: Final = 4
_CONTENT_HEADER_BYTES_MIN: Final = 14
_SIZE_MAX: Final = 0xFFFFFFFF

_NACK: Final = 120
_MULTIPLE: Final = 1
_REQUEUE: Final = 2

_frame_start = struct.Struct(">BHI")
_settlement = struct.Struct(">BHIHHQBB")
_unpack_frame = _frame_start.unpack_from

# The typed code reads the start of a frame as one integer of 8 octets: type (1), channel (2), size
# (4) and one more octet. So `start >> 40` is type and channel, and `start >> 8` ends with the size.


@mypyc_attr(allow_interpreted_subclasses=True)
class FrameSink:
    """The receiver of a scanner's frames, in the order of the stream.

    A class, so that the compiled scanner calls it directly.
    """

    __slots__ = ()

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
        self._position: i64 = 0
        # An incomplete frame at the end of a chunk: its pieces, and how many bytes are missing.
        # The channel if it is a body frame; its pieces then begin at the payload.
        self._pieces: list[bytes | memoryview] | None = None
        self._missing_bytes: i64 = 0
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
        position: i64 = self._position
        end: i64 = len(data)
        while end - position >= _METHOD_FRAME_BYTES_MIN:
            start: i64 = read_i64_be(data, position)
            stop: i64 = position + _START_BYTES + (start >> 8 & _SIZE_MAX)
            if start >> 56 == METHOD and stop < end and data[stop] == FRAME_END:
                method = read_i32_be(data, position + _START_BYTES)
                is_passed_on = False
                if method == BASIC_PUBLISH:
                    is_passed_on = self._scan_publish(data, position, stop, start >> 40 & 0xFFFF)
                elif method == BASIC_ACK:
                    is_passed_on = self._scan_acks(data, position)
                elif method == BASIC_DELIVER:
                    is_passed_on = self._scan_deliveries(data, position, stop, start >> 40 & 0xFFFF)
                if is_passed_on:
                    position = self._position
                    continue
            if not self._scan_frame(data, position, end):
                return
            position = self._position
        while end - position >= _START_BYTES and self._scan_frame(data, position, end):
            position = self._position

    def _scan_frame(self, data: bytes, position: i64, end: i64) -> bool:
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

    def _scan_acks(self, data: bytes, position: i64) -> bool:
        """Pass on an ack and the acks that follow it; only one if it is multiple.

        False if the first is malformed, or its tag is impossibly large.
        """
        start: i64 = read_i64_be(data, position)
        if start >> 8 & _SIZE_MAX != _ACK_PAYLOAD_BYTES:
            return False
        tags: list[int] = []
        multiple: i64 = 0
        end: i64 = len(data) - _ACK_FRAME_BYTES
        while position <= end and read_i64_be(data, position) == start:
            is_ack = data[position + 8] == CLASS_BASIC and data[position + 10] == _ACK
            if not is_ack or data[position + 9]:
                break
            tag: i64 = read_i64_be(data, position + 11)
            multiple = data[position + 19]
            if data[position + 20] != FRAME_END or tag < 0 or (multiple and tags):
                multiple = 0
                break
            position += _ACK_FRAME_BYTES
            tags.append(tag)
            if multiple:
                break
        if not tags:
            return False
        self._position = position
        self._sink.on_ack(start >> 40 & 0xFFFF, tags, multiple)
        return True

    def _scan_publish(self, data: bytes, position: i64, stop: i64, channel: i64) -> bool:
        """Pass on a message, and those that follow it with the same basic.publish; False if the
        first is incomplete.

        position, stop: where the method frame begins, and its end octet.
        """
        end: i64 = len(data)
        limit: i64 = self.frame_bytes_max or _SIZE_MAX
        method = data[position : stop + 1]
        method_bytes: i64 = len(method)
        all_properties: list[bytes] = []
        bodies: list[bytes] = []
        total_bytes: i64 = 0
        while True:
            header: i64 = position + method_bytes
            if end - header < _HEADER_FRAME_BYTES_MIN:
                break
            start: i64 = read_i64_be(data, header)
            size: i64 = start >> 8 & _SIZE_MAX
            body_bytes: i64 = read_i64_be(data, header + 11)
            header_stop: i64 = header + _START_BYTES + size
            if (
                start >> 40 != HEADER << 16 | channel
                or read_i32_be(data, header + _START_BYTES) != _BASIC_WITHOUT_WEIGHT
                or not _CONTENT_HEADER_BYTES_MIN <= size <= limit
                or header_stop >= end or data[header_stop] != FRAME_END
            ):  # fmt: skip
                break
            properties = data[header + 19 : header_stop]
            body: i64 = header_stop + 1
            if not body_bytes:
                all_properties.append(properties)
                bodies.append(b"")
                position = body
                if data[position : position + method_bytes] == method:
                    continue
                break
            if end - body < FRAME_OVERHEAD_BYTES:
                break
            start = read_i64_be(data, body)
            size = start >> 8 & _SIZE_MAX
            first: i64 = body + _START_BYTES
            stop = first + size
            if (
                start >> 40 != BODY << 16 | channel or size != body_bytes
                or size > limit or stop >= end or data[stop] != FRAME_END
            ):  # fmt: skip
                break
            all_properties.append(properties)
            bodies.append(data[first:stop])
            total_bytes += size
            # The octets before the bodies, which contain the size, rule out most other messages.
            next_body: i64 = stop + 1 + first - position
            if (
                next_body + size < end
                and read_i64_be(data, next_body - 8) == read_i64_be(data, first - 8)
            ):  # fmt: skip
                stop = _equal_messages(data, position, first, size, bodies)
                repeated = len(bodies) - len(all_properties)
                all_properties += [properties] * repeated
                total_bytes += size * repeated
            position = stop + 1
            if data[position : position + method_bytes] != method:
                break
        if not bodies:
            return False
        self._position = position
        self._sink.on_publish(channel, method[11:-1], all_properties, bodies, total_bytes)
        return True

    def _scan_deliveries(self, data: bytes, position: i64, stop: i64, channel: i64) -> bool:
        """Pass on deliveries by the run, as a client's scanner does (delivery_scanner.py)."""
        return False

    def _break(self, kind: int, payload: bytes, problem: str) -> None:
        """Raise 501 with RabbitMQ's text; the stream cannot be scanned any further."""
        self.is_broken = True
        self._body = self._later = self._pieces = None
        self._data, self._position = b"", 0
        raise self._broken(kind, payload, problem)

    @staticmethod
    def _broken(kind: int, payload: bytes, problem: str) -> ConnectionFault:
        return frame_error(f"type {kind}, {format_snippet(payload)}: {problem}")


def _equal_messages(data: bytes, position: i64, first: i64, size: i64, bodies: list[bytes]) -> i64:
    """Append the bodies of the messages that follow one, and are equal to it but for the body.

    position, first, size: where the message and its body begin, and the body's size. Returns where
    the end octet of the last one is.
    """
    # `startswith` with an offset calls the interpreter: 93 ns for a message, not 39.
    before = data[position:first]
    before_bytes: i64 = first - position
    end: i64 = len(data)
    stop: i64 = first + size
    while True:
        position = stop + 1
        first = position + before_bytes
        if first + size >= end or data[first + size] != FRAME_END or data[position:first] != before:
            return stop
        stop = first + size
        bodies.append(data[first:stop])


def encode_frame(kind: int, channel: int, payload: bytes) -> bytes:
    """Encode one frame."""
    return _frame_start.pack(kind, channel, len(payload)) + payload + FRAME_END_BYTE


def settlement_frame(channel: int, is_ack: bool, delivery_tag: int, multiple: bool) -> bytes:
    """The frame of a basic.ack, or of a basic.nack with requeue, that the broker sends.

    A publisher that sends one message at a time gets one for each.
    """
    method = _ACK if is_ack else _NACK
    bits = (_MULTIPLE if multiple else 0) | (0 if is_ack else _REQUEUE)
    return _settlement.pack(
        METHOD, channel, _ACK_PAYLOAD_BYTES, CLASS_BASIC, method, delivery_tag, bits, FRAME_END
    )


def is_known_frame(kind: int, payload: bytes) -> bool:
    """Whether the frame's type exists and its payload is long enough for the type.

    RabbitMQ calls the same frames unknown (`rabbit_command_assembler:analyze_frame`).
    """
    if kind == METHOD:
        return len(payload) >= _METHOD_ID_BYTES
    if kind == HEADER:
        return len(payload) >= _CONTENT_HEADER_BYTES_MIN
    return kind == BODY or (kind == HEARTBEAT and not payload)
