"""The messages of a ring as bytes. Numbers are little-endian.

    kind        u8
    identity    u64     of the group
    version     u64     of the record that the sender had applied
    origin      u64     the sender's place (`Place.place_id`); 0 if it has none yet
    target      u64     the receiver's place

The body depends on the kind:

    ACTIVITY          the progress of each sender that has news at the origin
    CATCH_UP          the number through which each sender is acknowledged at the origin; ACTIVITY
                      with all kept broadcasts, and CATCH_UP_END follow
    CATCH_UP_END      nothing
    CATCH_UP_WANTED   nothing: asks the target for a catch-up
    JOIN              incarnation u64, number u64 of the member to be added on the target's right

    progress of a sender: place u64, acknowledged u64, delivered u64, count u32, and count times
    bytes u32, payload: the last broadcasts through `delivered`

A payload above `COPIED_BYTES_MAX` is not copied for sending: it is a piece of its own. Reading
checks that all lengths are within the message and that no number contradicts another one.
Anything else raises ValueError.
"""

from typing import Final

from librt.strings import (
    BytesWriter,
    read_i32_le,
    read_i64_le,
    write_i32_le,
    write_i64_le,
)
from mypy_extensions import i32, i64

ACTIVITY: Final = 1
CATCH_UP: Final = 2
CATCH_UP_END: Final = 3
CATCH_UP_WANTED: Final = 4
JOIN: Final = 5

HEAD_BYTES: Final = 33
PROGRESS_BYTES: Final = 28
JOIN_BYTES: Final = 16
COPIED_BYTES_MAX: Final = 16 * 1024
NUMBER_MAX: Final = 1 << 62


class MessageHead:
    """The beginning of a message."""

    __slots__ = ("identity", "kind", "origin", "target", "version")

    def __init__(self, kind: int, identity: int, version: int, origin: int, target: int) -> None:
        self.kind = kind
        self.identity = identity
        self.version = version
        self.origin = origin
        self.target = target


class SenderProgress:
    """The progress of a sender's broadcasts at the origin of a message.

    payloads: those of the last broadcasts through `delivered`.
    """

    __slots__ = ("acknowledged", "delivered", "payloads", "place_id")

    def __init__(
        self, place_id: int, acknowledged: int, delivered: int, payloads: list[bytes]
    ) -> None:
        self.place_id = place_id
        self.acknowledged = acknowledged
        self.delivered = delivered
        self.payloads = payloads


class MessageWriter:
    """Writes one message. size: the bytes written so far."""

    __slots__ = ("_pieces", "_writer", "size")

    def __init__(self, head: MessageHead) -> None:
        writer = BytesWriter()
        writer.append(head.kind)
        write_i64_le(writer, head.identity)
        write_i64_le(writer, head.version)
        write_i64_le(writer, head.origin)
        write_i64_le(writer, head.target)
        self._writer = writer
        self._pieces: list[bytes] = []
        self.size: i64 = HEAD_BYTES

    def add(self, place_id: int, acknowledged: int, delivered: int, payloads: list[bytes]) -> None:
        """Add a sender's progress. payloads: those of the last broadcasts through `delivered`."""
        writer = self._writer
        write_i64_le(writer, place_id)
        write_i64_le(writer, acknowledged)
        write_i64_le(writer, delivered)
        write_i32_le(writer, i32(len(payloads)))
        self.size += PROGRESS_BYTES
        for payload in payloads:
            size: i64 = len(payload)
            write_i32_le(writer, i32(size))
            self.size += 4 + size
            if size <= COPIED_BYTES_MAX:
                writer.write(payload)
            else:
                self._pieces.append(writer.getvalue())
                writer.truncate(0)
                self._pieces.append(payload)

    def end(self) -> tuple[bytes, ...]:
        """The pieces of the message."""
        if len(self._writer):
            self._pieces.append(self._writer.getvalue())
        return tuple(self._pieces)


def write_join(head: MessageHead, incarnation: int, number: int) -> tuple[bytes, ...]:
    """A request for a member to be added."""
    writer = BytesWriter()
    write_i64_le(writer, incarnation)
    write_i64_le(writer, number)
    return (*MessageWriter(head).end(), writer.getvalue())


def read_head(message: bytes) -> MessageHead:
    """The beginning of a message. Raises ValueError."""
    if len(message) < HEAD_BYTES:
        raise ValueError(
            f"{len(message)} bytes are too few for a message of a ring, which has {HEAD_BYTES} or "
            "more"
        )
    kind = message[0]
    if not ACTIVITY <= kind <= JOIN:
        raise ValueError(f"a message of a ring is of the unknown kind {kind}")
    return MessageHead(
        kind,
        read_i64_le(message, 1),
        read_i64_le(message, 9),
        read_i64_le(message, 17),
        read_i64_le(message, 25),
    )


def read_join(message: bytes) -> tuple[int, int]:
    """The incarnation and the number of the member to be added. Raises ValueError."""
    if len(message) != HEAD_BYTES + JOIN_BYTES:
        raise ValueError(f"a request to be added to a ring cannot have {len(message)} bytes")
    return read_i64_le(message, HEAD_BYTES), read_i64_le(message, HEAD_BYTES + 8)


def read_progress(message: bytes) -> list[SenderProgress]:
    """The progress of senders, from an ACTIVITY or a CATCH_UP. Raises ValueError."""
    end: i64 = len(message)
    position: i64 = HEAD_BYTES
    read: list[SenderProgress] = []
    while position < end:
        if end - position < PROGRESS_BYTES:
            raise ValueError(f"a message of a ring has {end - position} bytes after its end")
        place_id = read_i64_le(message, position)
        acknowledged = read_i64_le(message, position + 8)
        delivered = read_i64_le(message, position + 16)
        count: i64 = i64(read_i32_le(message, position + 24))
        if not 0 <= acknowledged <= delivered <= NUMBER_MAX or not 0 <= count <= delivered:
            raise ValueError(
                f"sender {place_id} of a ring has delivered {delivered} broadcasts, of which "
                f"{acknowledged} are acknowledged and {count} follow"
            )
        position += PROGRESS_BYTES
        payloads: list[bytes] = []
        for _ in range(count):
            start = position + 4
            size: i64 = i64(read_i32_le(message, position)) if start <= end else -1
            position = start + size
            if size < 0 or position > end:
                raise ValueError(
                    f"broadcast {len(payloads) + 1} of {count} in a message of a ring ends after it"
                )
            payloads.append(message[start:position])
        read.append(SenderProgress(place_id, acknowledged, delivered, payloads))
    return read


def check_body(head: MessageHead, message: bytes) -> None:
    """Check the body of a message. Raises ValueError."""
    if head.kind == JOIN:
        read_join(message)
    else:
        read_progress(message)
