"""Splits the bytes that a client sends into frames. Pure, and compiled.

A frame is a part of the bytes that were read; only one that has come in several reads is copied.
Frames are taken one at a time: the others wait, and the limit may change in between.
"""

from collections import deque
from typing import Final

from librt.strings import read_i32_be
from mypy_extensions import i64

SIZE_BYTES: Final = 4


class FrameTooLarge(Exception):
    """A frame is larger than the limit. frame_bytes: its size."""

    def __init__(self, frame_bytes: int) -> None:
        super().__init__(f"a frame of {frame_bytes} bytes is larger than the limit")
        self.frame_bytes = frame_bytes


class FrameInput:
    """The bytes of one client that are not handled yet.

    frame_bytes_max: the largest frame, without the four bytes of its size. waiting_bytes: the
    number of bytes that were added and not taken. data, begin, end: the frame that was taken is
    `data[begin:end]`.
    """

    __slots__ = (
        "_at", "_later", "_unread", "begin", "data", "end", "frame_bytes_max", "waiting_bytes",
    )  # fmt: skip

    def __init__(self, frame_bytes_max: int) -> None:
        self.frame_bytes_max = frame_bytes_max
        self.waiting_bytes = 0
        self.data = b""
        self.begin = self.end = 0
        self._unread = b""
        self._at: i64 = 0
        """Where in `_unread` the next frame begins."""
        self._later: deque[bytes] = deque()

    def add(self, data: bytes) -> None:
        """Add bytes that were read."""
        if self.waiting_bytes:
            self._later.append(data)
        else:
            self._unread, self._at = data, 0
        self.waiting_bytes += len(data)

    def take(self) -> bool:
        """Go to the next frame; returns False if it is not complete. Raises FrameTooLarge."""
        if self.waiting_bytes < SIZE_BYTES:
            if not self.waiting_bytes:
                self.clear()
            return False
        while len(self._unread) - self._at < SIZE_BYTES:
            self._unread, self._at = self._unread[self._at :] + self._later.popleft(), 0
        begin = self._at + SIZE_BYTES
        frame_bytes = int(read_i32_be(self._unread, self._at)) & 0xFFFFFFFF
        if frame_bytes > self.frame_bytes_max:
            raise FrameTooLarge(frame_bytes)
        if self.waiting_bytes < SIZE_BYTES + frame_bytes:
            return False
        self.waiting_bytes -= SIZE_BYTES + frame_bytes
        if len(self._unread) - begin >= frame_bytes:
            self.data, self.begin, self.end = self._unread, begin, begin + frame_bytes
            self._at = self.end
        else:
            self._join(begin, frame_bytes)
        return True

    def _join(self, begin: int, frame_bytes: int) -> None:
        """Take a frame that has come in several reads."""
        pieces = [memoryview(self._unread)[begin:]]
        lacking = frame_bytes - len(pieces[0])
        while lacking:
            piece = self._later.popleft()
            pieces.append(memoryview(piece)[:lacking])
            self._unread, self._at = piece, len(pieces[-1])
            lacking -= len(pieces[-1])
        self.data, self.begin, self.end = b"".join(pieces), 0, frame_bytes

    @property
    def frame(self) -> bytes:
        """The frame that was taken, without its size."""
        return self.data[self.begin : self.end]

    def clear(self) -> None:
        """Forget all bytes: all are handled, or the connection ends."""
        self.data = self._unread = b""
        self.begin = self.end = 0
        self._at = 0
        self._later.clear()
        self.waiting_bytes = 0
