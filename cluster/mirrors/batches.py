"""Messages that the leader sends to one mirror: a part of the head, or an answer to the mirror.

A batch covers all positions from `start` up to `end`, in their state after the decisions of a turn:
it contains the messages that existed, ready or awaiting settlement. No other messages existed. As
bytes, with little-endian numbers:

    number, turn, term, start, end, count    i64 each
    positions, unacked                       ranges: their number, and the bounds of each, i64
    expires                                  their number, then pairs: a count of messages, a time
    run                                      as message_runs.py has it

term: the leader's (decisions.py), by which a mirror recognises a batch of an earlier leader.
expires: in milliseconds of the wall clock, 0 for never. Other bytes raise ValueError. Pure.
"""

from collections.abc import Iterable
from itertools import chain, groupby, islice
from operator import attrgetter
from struct import Struct
from typing import Final

from leveret.cluster.mirrors.decisions import NUMBER_MAX, Range
from leveret.cluster.remote_queues.message_runs import RunReader, RunWriter
from leveret.storage.messages.addresses import Addresses
from leveret.storage.messages.intervals import Intervals
from leveret.storage.messages.message import Entry

START: Final = Struct("<6q")
NUMBER: Final = Struct("<q")


class Batch:
    """A batch, with the fields above.

    positions: of the entries, as `position_of` returns them; an `Entry.position` has no meaning
    here. unacked: the positions of entries that await settlement.
    """

    __slots__ = ("end", "entries", "number", "positions", "start", "term", "turn", "unacked")

    def __init__(self, number: int, turn: int, term: int, start: int, end: int) -> None:
        self.number = number
        self.turn = turn
        self.term = term
        self.start = start
        self.end = end
        self.positions: list[int] = []
        self.entries: list[Entry] = []
        self.unacked = Intervals()

    def add(self, position: int, entry: Entry, is_unacked: bool) -> None:
        """Add the next message."""
        self.positions.append(position)
        self.entries.append(entry)
        if is_unacked:
            self.unacked.add(position)

    @property
    def held(self) -> Intervals:
        """All positions that have a message."""
        positions = Intervals()
        for position in self.positions:
            positions.add(position)
        return positions

    def encode(self, wall_offset_ms: int) -> list[bytes]:
        """Its bytes, in pieces. wall_offset_ms: the wall clock minus the broker's clock."""
        expires = [
            (sum(1 for _ in found), time and time + wall_offset_ms)
            for time, found in groupby(self.entries, attrgetter("expires_at_ms"))
        ]
        start = START.pack(
            self.number, self.turn, self.term, self.start, self.end, len(self.entries)
        )
        start += _pairs(self.held) + _pairs(self.unacked) + _pairs(expires)
        return RunWriter(start).copy(self.entries)


def decode(data: bytes, addresses: Addresses, wall_offset_ms: int) -> Batch:
    """The batch that the bytes encode. Raises ValueError."""
    if len(data) < START.size:
        raise ValueError(f"a batch of {len(data)} bytes")
    number, turn, term, start, end, count = START.unpack_from(data)
    batch = Batch(number, turn, term, start, end)
    positions, at = _read_pairs(data, START.size)
    unacked, at = _read_pairs(data, at)
    expires, at = _read_pairs(data, at)
    held = _intervals(positions, start, end)
    batch.unacked = _intervals(unacked, start, end)
    timed = sum(found for found, _ in expires)
    is_whole = held.count == timed == count and turn >= 0 and 0 <= start < end <= NUMBER_MAX
    if not is_whole or not all(held.covers(*found) for found in batch.unacked):
        raise ValueError(f"batch {number} has {count} messages at {held.count} positions")
    batch.entries = RunReader(data, at, addresses).entries(count, 0)
    batch.positions = list(chain.from_iterable(range(*found) for found in held))
    left = iter(batch.entries)
    for found, time in expires:
        for entry in islice(left, found):
            entry.expires_at_ms = time and max(1, time - wall_offset_ms)
    return batch


def _pairs(pairs: Iterable[tuple[int, int]]) -> bytes:
    numbers = [number for pair in pairs for number in pair]
    return Struct(f"<{1 + len(numbers)}q").pack(len(numbers) // 2, *numbers)


def _read_pairs(data: bytes, at: int) -> tuple[list[Range], int]:
    """Pairs of numbers, and the offset at which they end."""
    if at + NUMBER.size > len(data):
        raise ValueError("a batch is cut off")
    (count,) = NUMBER.unpack_from(data, at)
    at += NUMBER.size
    if not 0 <= count <= (len(data) - at) // (2 * NUMBER.size):
        raise ValueError(f"{count} ranges of a batch are not there")
    numbers = Struct(f"<{2 * count}q").unpack_from(data, at)
    return list(zip(numbers[::2], numbers[1::2], strict=True)), at + 2 * count * NUMBER.size


def _intervals(ranges: list[Range], start: int, end: int) -> Intervals:
    """The ranges, which must be sorted and within `start` and `end`."""
    last = start
    for first, after in ranges:
        if not last <= first < after <= end:
            raise ValueError(f"positions from {first} to {after} in a batch of {start} to {end}")
        last = after
    return Intervals(ranges)
