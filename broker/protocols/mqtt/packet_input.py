"""Splits the bytes that a client sends into packets. Pure, and compiled.

A packet is a part of the bytes that were read; it is copied only if it came in several reads.
Packets are taken one at a time: the others wait, and the limit may change in between. The size of a
packet is checked when its first bytes have come, before the others are kept.
"""

from collections import deque

from mypy_extensions import i64

from leveret.broker.protocols.mqtt.properties import MalformedPacket

PACKET_TOO_LARGE = 0x95


class PacketInput:
    """The bytes of one client that are not handled yet.

    packet_bytes_max: the largest packet, with its fixed header. waiting_bytes: the size of the
    bytes that were added and not taken. first: the first byte of the packet that was taken, with
    its type and its flags. data, begin, end: its other bytes, without their length, are
    `data[begin:end]`.
    """

    __slots__ = (
        "_at", "_later", "_unread", "begin", "data", "end", "first", "packet_bytes_max",
        "waiting_bytes",
    )  # fmt: skip

    def __init__(self, packet_bytes_max: int) -> None:
        self.packet_bytes_max: i64 = packet_bytes_max
        self.waiting_bytes: i64 = 0
        self.data = b""
        self.first: i64 = 0
        self.begin: i64 = 0
        self.end: i64 = 0
        self._unread = b""
        self._at: i64 = 0
        """Where in `_unread` the next packet begins."""
        self._later: deque[bytes] | None = None

    def add(self, data: bytes) -> None:
        """Add bytes that were read."""
        if self.waiting_bytes:
            if self._later is None:
                self._later = deque()
            self._later.append(data)
        else:
            self._unread, self._at = data, 0
        self.waiting_bytes += len(data)

    def take(self) -> bool:
        """Go to the next packet; returns False if it is not complete. Raises MalformedPacket."""
        if self.waiting_bytes < 2:
            if not self.waiting_bytes:
                self.clear()
            return False
        unread = self._unread
        at: i64 = self._at
        available: i64 = len(unread)
        if available - at < 5 and self.waiting_bytes > available - at:
            self._gather_start()
            unread, at, available = self._unread, 0, len(self._unread)
        position: i64 = at + 1
        size: i64 = 0
        shift: i64 = 0
        while True:
            if position >= available:
                return False
            octet: i64 = unread[position]
            position += 1
            size |= (octet & 127) << shift
            if octet < 128:
                break
            shift += 7
            if shift > 21:
                raise MalformedPacket("the length of a packet has more than four bytes")
        packet_bytes: i64 = position - at + size
        if packet_bytes > self.packet_bytes_max:
            raise MalformedPacket(
                f"a packet of {packet_bytes} bytes is larger than the limit of "
                f"{self.packet_bytes_max}", PACKET_TOO_LARGE,
            )  # fmt: skip
        if packet_bytes > self.waiting_bytes:
            return False
        self.first = unread[at]
        self.waiting_bytes -= packet_bytes
        end: i64 = position + size
        if end <= available:
            self.data, self.begin, self.end = unread, position, end
            self._at = end
        else:
            self._join(position, size)
        return True

    def _gather_start(self) -> None:
        """Have the bytes of a fixed header in one piece: at most five."""
        pieces = [self._unread[self._at :]]
        later = self._later
        size: i64 = len(pieces[0])
        while size < 5 and later:
            piece = later.popleft()
            pieces.append(piece)
            size += len(piece)
        self._unread, self._at = b"".join(pieces), 0

    def _join(self, begin: i64, size: i64) -> None:
        """Take a packet that has come in several reads."""
        pieces = [self._unread[begin:]]
        lacking: i64 = size - len(pieces[0])
        later = self._later
        assert later is not None, "there are more bytes than the first piece has"
        while lacking:
            piece = later.popleft()
            pieces.append(piece[:lacking])
            taken: i64 = len(pieces[-1])
            self._unread, self._at = piece, taken
            lacking -= taken
        self.data, self.begin, self.end = b"".join(pieces), 0, size

    def clear(self) -> None:
        """Forget all bytes: all are handled, or the connection ends."""
        self.data = self._unread = b""
        self.begin = self.end = self._at = 0
        self._later = None
        self.waiting_bytes = 0
