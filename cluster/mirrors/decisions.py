"""The leader's decisions as bytes: the operations on its backing queue, for mirrors to repeat.

The decisions of a turn are collected, and their bytes are one broadcast. Numbers are little-endian.
The bytes begin with the number of the turn, i64, which counts up by one; each decision follows with
its kind, u8, and

    PUBLISHED        sender, first, count, position, expires     contents that a node sent to all
    PUBLISHED_EACH   sender, first, count, position, expires...  the same, with a time for each
    PUBLISHED_HERE   count, position, expires, size, run         contents in the decision itself
    REFUSED          sender, first, count                        contents that are never published
    FETCHED          ranges      the first entries that were ready: they await settlement
    TAKEN            ranges      entries from anywhere that were ready: they await settlement
    DROPPED          ranges      the first entries that were ready: they are gone
    SETTLED          ranges      entries that awaited settlement: they are gone
    REQUEUED         ranges      entries that awaited settlement: ready, and marked as redelivered
    RETURNED         ranges      as REQUEUED, but not marked: no client has seen them
    PURGED                       everything that was ready is gone
    SENDER_ENDED     sender, first       contents from this number on are void
    JOINED           member, term, senders, ranges      a mirror begins here, and lacks these
    LEADS            term, ranges       a new leader begins and lacks these positions: they are void

All of them are i64, and a range is its first position and the one after its last. `ranges` is their
number and the ranges, sorted, none of which touches another. `senders` is the number of senders,
and for each the number below which its contents are decided. term: it grows from each leader to the
next. Positions are those of `BackingQueue.position_of`. expires: in milliseconds of the wall clock,
0 for never. run: as message_runs.py has it. Only nodes with OWN_TIMES_FEATURE take PUBLISHED_EACH.

Successive decisions of the same kind are merged: publishes with consecutive numbers and positions,
and ranges. So a thousand acknowledgements in order are one range.

Reading checks that each number is in its bounds, and each length is within the bytes. Anything else
raises `DecisionError`. Pure.
"""

from typing import Final

from librt.strings import BytesWriter, read_i64_le, write_i64_le
from mypy_extensions import i64

PUBLISHED: Final = 1
PUBLISHED_HERE: Final = 2
REFUSED: Final = 3
FETCHED: Final = 4
TAKEN: Final = 5
DROPPED: Final = 6
SETTLED: Final = 7
REQUEUED: Final = 8
RETURNED: Final = 9
PURGED: Final = 10
SENDER_ENDED: Final = 11
JOINED: Final = 12
LEADS: Final = 13
PUBLISHED_EACH: Final = 14

NUMBER_MAX: Final = 1 << 62
"""All numbers are below this: positions, numbers of messages, times."""
NUMBER_BYTES: Final = 8
RANGE_BYTES: Final = 16

Range = tuple[int, int]
NO_RANGES: Final[list[Range]] = []


class DecisionError(ValueError):
    """The bytes are not those of a turn's decisions."""


class Decision:
    """One decision as it was read. The attributes in use depend on the kind: see above.

    member, decided: for JOINED; decided is by sender. term: the leader's, for JOINED and LEADS.
    run: for PUBLISHED_HERE. times_wall_ms: when each message expires, for PUBLISHED_EACH.
    """

    __slots__ = (
        "count", "decided", "expires_wall_ms", "first", "kind", "member", "position", "ranges",
        "run", "sender", "term", "times_wall_ms",
    )  # fmt: skip

    def __init__(self, kind: int) -> None:
        self.kind = kind
        self.sender = self.first = self.count = self.position = self.expires_wall_ms = 0
        self.member = self.term = 0
        self.decided: dict[int, int] = {}
        self.ranges = NO_RANGES
        self.run = b""
        self.times_wall_ms: list[int] = []


class DecisionWriter:
    """Collects the decisions of a turn. turn: its number.

    The last decision is open: a following one of the same kind may be merged with it.
    """

    __slots__ = (
        "_count", "_expires", "_first", "_kind", "_position", "_ranges", "_sender", "_times",
        "_writer", "turn",
    )  # fmt: skip

    def __init__(self, turn: int) -> None:
        self.turn = turn
        self._writer = BytesWriter()
        self._kind: i64 = 0
        self._sender: i64 = 0
        self._first: i64 = 0
        self._count: i64 = 0
        self._position: i64 = 0
        self._expires: i64 = 0
        self._times: list[int] = []
        self._ranges: list[Range] = []

    @property
    def is_empty(self) -> bool:
        """Whether nothing was decided in this turn."""
        return self._kind == 0 and len(self._writer) == 0

    def published(
        self, sender: int, first: int, count: int, position: int, expires_wall_ms: int
    ) -> None:
        """Contents of a sender, from number `first`, were published from a position on."""
        if self._follows(PUBLISHED, sender, first, position) and expires_wall_ms == self._expires:
            self._count += count
            return
        self._begin(PUBLISHED)
        self._sender, self._first, self._count = sender, first, count
        self._position, self._expires = position, expires_wall_ms

    def published_each(
        self, sender: int, first: int, position: int, times_wall_ms: list[int]
    ) -> None:
        """The same, for contents of which each expires at its own time."""
        count = len(times_wall_ms)
        if self._follows(PUBLISHED_EACH, sender, first, position):
            self._count += count
            self._times += times_wall_ms
            return
        self._begin(PUBLISHED_EACH)
        self._sender, self._first, self._count = sender, first, count
        self._position, self._times = position, times_wall_ms

    def _follows(self, kind: i64, sender: i64, first: i64, position: i64) -> bool:
        """Whether the next contents are those after the open decision, which is of this kind."""
        return (
            self._kind == kind
            and sender == self._sender
            and first == self._first + self._count
            and position == self._position + self._count
        )

    def published_here(
        self, count: int, position: int, expires_wall_ms: int, run: list[bytes]
    ) -> None:
        """Messages that no node sent to all members were published. run: their bytes, in pieces."""
        self._begin(0)
        size = sum([len(piece) for piece in run])
        self._write(PUBLISHED_HERE)
        for number in (count, position, expires_wall_ms, size):
            write_i64_le(self._writer, number)
        for piece in run:
            self._writer.write(piece)

    def refused(self, sender: int, first: int, count: int) -> None:
        """Contents of a sender are never published."""
        if self._kind == REFUSED and sender == self._sender and first == self._first + self._count:
            self._count += count
            return
        self._begin(REFUSED)
        self._sender, self._first, self._count = sender, first, count

    def ranged(self, kind: int, start: int, end: int) -> None:
        """A decision of a kind on the positions from `start` up to, not including, `end`."""
        if self._kind != kind:
            self._begin(kind)
        ranges = self._ranges
        if ranges:
            last_start, last_end = ranges[-1]
            if last_end == start:
                ranges[-1] = last_start, end
                return
        ranges.append((start, end))

    def purged(self) -> None:
        """Note a purge: all ready messages are gone."""
        self._begin(0)
        self._write(PURGED)

    def sender_ended(self, sender: int, first: int) -> None:
        """The contents of a sender from this number on are void."""
        self._begin(0)
        self._write(SENDER_ENDED)
        write_i64_le(self._writer, sender)
        write_i64_le(self._writer, first)

    def joined(self, member: int, term: int, decided: dict[int, int], lacked: list[Range]) -> None:
        """A mirror starts here, and lacks these positions. decided: as above, by sender."""
        self._begin(0)
        self._write(JOINED)
        write_i64_le(self._writer, member)
        write_i64_le(self._writer, term)
        write_i64_le(self._writer, len(decided))
        for sender, number in decided.items():
            write_i64_le(self._writer, sender)
            write_i64_le(self._writer, number)
        self._write_ranges(lacked)

    def leads(self, term: int, void: list[Range]) -> None:
        """A new leader starts here. void: the positions that it lacks."""
        self._begin(0)
        self._write(LEADS)
        write_i64_le(self._writer, term)
        self._write_ranges(void)

    def take(self) -> bytes:
        """The bytes of this turn, none if nothing was decided; then start the next turn."""
        self._begin(0)
        if not len(self._writer):
            return b""
        start = BytesWriter()
        write_i64_le(start, self.turn)
        start.write(self._writer.getvalue())
        self._writer.truncate(0)
        self.turn += 1
        return start.getvalue()

    def _write(self, kind: i64) -> None:
        self._writer.append(kind)

    def _begin(self, kind: i64) -> None:
        """Write the open decision, and open one of this kind, or none if the kind is 0."""
        before = self._kind
        self._kind = kind
        if not before:
            return
        writer = self._writer
        writer.append(before)
        if before not in (PUBLISHED, PUBLISHED_EACH, REFUSED):
            ranges, self._ranges = self._ranges, []
            self._write_ranges(joined_ranges(ranges))
            return
        write_i64_le(writer, self._sender)
        write_i64_le(writer, self._first)
        write_i64_le(writer, self._count)
        if before == REFUSED:
            return
        write_i64_le(writer, self._position)
        if before == PUBLISHED:
            write_i64_le(writer, self._expires)
            return
        times, self._times = self._times, []
        for time in times:
            write_i64_le(writer, time)

    def _write_ranges(self, ranges: list[Range]) -> None:
        writer = self._writer
        write_i64_le(writer, len(ranges))
        for start, end in ranges:
            write_i64_le(writer, start)
            write_i64_le(writer, end)


def joined_ranges(ranges: list[Range]) -> list[Range]:
    """The same positions as sorted ranges, none of which touches another."""
    if len(ranges) < 2:
        return ranges
    found: list[Range] = []
    last_start, last_end = -1, -1
    for start, end in sorted(ranges):
        if start == last_end:
            last_end = end
            found[-1] = last_start, end
        else:
            last_start, last_end = start, end
            found.append((start, end))
    return found


class DecisionReader:
    """Reads the bytes of a turn. turn: its number. Raises DecisionError for other bytes."""

    __slots__ = ("_data", "_position", "turn")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position: i64 = 0
        try:
            self.turn: i64 = self._number()
        except IndexError:
            raise DecisionError(f"{len(data)} bytes are no turn's decisions") from None

    def decisions(self) -> list[Decision]:
        """The decisions of the turn, in order; at least one."""
        found: list[Decision] = []
        data = self._data
        try:
            while self._position < len(data) or not found:
                kind = data[self._position]
                self._position += 1
                found.append(self._read(kind))
        except IndexError:
            raise DecisionError(f"decision {len(found)} of a turn is cut off") from None
        return found

    def _read(self, kind: int) -> Decision:
        decision = Decision(kind)
        if kind in (PUBLISHED, PUBLISHED_EACH, REFUSED):
            decision.sender = self._number()
            decision.first = self._number()
            decision.count = self._count()
            if kind != REFUSED:
                decision.position = self._number()
            if kind == PUBLISHED:
                decision.expires_wall_ms = self._number()
            elif kind == PUBLISHED_EACH:
                decision.times_wall_ms = self._times(decision.count)
        elif FETCHED <= kind <= RETURNED:
            decision.ranges = self._ranges()
        elif kind == PUBLISHED_HERE:
            decision.count = self._count()
            decision.position = self._number()
            decision.expires_wall_ms = self._number()
            decision.run = self._bytes()
        elif kind == SENDER_ENDED:
            decision.sender = self._number()
            decision.first = self._number()
        elif kind == JOINED:
            decision.member = self._number()
            decision.term = self._number()
            for _ in range(self._number()):
                sender = self._number()
                decision.decided[sender] = self._number()
            decision.ranges = self._ranges()
        elif kind == LEADS:
            decision.term = self._number()
            decision.ranges = self._ranges()
        elif kind != PURGED:
            raise DecisionError(f"a decision of the unknown kind {kind}")
        return decision

    def _number(self) -> i64:
        number: i64 = read_i64_le(self._data, self._position)
        self._position += 8
        if not 0 <= number < NUMBER_MAX:
            raise DecisionError(f"the number {number} is out of bounds")
        return number

    def _count(self) -> i64:
        count = self._number()
        if not count:
            raise DecisionError("a decision about no message")
        return count

    def _times(self, count: int) -> list[int]:
        if count > (len(self._data) - self._position) // NUMBER_BYTES:
            raise DecisionError(f"{count} times of expiry are not there")
        return [self._number() for _ in range(count)]

    def _bytes(self) -> bytes:
        size = self._number()
        start = self._position
        if size > len(self._data) - start:
            raise DecisionError(f"{size} bytes of messages are not there")
        self._position = start + size
        return self._data[start : start + size]

    def _ranges(self) -> list[Range]:
        count = self._number()
        if count > (len(self._data) - self._position) // RANGE_BYTES:
            raise DecisionError(f"{count} ranges of positions are not there")
        ranges: list[Range] = []
        last: i64 = -1
        for _ in range(count):
            start, end = self._number(), self._number()
            if start <= last or end <= start:
                raise DecisionError(f"positions from {start} to {end} after position {last}")
            ranges.append((start, end))
            last = end
        return ranges
