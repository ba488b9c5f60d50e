"""The positions whose messages a mirror lacks, and the decisions about them.

A mirror lacks the messages that the leader had when the mirror joined, until batches bring them.
Decisions continue in the meantime. A decision about a lacked position is kept here, and applied to
the message when its batch arrives. Only the last one counts: a message is gone, or awaits
settlement, or is ready. So a batch may be older than the decisions that were applied here, but must
not be newer. Pure.

Invariants:

LA1  A position is in at most one of `gone`, `fetched` and `ready`; all of these are missing.
"""

from typing import Final, NamedTuple

from leveret.cluster.mirrors.batches import Batch
from leveret.cluster.mirrors.decisions import (
    DROPPED,
    FETCHED,
    REQUEUED,
    SETTLED,
    TAKEN,
    Range,
)
from leveret.storage.messages.intervals import Intervals
from leveret.storage.messages.message import Entry

GONE: Final = (DROPPED, SETTLED)
HELD: Final = (FETCHED, TAKEN)
ABSENT: Final = 0
READY: Final = 1
UNACKED: Final = 2


class Arrived(NamedTuple):
    """A message of a batch that still exists. Its entry has the right redelivered flag."""

    position: int
    entry: Entry
    is_unacked: bool


class MissingRanges:
    """The lacked positions. gone, fetched, ready: those with a decision of this kind.

    redelivered: those that were requeued. purged_turn: that of the last purge. term: the leader's.
    """

    __slots__ = (
        "_fetched", "_gone", "_purged_turn", "_ready", "_redelivered", "positions",
        "term",
    )  # fmt: skip

    def __init__(self, positions: list[Range], term: int) -> None:
        self.term = term
        self.positions = Intervals(positions)
        self._gone = Intervals()
        self._fetched = Intervals()
        self._ready = Intervals()
        self._redelivered = Intervals()
        self._purged_turn = 0

    def split(self, kind: int, ranges: list[Range]) -> list[Range]:
        """Keep a decision about lacked positions; returns the parts that are not lacked."""
        if not self.positions:
            return ranges
        others: list[Range] = []
        for start, end in ranges:
            for lacked_start, lacked_end in list(self.positions.within(start, end)):
                self._note(kind, lacked_start, lacked_end)
            others += self.positions.gaps(start, end)
        return others

    def _note(self, kind: int, start: int, end: int) -> None:
        for positions in (self._gone, self._fetched, self._ready):
            positions.remove_range(start, end)
        if kind in GONE:
            self._gone.add_range(start, end)
        elif kind in HELD:
            self._fetched.add_range(start, end)
        else:
            self._ready.add_range(start, end)
            if kind == REQUEUED:
                self._redelivered.add_range(start, end)

    def purged(self, turn: int) -> None:
        """Note a purge: all ready messages are gone."""
        self._gone.update(self._ready)
        self._ready.clear()
        self._purged_turn = turn

    def led(self, void: list[Range], term: int) -> list[Range]:
        """A new leader begins, and lacks some positions. Fetched messages are ready again.

        Returns the void positions that are not lacked here.
        """
        others = self.split(DROPPED, void)
        for start, end in void:
            self._forget(start, end)
        self._redelivered.update(self._fetched)
        self._ready.update(self._fetched)
        self._fetched.clear()
        self.term = term
        return others

    def _forget(self, start: int, end: int) -> None:
        self.positions.remove_range(start, end)
        for positions in (self._gone, self._fetched, self._ready, self._redelivered):
            positions.remove_range(start, end)

    def lacks_before(self, position: int) -> bool:
        """Whether any position before this one is lacked: batches come in order."""
        first = next(iter(self.positions), None)
        return first is not None and first[0] < position

    def arrived(self, batch: Batch) -> list[Arrived]:
        """The messages of a batch that still exist after all decisions so far. Its positions are no
        longer lacked.
        """
        assert batch.term == self.term, "a batch is of the present leader"
        found: list[Arrived] = []
        all_lacked = self.positions.covers(batch.start, batch.end)
        was_purged = batch.turn < self._purged_turn
        unacked, redelivered = batch.unacked, self._redelivered
        for position, entry in zip(batch.positions, batch.entries, strict=True):
            if not all_lacked and position not in self.positions:
                continue
            state = UNACKED if unacked and position in unacked else READY
            state = self._state(position, state, was_purged)
            if state == ABSENT:
                continue
            if redelivered and position in redelivered:
                entry.redelivered = True
            found.append(Arrived(position, entry, state == UNACKED))
        self._forget(batch.start, batch.end)
        return found

    def _state(self, position: int, state: int, was_purged: bool) -> int:
        """The present state of a message, given its state when its batch was read."""
        if self._gone and position in self._gone:
            return ABSENT
        if self._fetched and position in self._fetched:
            return UNACKED
        if self._ready and position in self._ready:
            return READY
        return ABSENT if was_purged and state == READY else state
