"""Splits the bytes that a client sends into frames. Pure.

Bytes are joined only when a frame is complete, so a large frame that comes in many reads is copied
once. Frames are taken one at a time: what is not taken waits, and the limit may change in between.
"""

from typing import Final

SIZE_BYTES: Final = 4


class FrameTooLarge(Exception):
    """A frame is larger than the limit. frame_bytes: its size."""

    def __init__(self, frame_bytes: int) -> None:
        super().__init__(f"a frame of {frame_bytes} bytes is larger than the limit")
        self.frame_bytes = frame_bytes


class FrameInput:
    """The bytes of one client that are not handled yet.

    frame_bytes_max: the largest frame, without the four bytes of its size. waiting_bytes: what was
    added and not taken.
    """

    __slots__ = ("_at", "_data", "_later", "frame_bytes_max", "waiting_bytes")

    def __init__(self, frame_bytes_max: int) -> None:
        self.frame_bytes_max = frame_bytes_max
        self.waiting_bytes = 0
        self._data = b""
        self._at = 0
        self._later: list[bytes] = []

    def add(self, data: bytes) -> None:
        """Add bytes that were read."""
        if self.waiting_bytes:
            self._later.append(data)
        else:
            self._data, self._at = data, 0
        self.waiting_bytes += len(data)

    def take(self) -> bytes | None:
        """The next frame, without its size; None if it is not complete. Raises FrameTooLarge."""
        if self.waiting_bytes < SIZE_BYTES:
            return None
        if len(self._data) - self._at < SIZE_BYTES:
            self._join()
        begin = self._at + SIZE_BYTES
        frame_bytes = int.from_bytes(self._data[self._at : begin], "big")
        if frame_bytes > self.frame_bytes_max:
            raise FrameTooLarge(frame_bytes)
        if self.waiting_bytes < SIZE_BYTES + frame_bytes:
            return None
        if len(self._data) - begin < frame_bytes:
            self._join()
            begin = SIZE_BYTES
        self._at = end = begin + frame_bytes
        self.waiting_bytes -= SIZE_BYTES + frame_bytes
        frame = self._data[begin:end]
        if not self.waiting_bytes:
            self._data, self._at = b"", 0
        return frame

    def clear(self) -> None:
        """Forget all bytes: the connection ends."""
        self._data, self._at, self._later, self.waiting_bytes = b"", 0, [], 0

    def _join(self) -> None:
        self._data = b"".join((self._data[self._at :], *self._later))
        self._at, self._later = 0, []
