"""Transactions of STOMP: the frames of each are kept until COMMIT. Pure.

No frame has an effect before COMMIT. Then the frames are handled in order, without other frames in
between. A frame that fails is answered with ERROR, and the frames after it are still handled.
"""

from typing import Final

from leveret.broker.protocols.stomp.errors import StompError
from leveret.broker.protocols.stomp.frames import Head

TRANSACTIONS_MAX: Final = 1000
KEPT_BYTES_MAX: Final = 64 * 1024 * 1024
"""The open transactions of a connection, and the memory of all their frames."""
FRAME_COST_BYTES: Final = 512
"""The memory of a kept frame with a few headers, besides its body."""
FEW_HEADERS: Final = 6
HEADER_COST_BYTES: Final = 150
"""The memory of each other header, besides its text."""

Frame = tuple[Head, bytes]


class Transactions:
    """The open transactions of one connection."""

    __slots__ = ("_committing", "_frames", "_kept_bytes")

    def __init__(self) -> None:
        self._frames: dict[str, list[Frame]] = {}
        self._kept_bytes = 0
        self._committing: set[Head] = set()

    def begin(self, headers: dict[str, str]) -> None:
        """Begin a transaction. Raises StompError."""
        name = _name(headers, "BEGIN")
        if name not in self._frames and len(self._frames) >= TRANSACTIONS_MAX:
            detail = f"Too many concurrent transactions (limit {TRANSACTIONS_MAX})"
            raise StompError("Transaction limit exceeded", detail)
        self._forget(self._frames.get(name, []))
        self._frames[name] = []

    def add(self, name: str, head: Head, body: bytes) -> None:
        """Keep a frame of a transaction. Raises StompError."""
        frames = self._open(name)
        cost = _cost(head, body)
        if self._kept_bytes + cost > KEPT_BYTES_MAX:
            detail = f"Too much in open transactions (limit {KEPT_BYTES_MAX} bytes)"
            raise StompError("Transaction too large", detail)
        self._kept_bytes += cost
        frames.append((Head(head.command, head.headers, head.body_bytes, head.receipt), body))

    def commit(self, headers: dict[str, str]) -> list[Frame]:
        """End a transaction; returns its frames, which are to be handled. Raises StompError."""
        frames = self._end(headers, "COMMIT")
        self._committing.update([head for head, _ in frames])
        return frames

    def abort(self, headers: dict[str, str]) -> None:
        """Drop the frames of a transaction. Raises StompError."""
        self._end(headers, "ABORT")

    def commits(self, head: Head) -> None:
        """Have a frame of a transaction handled, not kept."""
        self._committing.add(head)

    def is_committing(self, head: Head) -> bool:
        """Whether a frame of a transaction is handled now, because of a COMMIT. Asked once."""
        if head in self._committing:
            self._committing.discard(head)
            return True
        return False

    def clear(self) -> None:
        """Forget everything: the connection ends."""
        self._frames.clear()
        self._committing.clear()

    def _end(self, headers: dict[str, str], command: str) -> list[Frame]:
        name = _name(headers, command)
        frames = self._open(name)
        del self._frames[name]
        self._forget(frames)
        return frames

    def _open(self, name: str) -> list[Frame]:
        frames = self._frames.get(name)
        if frames is None:
            raise StompError("Bad transaction", f'Invalid transaction identifier: "{name}"\n')
        return frames

    def _forget(self, frames: list[Frame]) -> None:
        self._kept_bytes -= sum([_cost(head, body) for head, body in frames])


def _cost(head: Head, body: bytes) -> int:
    """The memory of a kept frame, in bytes."""
    headers = head.headers
    text = sum([len(name) + len(value) for name, value in headers.items()])
    others = max(0, len(headers) - FEW_HEADERS)
    return FRAME_COST_BYTES + HEADER_COST_BYTES * others + text + len(body)


def _name(headers: dict[str, str], command: str) -> str:
    name = headers.get("transaction")
    if name is None:
        detail = f"\"{command}\" must include a 'transaction' header\n"
        raise StompError("Missing transaction", detail)
    return name
