"""Limits how much all members of a node apply in one turn of the event loop.

Members apply entries from memory soon after they are committed. After a start, or an absence, very
many members may have very many entries to apply, and have to read them.

Entries that a thread has read have to be applied when they arrive, and all reads may arrive
in one turn. So few reads are under way at a time, and the other members wait.
"""

from collections import deque
from typing import Final, Protocol

APPLY_BYTES, APPLY_ENTRIES = 1024 * 1024, 2_000
"""The bytes that are read together, and applied in one turn beside earlier reads: 10,000 different
messages take 10 ms, 2,000 entries as long.
"""
ENTRY_BYTES = APPLY_BYTES // APPLY_ENTRIES
READS_MAX: Final = 2
"""One thread does all reads. Meanwhile the event loop applies what was read before."""


class WaitingMember(Protocol):
    """A member that waits."""

    def may_read(self) -> None:
        """Try to read now."""


class ApplyLimits:
    """The rest of the limits. reads: how many may begin. is_reached: the turn's is used up."""

    def __init__(self) -> None:
        self.reads = READS_MAX
        self._bytes = APPLY_BYTES
        self._waiting: deque[WaitingMember] = deque()

    @property
    def is_reached(self) -> bool:
        """Whether no more is to be applied in this turn."""
        return self._bytes <= 0

    def applied(self, payloads: list[bytes]) -> None:
        """Entries were applied."""
        self._bytes -= sum(map(len, payloads)) + ENTRY_BYTES * len(payloads)

    def wait(self, reader: WaitingMember) -> None:
        """Call `may_read` when a read may begin."""
        self._waiting.append(reader)

    def end_turn(self) -> None:
        """Begin with the next turn. Members that wait may begin as many reads as are left."""
        self._bytes = APPLY_BYTES
        for _ in range(min(self.reads, len(self._waiting))):
            self._waiting.popleft().may_read()
