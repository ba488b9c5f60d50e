"""Frames: the unit of data between two nodes, cut out of a stream of bytes.

    octets  0 to 3   the length of what follows, from 1 to FRAME_OCTETS_MAX, big-endian
            4        the service, 0 to 127; COMPRESSED is added if the payload is compressed
            5 ...    the payload

Only complete frames are delivered, never the beginning of one that is cut off. Nothing is allocated
for the length that a header states: memory grows with the received data, and is freed when the link
ends.

The limit of a frame's length depends on its service. Frames with messages and definitions may need
all of FRAME_OCTETS_MAX: `max_message_size` cannot be the limit, since a queue may have messages
from before it was lowered, and other nodes may have another one.
"""

import struct
from collections.abc import Mapping

FRAME_OCTETS_MAX = 544 * 1024 * 1024
"""A message body of the largest size that can be configured (512 MiB), with all its headers."""
COMPRESSED = 128

HEADER = struct.Struct(">IB")
LENGTH_OCTETS, HEADER_OCTETS = 4, HEADER.size


class LinkFrameError(Exception):
    """The stream has no frame where one must begin. The text describes the bytes there."""


def header_of(service: int, payload_octets: int) -> bytes:
    """The octets before a payload. Raises ValueError for a payload that is too large."""
    length = payload_octets + 1
    if length > FRAME_OCTETS_MAX:
        raise ValueError(
            f"a frame of {length} octets: a frame may have {FRAME_OCTETS_MAX}; send it in parts"
        )
    return HEADER.pack(length, service)


class FrameCutter:
    """Cuts the bytes of one connection into frames, however they arrive.

    The pieces of a frame that comes in several reads are copied once, when it is complete.
    """

    __slots__ = ("_beginning", "_length_max", "_lengths_max", "_missing", "_parts", "_service")

    def __init__(
        self, length_max: int = FRAME_OCTETS_MAX, lengths_max: Mapping[int, int] | None = None
    ) -> None:
        """length_max: for all frames. lengths_max: lower limits for some service octets."""
        self._length_max = length_max
        self._lengths_max = lengths_max or {}
        # An incomplete header; or an incomplete frame: its service, the pieces of its payload, and
        # the number of missing octets.
        self._beginning = b""
        self._service = 0
        self._parts: list[bytes | memoryview] = []
        self._missing = 0

    @property
    def held_octets(self) -> int:
        """The number of octets kept of an incomplete payload."""
        return sum(map(len, self._parts))

    def clear(self) -> None:
        """Free an incomplete frame; nothing is cut from now on."""
        self._beginning, self._parts, self._missing = b"", [], 0

    def cut(self, data: bytes) -> list[tuple[int, bytes]]:
        """Return the frames that these bytes complete: service octet and payload of each.

        Raises LinkFrameError for an invalid length; nothing can be cut after that.
        """
        frames: list[tuple[int, bytes]] = []
        position = 0
        if self._missing:
            if len(data) < self._missing:
                self._parts.append(data)
                self._missing -= len(data)
                return frames
            position = self._missing
            self._parts.append(memoryview(data)[:position])
            frames.append((self._service, b"".join(self._parts)))
            self._parts, self._missing = [], 0
        elif self._beginning:
            data = self._beginning + data
            self._beginning = b""
        unpack, length_max, end = HEADER.unpack_from, self._length_max, len(data)
        while end - position >= HEADER_OCTETS:
            length, service = unpack(data, position)
            if not 0 < length <= length_max:
                raise LinkFrameError(
                    f"the length of a frame is {length}, at most {length_max} is valid"
                )
            payload_at, position = position + HEADER_OCTETS, position + LENGTH_OCTETS + length
            if position > end:
                # Only here, since a frame longer than a read is never complete at first.
                self._check_length(service, length)
                self._service, self._missing = service, position - end
                self._parts.append(memoryview(data)[payload_at:])
                return frames
            frames.append((service, data[payload_at:position]))
        if position < end:
            self._beginning = data[position:]
        return frames

    def _check_length(self, service: int, length: int) -> None:
        """Raise LinkFrameError if an incomplete frame is too long for its service."""
        length_max = self._lengths_max.get(service, self._length_max)
        if length > length_max:
            raise LinkFrameError(
                f"the length of a frame with the service octet {service} is {length}, at most "
                f"{length_max} is valid"
            )
