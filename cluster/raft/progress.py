"""What a leader knows of another member: what it has, and what is on its way to it.

    probing       one message at a time, until the member has said what it has
    replicating   entries follow one another without waiting, up to a number of bytes
    snapshot      a snapshot is on its way: no entries
    lost          the member lacks what it has acknowledged: it gets nothing, and does not count

Invariants:

RF11  What is sent to a member and not acknowledged is at most WINDOW_BYTES and one message.
"""

from collections import deque

PROBING = "probing"
REPLICATING = "replicating"
SNAPSHOT = "snapshot"
LOST = "lost"

NOT_ASKED = -1
WINDOW_BYTES = 4 * 1024 * 1024
"""At 1 Gbit/s and 30 ms there and back a link is full."""
WINDOW_MESSAGES = 256
"""The same for small entries: each message has its own acknowledgement."""


class _Sent:
    """A message with entries through `last` that is not acknowledged."""

    __slots__ = ("last", "size")

    def __init__(self, last: int, size: int) -> None:
        self.last = last
        self.size = size


class Progress:
    """One member. match: it has the entries through this one. next: the first one to be sent.

    asked: the previous entry that it was asked for while probing. reading: the first entry that is
    being read for it; 0 if none. told: the commit index that it was told. snapshot: the index of
    the one that is on its way, or 0. retry_ms: when one is sent again; 0 if it is not to be.
    """

    __slots__ = (
        "_sent", "asked", "in_flight", "match", "member", "next", "reading", "retry_ms",
        "snapshot", "state", "told",
    )  # fmt: skip

    def __init__(self, member: str, following: int) -> None:
        self.member = member
        self.match = 0
        self.next = following
        self.state = PROBING
        self.asked = NOT_ASKED
        self.in_flight = self.reading = self.retry_ms = self.snapshot = self.told = 0
        self._sent: deque[_Sent] = deque()

    def may_send(self) -> bool:
        """Whether a message with entries may be sent."""
        if self.state == REPLICATING:
            return self.in_flight < WINDOW_BYTES and len(self._sent) < WINDOW_MESSAGES
        return self.state == PROBING and self.asked == NOT_ASKED

    def sent(self, last: int, size: int) -> None:
        """Entries were sent, or a question if there are none."""
        assert self.in_flight < WINDOW_BYTES, "RF11: the window is full"
        if self.state == PROBING:
            self.asked = self.next - 1
        if last >= self.next:
            self.next = last + 1
            self.in_flight += size
            self._sent.append(_Sent(last, size))

    def acknowledged(self, match: int) -> None:
        """The member has entries through this one."""
        self.match = max(match, self.match)
        sent = self._sent
        while sent and sent[0].last <= match:
            self.in_flight -= sent.popleft().size
        self.next = max(self.next, self.match + 1)
        if self.state == PROBING:
            self.state = REPLICATING

    def probe(self, following: int) -> None:
        """Ask again what the member has, from an entry on."""
        self.state, self.next = PROBING, max(following, self.match + 1)
        self.asked = NOT_ASKED
        self.in_flight = self.reading = self.retry_ms = self.snapshot = 0
        self._sent.clear()

    def await_snapshot(self, index: int) -> None:
        """A snapshot is on its way."""
        self.probe(self.next)
        self.state, self.snapshot = SNAPSHOT, index

    def lose(self) -> None:
        """The member lacks what it has acknowledged."""
        self.probe(self.next)
        self.state, self.match = LOST, 0
