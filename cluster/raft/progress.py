"""The leader's view of another member: the entries it has, and those on their way to it.

    probing       one message at a time, until the member has reported its position
    replicating   entries are sent without waiting for acknowledgements, up to a limit of bytes
    snapshot      a snapshot is on its way: no entries are sent
    lost          the member lacks entries that it acknowledged: it is sent nothing and does not
    count

Invariants:

RF11  At most the window plus one message are sent to a member without acknowledgement.
"""

from collections import deque

from leveret.cluster.raft.entry_log import WINDOW_BYTES

PROBING = "probing"
REPLICATING = "replicating"
SNAPSHOT = "snapshot"
LOST = "lost"

NOT_ASKED = -1
WINDOW_MESSAGES = 256
"""The limit for small entries: each message is acknowledged separately."""


class _Sent:
    """A message with entries up to `last` that is not acknowledged."""

    __slots__ = ("last", "size")

    def __init__(self, last: int, size: int) -> None:
        self.last = last
        self.size = size


class Progress:
    """The progress of one member.

    match: the last entry that it has acknowledged. next: the first entry to send.
    asked: the previous entry that the last probe asked about. reading: the first entry that is
    being read for it, or 0. told: the commit index that it was sent. snapshot: the index of the
    snapshot on its way, or 0. retry_ms: when a failed snapshot is tried again, or 0. window_bytes:
    the limit of bytes.
    """

    __slots__ = (
        "_sent", "asked", "in_flight", "match", "member", "next", "reading", "retry_ms",
        "snapshot", "state", "told", "window_bytes",
    )  # fmt: skip

    def __init__(self, member: str, following: int, window_bytes: int = WINDOW_BYTES) -> None:
        self.member = member
        self.window_bytes = window_bytes
        self.match = 0
        self.next = following
        self.state = PROBING
        self.asked = NOT_ASKED
        self.in_flight = self.reading = self.retry_ms = self.snapshot = self.told = 0
        self._sent: deque[_Sent] = deque()

    def may_send(self) -> bool:
        """Whether a message with entries may be sent."""
        if self.state == REPLICATING:
            return self.in_flight < self.window_bytes and len(self._sent) < WINDOW_MESSAGES
        return self.state == PROBING and self.asked == NOT_ASKED

    def sent(self, last: int, size: int) -> None:
        """Note a sent message with entries up to `last`, or one without any."""
        if self.state == PROBING:
            self.asked = self.next - 1
        if last >= self.next:
            assert self.in_flight < self.window_bytes, "RF11: the window is full"
            self.next = last + 1
            self.in_flight += size
            self._sent.append(_Sent(last, size))

    def acknowledged(self, match: int) -> None:
        """The member has the entries up to this one."""
        self.match = max(match, self.match)
        sent = self._sent
        while sent and sent[0].last <= match:
            self.in_flight -= sent.popleft().size
        if self.next <= self.match:
            # Entries that are being read may be discarded by now, and are not needed.
            self.next, self.reading = self.match + 1, 0
        if self.state == PROBING:
            self.state = REPLICATING

    def probe(self, following: int) -> None:
        """Start probing: ask whether the member has the entry before this one."""
        self.state, self.next = PROBING, max(following, self.match + 1)
        self.asked = NOT_ASKED
        self.in_flight = self.reading = self.retry_ms = self.snapshot = 0
        self._sent.clear()

    def await_snapshot(self, index: int) -> None:
        """Send no entries until the snapshot is installed."""
        self.probe(self.next)
        self.state, self.snapshot = SNAPSHOT, index

    def lose(self) -> None:
        """The member lacks entries that it acknowledged."""
        self.probe(self.next)
        self.state, self.match = LOST, 0
