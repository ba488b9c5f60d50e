"""The ledger of one queue: which of its positions are gone, and the place of all other messages.

A position is gone when its message was acknowledged, dropped or lost.

    0 ........ flushed_to ............ next position
    in segments  |  in memory, and in the log if they are persistent

Messages below `flushed_to` that are not gone are in segments; messages above are in memory. Ready
messages below `fetched_to` were delivered before.

Positions that are gone since the queue's last PROGRESS record are in `fresh`. The next record has
them, and they move to `gone`: at once, or very many of them over the next batches (`is_behind`);
until all have moved, no other PROGRESS is taken. Before a log file is removed, a STATE of the queue
replaces all records of it in the file.

**Promises.** The STATE and the PROGRESS records after it add up to the ledger, for any division
into batches. **Not promised.** That `segment_bytes` is exact at every moment: the sizes of very
many messages dropped at once are subtracted gradually, and those of lost messages are unknown. In
that time records say UNCOUNTED, and a restart counts the bytes.

Invariants:

LE1  `flushed_to` and `fetched_to` only grow.
LE2  In a durable queue a position is in `gone`, or about to move there, only if the log has a
     record of it, or is about to get one.
LE3  `segment_bytes` is the sum of the bodies in segments that are not gone, except while a count is
     open, and after a loss, which makes it an estimate. A STATE has it only if it is exact.
"""

from collections.abc import Iterable, Sequence

from leveret.storage.messages.formats import UNCOUNTED, StateRecord, encode_progress, encode_state
from leveret.storage.messages.intervals import Intervals
from leveret.storage.messages.message import Entry

MOVED_BLOCKS = 8
"""The blocks of intervals that move to `gone` at once, in some milliseconds."""


class Ledger:
    """The state of a queue that a restart needs.

    gone: the recorded positions of gone messages (LE2). fresh: positions that are gone since.
    segment_bytes: the bytes of the bodies that are in segments and not gone. transient_segments:
    the numbers of segments with messages that are not persistent.
    """

    __slots__ = (
        "_counts", "_fresh_bytes", "_is_estimate", "_is_uncounted", "_moving",
        "_recorded_fetched_to", "_stated_to", "fetched_to",
        "flushed_to", "fresh", "gone", "key", "segment_bytes", "transient_segments",
    )  # fmt: skip

    def __init__(self, key: int) -> None:
        self.key = key
        self.gone = Intervals()
        self.fresh = Intervals()
        self._moving = Intervals()
        self.fetched_to = 0
        self.flushed_to = 0
        self.segment_bytes = 0
        self.transient_segments: set[int] = set()
        self._fresh_bytes = 0
        self._is_uncounted = False
        self._is_estimate = False
        self._counts = 0
        self._stated_to = 0
        self._recorded_fetched_to = 0

    def settled(self, start: int, end: int) -> None:
        """Note as gone the messages from position `start` up to, not including, `end`.

        If they do not follow the last one in `fresh`, adjacent positions that are gone already are
        added. So messages that are settled in order are one interval in `fresh`, even with gaps
        between them.
        """
        fresh, gone = self.fresh, self.gone
        if start == fresh.end or start > gone.end:
            fresh.add_range(start, end)
        else:
            fresh.add_range(gone.start_of(start), gone.next_gap(end))

    def settled_each(self, entries: Sequence[Entry]) -> None:
        """Note the messages of entries as gone. Consecutive positions are one range: a lookup of
        each in the set took a quarter of the time of an ack.
        """
        if not entries:
            return
        start = end = entries[0].position
        for entry in entries:
            position = entry.position
            if position != end:
                self.settled(start, end)
                start = position
            end = position + 1
        self.settled(start, end)

    def left_segment(self, position: int, size: int) -> None:
        """Note a message that is in a segment as gone."""
        self.segment_bytes -= size
        if position < self._stated_to:
            self._fresh_bytes += size

    def all_gone(self, entries: Sequence[Entry], embed_below: int) -> int:
        """Note entries, in the order of their positions, as gone.

        Returns the bytes of their bodies in the message store: bodies of `embed_below` bytes or
        more, of messages that are in segments.
        """
        if not entries:
            return 0
        first, last = entries[0].position, entries[-1].position
        if last - first == len(entries) - 1:
            self.fresh.add_range(first, last + 1)
        else:
            self.settled_each(entries)
        garbage_bytes = 0
        for entry in entries:
            if entry.position >= self.flushed_to:
                break
            size = len(entry.message.body)
            self.left_segment(entry.position, size)
            if size >= embed_below:
                garbage_bytes += size
        return garbage_bytes

    def begin_count(self) -> None:
        """Begin counting very many gone messages in segments; `left_segment` follows for each."""
        self._counts += 1
        self._is_uncounted = True

    def end_count(self) -> None:
        """End the count: `left_segment` was called for each message since `begin_count`."""
        self._counts -= 1
        assert self._counts >= 0, "LE3"

    def lost(self, size: int) -> None:
        """Note messages in segments as lost. size: about the bytes of their bodies."""
        self.segment_bytes -= size
        self._is_uncounted = self._is_estimate = True

    def leave_out(self, positions: Intervals) -> None:
        """Note positions in segments whose messages did not survive a restart."""
        self.gone.update(positions)
        self.fresh.update(positions)
        self._is_uncounted = True

    @property
    def is_behind(self) -> bool:
        """Whether positions of the last PROGRESS are still to be moved to `gone`."""
        return bool(self._moving)

    def settle(self) -> None:
        """Move `fresh` to `gone`: the log has these positions, or does not need them.

        Of very many, some are left for further calls; `is_behind` until then.
        """
        if not self._moving:
            self.fresh, self._moving = self._moving, self.fresh
        self._move()

    def _move(self) -> None:
        moving = self._moving
        for _ in range(MOVED_BLOCKS):
            if not moving:
                break
            self.gone.add_block(moving.pop_block())

    def note_survivors(self, entries: Iterable[Entry], end: int) -> None:
        """After a restart: positions below `end` without an entry or a message on disk are gone."""
        held = Intervals((entry.position, entry.position + 1) for entry in entries)
        for first, after in held.gaps(self.flushed_to, end):
            self.fresh.add_range(first, after)

    def take_progress(self) -> bytes | None:
        """A PROGRESS record of the `fresh` positions; None if there are none, or if `is_behind`."""
        self._move()
        if self._moving or not (self.fresh or self.fetched_to != self._recorded_fetched_to):
            return None
        size = UNCOUNTED if self._is_uncounted else self._fresh_bytes
        record = encode_progress(self.key, self.fetched_to, size, self.fresh)
        self._is_uncounted = False
        self._recorded_fetched_to = self.fetched_to
        self._fresh_bytes = 0
        self.settle()
        return record

    def is_gone(self, position: int) -> bool:
        """Whether the message at this position is gone."""
        if position in self.gone or position in self.fresh:
            return True
        return bool(self._moving) and position in self._moving

    def recorded(self) -> list[Intervals]:
        """Copies of the sets of gone positions that the log has, or is about to get."""
        return [self.gone.copy(), self._moving.copy()]

    def encode_state(self, tail_number: int, tail_bytes: int, has_expiring: bool) -> bytes:
        """A STATE record. `fresh` positions are gone in it, and are in the next PROGRESS too."""
        gone = self.gone
        self._stated_to = self.flushed_to
        self._fresh_bytes = 0
        self._is_uncounted = False
        is_exact = not (self._counts or self._is_estimate)
        transient = [
            number for number in sorted(self.transient_segments)
            if not (gone.covers(*positions_of(number)) or self.fresh.covers(*positions_of(number)))
        ]  # fmt: skip
        self.transient_segments = set(transient)
        return encode_state(
            StateRecord(
                self.key,
                self.flushed_to,
                self.fetched_to,
                max(0, self.segment_bytes) if is_exact else UNCOUNTED,
                tail_number,
                tail_bytes,
                has_expiring,
                transient,
                gone,
            ),
            (self._moving, self.fresh),
        )

    def restore(self, state: StateRecord) -> None:
        """Continue from the state that a restart found."""
        assert state.flushed_to >= self.flushed_to, "LE1"
        self.gone = state.gone
        self.fetched_to = self._recorded_fetched_to = state.fetched_to
        self.flushed_to = self._stated_to = state.flushed_to
        self.segment_bytes = state.segment_bytes
        self.transient_segments = set(state.transient_segments)


SEGMENT_POSITIONS = 16_384


def segment_number(position: int) -> int:
    """The segment a position belongs to."""
    return position // SEGMENT_POSITIONS


def positions_of(number: int) -> tuple[int, int]:
    """The positions that belong to a segment: the first, and the one after the last."""
    return number * SEGMENT_POSITIONS, (number + 1) * SEGMENT_POSITIONS
