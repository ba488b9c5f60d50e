"""The ledger of one queue: which of its positions are gone, and where the others are.

    0 ........ flushed_to ............ next position
    in segments  |  in memory, and in the log if they are persistent

What is below `flushed_to` and not gone is in segments; the rest is in memory. `fetched_to` is how
far the queue has been delivered from: what is below it and still there was delivered before.

What became of messages since the log was last told is kept apart until the log asks for it, once a
batch. When a log file is to go, a State of the queue, written to the log's end, takes the place of
all that the file says about it.
"""

from storage.formats import UNCOUNTED, State, encode_progress, encode_state
from storage.intervals import Intervals


class Ledger:
    """What a restart has to know of a queue.

    gone: positions that are done with, as far as the log knows.
    fresh: positions that are done with since.
    segment_bytes: of the bodies that are in segments and not gone.
    """

    __slots__ = (
        "_fresh_bytes", "_is_uncounted", "_stated_to", "_told_fetched_to", "fetched_to",
        "flushed_to", "fresh", "gone", "key", "segment_bytes", "transient_segments",
    )  # fmt: skip

    def __init__(self, key: int) -> None:
        self.key = key
        self.gone = Intervals()
        self.fresh = Intervals()
        self.fetched_to = 0
        self.flushed_to = 0
        self.segment_bytes = 0
        self.transient_segments: set[int] = set()
        self._fresh_bytes = 0
        self._is_uncounted = False
        self._stated_to = 0
        self._told_fetched_to = 0

    def left_segment(self, position: int, size: int) -> None:
        """A message that is in a segment is gone."""
        self.segment_bytes -= size
        if position < self._stated_to:
            self._fresh_bytes += size

    def left_uncounted(self, size: int) -> None:
        """Many messages that are in segments are gone; how many bytes of each is not known."""
        self.segment_bytes -= size
        self._is_uncounted = True

    def leave_out(self, positions: Intervals) -> None:
        """What is in segments at these positions did not survive a restart."""
        self.gone.update(positions)
        self.fresh.update(positions)
        self._is_uncounted = True

    def settle(self) -> None:
        """Count what is fresh among what is gone, where the log need not know."""
        self.gone.update(self.fresh)
        self.fresh.clear()

    def take_progress(self) -> bytes | None:
        """A record of what is fresh; None if it is nothing."""
        if not self.fresh and self.fetched_to == self._told_fetched_to:
            return None
        size = UNCOUNTED if self._is_uncounted else self._fresh_bytes
        record = encode_progress(self.key, self.fetched_to, size, self.fresh)
        self._is_uncounted = False
        self._told_fetched_to = self.fetched_to
        self._fresh_bytes = 0
        self.settle()
        return record

    def is_gone(self, position: int) -> bool:
        """The message at this position is done with."""
        return position in self.gone or position in self.fresh

    def encode_state(self, tail_number: int, tail_bytes: int, has_expiring: bool) -> bytes:
        """A State record; what is fresh counts, and will be told again."""
        gone = self.gone.copy()
        gone.update(self.fresh)
        self._stated_to = self.flushed_to
        self._fresh_bytes = 0
        self._is_uncounted = False
        transient = [
            number for number in sorted(self.transient_segments)
            if not gone.covers(*positions_of(number))
        ]  # fmt: skip
        self.transient_segments = set(transient)
        return encode_state(
            State(
                self.key,
                self.flushed_to,
                self.fetched_to,
                max(0, self.segment_bytes),
                tail_number,
                tail_bytes,
                has_expiring,
                transient,
                gone,
            )
        )

    def restore(self, state: State) -> None:
        """Go on from what a restart found."""
        self.gone = state.gone
        self.fetched_to = self._told_fetched_to = state.fetched_to
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
