"""Splits the bytes that a client sends into frames. Pure.

    4 bytes   size of the frame, with these
    1 byte    where its body begins, in words of four bytes
    1 byte    its type: 0 AMQP, 1 SASL
    2 bytes   its channel

Before the frames, and once more between those of SASL and those of AMQP, come eight bytes that name
the protocol. Frames are taken one at a time: the others wait, and the limit may change in between.
"""

from struct import Struct
from typing import Final

HEADER_BYTES: Final = 8
_HEADER: Final = Struct(">IBBH")


class FrameError(ValueError):
    """The bytes are not a frame; the text says why."""


class FrameInput:
    """The bytes of one client that are not handled yet.

    frame_bytes_max: the largest frame. kind, channel: of the frame that was taken. data, begin,
    end: its body is `data[begin:end]`.
    """

    __slots__ = ("_at", "_pieces", "_size", "begin", "channel", "data", "end", "frame_bytes_max",
                 "kind")  # fmt: skip

    def __init__(self, frame_bytes_max: int) -> None:
        self.frame_bytes_max = frame_bytes_max
        self.data = b""
        self._at = self.begin = self.end = self.kind = self.channel = 0
        self._pieces: list[bytes] = []
        self._size = 0

    def add(self, data: bytes) -> None:
        """Add bytes that were read."""
        self._pieces.append(data)
        self._size += len(data)

    @property
    def waiting_bytes(self) -> int:
        """The bytes that were added and not taken."""
        return len(self.data) - self._at + self._size

    def take_protocol_header(self) -> bytes | None:
        """The next eight bytes; None if they have not all come."""
        if not self._has(HEADER_BYTES):
            return None
        header = self.data[self._at : self._at + HEADER_BYTES]
        self._at += HEADER_BYTES
        return header

    def take(self) -> bool:
        """Go to the next frame; returns False if it is not complete. Raises FrameError."""
        if not self._has(HEADER_BYTES):
            return False
        size, words, self.kind, self.channel = _HEADER.unpack_from(self.data, self._at)
        if size > self.frame_bytes_max:
            raise FrameError(
                f"frame size ({size} bytes) > maximum frame size ({self.frame_bytes_max} bytes)"
            )
        if not 2 <= words <= size // 4:
            raise FrameError(f"the body of a frame of {size} bytes cannot begin at {4 * words}")
        if not self._has(size):
            return False
        self.begin = self._at + 4 * words
        self._at = self.end = self._at + size
        return True

    def _has(self, size: int) -> bool:
        """Whether this many bytes are there from here on; joins those of several reads."""
        present = len(self.data) - self._at
        if present >= size:
            return True
        if present + self._size < size:
            return False
        rest = self.data[self._at :]
        self.data = (
            b"".join((rest, *self._pieces)) if rest or len(self._pieces) > 1 else (self._pieces[0])
        )
        self._pieces = []
        self._at = self._size = 0
        return True

    def clear(self) -> None:
        """Forget all bytes: the connection ends."""
        self.data = b""
        self._pieces = []
        self._at = self._size = self.begin = self.end = 0
