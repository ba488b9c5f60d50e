"""WebSocket frames: takes the payload out of a client's bytes, and encodes frames. Pure, compiled.

MQTT and STOMP are streams of bytes and have frames of their own. So the payload of a data frame is
passed on as it comes, without waiting for the rest of the frame or of the message, and nothing is
kept of it. What is compressed is inflated in the same way (deflating.py). Only the head of a frame
and a control frame, of at most 125 bytes, wait until they are complete.
"""

import struct
from typing import Final

from leveret.broker.protocols.websockets.deflating import (
    INFLATED_BYTES_MAX,
    Inflating,
    InflatingRefused,
)
from leveret.broker.protocols.websockets.masks import MASK_BYTES, unmasked

CONTINUATION: Final = 0
TEXT: Final = 1
BINARY: Final = 2
CLOSE: Final = 8
PING: Final = 9
PONG: Final = 10

NORMAL: Final = 1000
PROTOCOL_ERROR: Final = 1002
UNSUPPORTED: Final = 1003
INVALID: Final = 1007
TOO_LARGE: Final = 1009
_CONTROL_BYTES_MAX: Final = 125
_SIZE_16, _SIZE_64 = 126, 127
_FINAL: Final = 0x80
_RESERVED: Final = 0x70
_DEFLATED: Final = 0x40
_MASKED: Final = 0x80
UNLIMITED: Final = 1 << 62


class FrameRefused(Exception):
    """A frame breaks the rules. code, reason: those of the close frame."""

    def __init__(self, code: int, reason: str = "") -> None:
        super().__init__(code, reason)
        self.code = code
        self.reason = reason


class ClientFrames:
    """The bytes of one client.

    frame_bytes_max: the largest payload of a frame. inflates: messages may be compressed. opcode:
    the type of the last data message.
    """

    __slots__ = (
        "_control", "_control_opcode", "_data", "_has_message", "_inflating", "_left", "_mask",
        "_masked", "_room", "frame_bytes_max", "has_binary_only", "inflates", "opcode",
    )  # fmt: skip

    def __init__(self, frame_bytes_max: int | None, has_binary_only: bool) -> None:
        """has_binary_only: text frames are refused."""
        self.frame_bytes_max = frame_bytes_max or UNLIMITED
        self.has_binary_only = has_binary_only
        self.opcode = 0
        self._data = b""
        self._left = 0
        """The number of bytes of the current payload that have not arrived."""
        self._mask = b""
        self._masked = 0
        """The number of its bytes that have arrived: the mask repeats after four."""
        self._has_message = False
        """The last data frame was not the last one of its message."""
        self._control: list[tuple[int, bytes]] = []
        self._control_opcode = 0
        self.inflates = False
        self._inflating: Inflating | None = None
        """The current message, if it is compressed."""
        self._room = INFLATED_BYTES_MAX
        """The number of bytes to which the rest of the current read may inflate."""

    def add(self, data: bytes) -> bytes:
        """The payload of data frames in the bytes of a read. Raises FrameRefused.

        `take_control` then returns the control frames.
        """
        if self._data:
            data = self._data + data
            self._data = b""
        pieces: list[bytes] = []
        at, size = 0, len(data)
        self._room = INFLATED_BYTES_MAX
        while at < size:
            if self._left:
                end = min(size, at + self._left)
                piece = self._unmasked(data[at:end])
                self._left -= end - at
                at = end
                pieces.append(piece if self._inflating is None else self._inflated(piece))
                continue
            begin = self._read_head(data, at)
            if begin < 0:
                self._data = data[at:]
                break
            at = begin
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def take_control(self) -> list[tuple[int, bytes]]:
        """The control frames since the last call: opcodes and payloads."""
        if not self._control:
            return self._control
        control, self._control = self._control, []
        return control

    def clear(self) -> None:
        """Forget all bytes."""
        self._data = b""
        self._left = 0
        self._inflating = None

    def _inflated(self, piece: bytes) -> bytes:
        """Inflate the next bytes of a compressed message. Raises FrameRefused."""
        inflating = self._inflating
        assert inflating is not None, "the message is compressed"
        is_last = not self._left and not self._has_message
        try:
            data = inflating.add(piece, is_last, self._room)
        except InflatingRefused as refused:
            raise FrameRefused(TOO_LARGE if refused.is_too_large else INVALID) from None
        self._room -= len(data)
        if is_last:
            self._inflating = None
        return data

    def _read_head(self, data: bytes, at: int) -> int:
        """Read the head of a frame; returns where its payload, or the next frame, begins.

        Returns -1 if it is not complete.
        """
        if len(data) - at < 2:
            return -1
        first, second = data[at], data[at + 1]
        opcode = first & 0x0F
        reserved = first & _RESERVED
        begins_deflated = reserved == _DEFLATED and self.inflates and opcode in (TEXT, BINARY)
        if not second & _MASKED or (reserved and not begins_deflated):
            raise FrameRefused(PROTOCOL_ERROR)
        size = second & 0x7F
        begin = at + 2
        if size == _SIZE_16:
            size = int.from_bytes(data[begin : begin + 2], "big")
            begin += 2
        elif size == _SIZE_64:
            size = int.from_bytes(data[begin : begin + 8], "big")
            begin += 8
        mask_end = begin + MASK_BYTES
        if len(data) < mask_end:
            self._check(opcode, first, second & 0x7F)
            return -1
        self._check(opcode, first, size)
        if opcode >= CLOSE:
            return self._read_control(data, opcode, mask_end, size)
        self._begin(opcode, first)
        self._mask = data[begin:mask_end]
        self._masked = 0
        self._left = size
        if not size and self._inflating is not None and not self._has_message:
            # An empty last frame: all of the message has been inflated.
            self._inflating = None
        return mask_end

    def _check(self, opcode: int, first: int, size: int) -> None:
        """Raise FrameRefused for a frame that is refused whatever its payload is."""
        if opcode >= CLOSE:
            if opcode > PONG or not first & _FINAL or size > _CONTROL_BYTES_MAX:
                raise FrameRefused(PROTOCOL_ERROR)
            return
        if opcode > BINARY or (opcode == CONTINUATION) != self._has_message:
            raise FrameRefused(PROTOCOL_ERROR)
        if opcode == TEXT and self.has_binary_only:
            raise FrameRefused(UNSUPPORTED, "unexpected WebSocket frame")
        if size > self.frame_bytes_max:
            raise FrameRefused(TOO_LARGE)

    def _begin(self, opcode: int, first: int) -> None:
        """A data frame begins."""
        if opcode != CONTINUATION:
            self.opcode = opcode
            self._inflating = Inflating() if first & _DEFLATED else None
        self._has_message = not first & _FINAL

    def _read_control(self, data: bytes, opcode: int, mask_end: int, size: int) -> int:
        end = mask_end + size
        if len(data) < end:
            return -1
        payload = unmasked(data[mask_end:end], data[mask_end - MASK_BYTES : mask_end])
        self._control.append((opcode, payload))
        return end

    def _unmasked(self, data: bytes) -> bytes:
        turn = self._masked & 3
        self._masked += len(data)
        mask = self._mask
        return unmasked(data, mask[turn:] + mask[:turn] if turn else mask)


def frame_head(opcode: int, size: int, is_deflated: bool = False) -> bytes:
    """The head of a server's frame, which is the only one of its message."""
    first = _FINAL | opcode
    if is_deflated:
        first |= _DEFLATED
    if size < _SIZE_16:
        return bytes((first, size))
    if size < 1 << 16:
        return struct.pack(">BBH", first, _SIZE_16, size)
    return struct.pack(">BBQ", first, _SIZE_64, size)


def close_frame(code: int, reason: str) -> bytes:
    """A close frame."""
    payload = code.to_bytes(2, "big") + reason.encode()
    return frame_head(CLOSE, len(payload)) + payload
