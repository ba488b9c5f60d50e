"""Splits the bytes that a client sends into frames. Pure. Compiled.

    4 bytes   size of the frame, including these
    1 byte    where its body begins, in words of four bytes
    1 byte    its type: 0 AMQP, 1 SASL
    2 bytes   its channel

Eight bytes that name the protocol come before the first frame, and again between the frames of SASL
and those of AMQP. Frames are taken one at a time: the others wait, and the limit may change in
between.
"""

from typing import Final

from mypy_extensions import i64

from leveret.broker.amqp10.unsigned import read_uint32

HEADER_BYTES: Final = 8


class FrameError(ValueError):
    """The bytes are not a frame; the text says why."""


class FrameInput:
    """The bytes of one client that are not handled yet.

    frame_bytes_max: the largest frame. kind, channel: the type and the channel of the frame that
    was taken. data, begin, end: its body is `data[begin:end]`.
    """

    __slots__ = ("_at", "_pieces", "_size", "begin", "channel", "data", "end", "frame_bytes_max",
                 "kind")  # fmt: skip

    def __init__(self, frame_bytes_max: int) -> None:
        self.frame_bytes_max = frame_bytes_max
        self.data = b""
        self._at: i64 = 0
        self.begin: i64 = 0
        self.end: i64 = 0
        self.kind: i64 = 0
        self.channel: i64 = 0
        self._pieces: list[bytes] = []
        self._size: i64 = 0

    def add(self, data: bytes) -> None:
        """Add bytes that were read."""
        self._pieces.append(data)
        self._size += len(data)

    @property
    def waiting_bytes(self) -> int:
        """The number of bytes that were added and not taken."""
        return int(len(self.data) - self._at + self._size)

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
        data, at = self.data, self._at
        size: i64 = read_uint32(data, at)
        words: i64 = data[at + 4]
        if size > self.frame_bytes_max:
            raise FrameError(
                f"frame size ({size} bytes) > maximum frame size ({self.frame_bytes_max} bytes)"
            )
        if words < 2 or 4 * words > size:
            raise FrameError(f"the body of a frame of {size} bytes cannot begin at {4 * words}")
        self.kind = data[at + 5]
        self.channel = i64(data[at + 6]) << 8 | i64(data[at + 7])
        if not self._has(size):
            return False
        self.begin = self._at + 4 * words
        self._at = self.end = self._at + size
        return True

    def _has(self, size: i64) -> bool:
        """Whether this many bytes follow; joins the bytes of several reads."""
        present: i64 = len(self.data) - self._at
        if present >= size:
            return True
        if present + self._size < size:
            return False
        pieces = self._pieces
        if present:
            self.data = b"".join((self.data[self._at :], *pieces))
        else:
            self.data = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        self._pieces = []
        self._at = self._size = 0
        return True

    def clear(self) -> None:
        """Forget all bytes: the connection ends."""
        self.data = b""
        self._pieces = []
        self._at = self._size = self.begin = self.end = 0
