"""Frames: the unit of what two nodes send each other, cut out of a stream of bytes.

    octets  0 to 3   the length of what follows, from 1 to FRAME_OCTETS_MAX, big-endian
            4        the service, 0 to 127; COMPRESSED is added if the payload is compressed
            5 ...    the payload

A frame is complete or it is not there: the rest of one that is cut off is never delivered.
Nothing is allocated for the length that a header states: memory grows with what has arrived.
"""

import struct

FRAME_OCTETS_MAX = 544 * 1024 * 1024
"""A message body of the largest size that can be configured (512 MiB), with all its headers."""
SERVICE_MAX = 127
COMPRESSED = 128

HEADER = struct.Struct(">IB")
LENGTH_OCTETS, HEADER_OCTETS = 4, HEADER.size


class FrameError(Exception):
    """The stream has no frame where one has to begin. The text says what is there."""


def header_of(service: int, payload_octets: int) -> bytes:
    """The octets before a payload. Raises ValueError for a payload that is too large."""
    length = payload_octets + 1
    if length > FRAME_OCTETS_MAX:
        raise ValueError(
            f"a frame of {length} octets: a frame may have {FRAME_OCTETS_MAX}; send it in parts"
        )
    return HEADER.pack(length, service)


class FrameCutter:
    """Cuts the bytes of one connection into frames, however they arrive."""

    __slots__ = ("_held", "_needed", "_parts", "_whole_max")

    def __init__(self, frame_octets_max: int = FRAME_OCTETS_MAX) -> None:
        self._whole_max = frame_octets_max
        # The beginning of a frame that is not complete, its size, and what it needs at least.
        self._parts: list[bytes] = []
        self._held = 0
        self._needed = 0

    @property
    def held_octets(self) -> int:
        """How much of an incomplete frame is kept."""
        return self._held

    def cut(self, data: bytes) -> list[tuple[int, bytes]]:
        """The frames that are complete with these bytes: service octet and payload of each.

        Raises FrameError for a length that no frame has; nothing can be cut after that.
        """
        if self._parts:
            self._parts.append(data)
            self._held += len(data)
            if self._held < self._needed:
                return []
            data = b"".join(self._parts)
            self._parts = []
        unpack, whole_max, end = HEADER.unpack_from, self._whole_max, len(data)
        frames: list[tuple[int, bytes]] = []
        position, needed = 0, HEADER_OCTETS
        while end - position >= HEADER_OCTETS:
            length, service = unpack(data, position)
            if not 0 < length <= whole_max:
                raise FrameError(f"the length of a frame is {length}, at most {whole_max} is valid")
            after = position + LENGTH_OCTETS + length
            if after > end:
                needed = LENGTH_OCTETS + length
                break
            frames.append((service, data[position + HEADER_OCTETS : after]))
            position = after
        self._held, self._needed = end - position, needed
        if self._held:
            self._parts.append(data[position:] if position else data)
        return frames
