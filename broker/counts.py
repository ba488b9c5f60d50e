"""Counts of messages for statistics: plain integers on the objects that they are about.

The message path updates nothing but these sums, a run or a batch at a time. Acks are not counted at
all: what was delivered, is not unsettled and was not given back, was acked.
"""

from collections import Counter
from collections.abc import Iterator

NAMES = (
    "published", "routed", "confirmed", "returned", "dropped", "delivered", "delivered_no_ack",
    "got", "got_no_ack", "got_empty", "redelivered", "acked",
)  # fmt: skip
GIVEN = (
    "delivered", "delivered_no_ack", "got", "got_no_ack", "got_empty", "redelivered", "acked",
)  # fmt: skip
"""What a queue gives to clients."""
NOTHING_GIVEN = (0,) * len(GIVEN)


class MessageCounts:
    """The messages of one channel, or of many together.

    published: by clients. routed: copies that queues got of them. returned, dropped: unroutable,
    mandatory or not. delivered, got: to be acked; with `_no_ack`: not to be. given_back: deliveries
    that were requeued or rejected. refused: messages that a queue did not take.
    """

    __slots__ = (*NAMES, "given_back", "refused")

    def __init__(self) -> None:
        self.published = self.routed = self.confirmed = self.returned = self.dropped = 0
        self.delivered = self.delivered_no_ack = self.got = self.got_no_ack = self.got_empty = 0
        self.redelivered = self.acked = self.given_back = self.refused = 0

    def add(self, other: "MessageCounts") -> None:
        """Add the counts of another object."""
        for name in NAMES:
            setattr(self, name, getattr(self, name) + getattr(other, name))

    def copy(self) -> "MessageCounts":
        """A copy, which does not change."""
        made = MessageCounts()
        made.add(self)
        return made

    def __iter__(self) -> Iterator[tuple[str, int]]:
        return ((name, getattr(self, name)) for name in NAMES)


class NodeCounts:
    """Counts of the node since it started.

    closed_channels: the messages of closed channels. published_with_confirms: those published on
    closed channels in confirm mode. bytes_in, bytes_out, reads, writes: of closed connections.
    dead_lettered, discarded: messages that died, by the kind of their queue and the reason, where
    there is a dead-letter exchange and where there is none. kept: those that their queue keeps
    until they are confirmed (at-least-once); kept_confirmed: how many of them were. deleted_queues:
    what queues that were deleted had given (`GIVEN`), by their kind.
    """

    def __init__(self) -> None:
        self.closed_channels = MessageCounts()
        self.published_with_confirms = 0
        self.connections_opened = self.connections_closed = 0
        self.channels_opened = self.channels_closed = 0
        self.queues_declared = self.queues_created = self.queues_deleted = 0
        self.bytes_in = self.bytes_out = self.reads = self.writes = 0
        self.dead_lettered: Counter[tuple[str, str]] = Counter()
        self.discarded: Counter[tuple[str, str]] = Counter()
        self.kept: Counter[tuple[str, str]] = Counter()
        self.kept_confirmed: Counter[str] = Counter()
        self.deleted_queues: dict[str, tuple[int, ...]] = {}

    def add_deleted_queue(self, kind: str, given: tuple[int, ...]) -> None:
        """A queue was deleted; keep what it gave, in the order of `GIVEN`."""
        before = self.deleted_queues.get(kind, NOTHING_GIVEN)
        self.deleted_queues[kind] = tuple(map(int.__add__, before, given))

    def add_connection(self, bytes_in: int, bytes_out: int, reads: int, writes: int) -> None:
        """A connection has closed; keep its counts, so that the node's totals do not shrink."""
        self.connections_closed += 1
        self.bytes_in += bytes_in
        self.bytes_out += bytes_out
        self.reads += reads
        self.writes += writes
