"""The holders of a quorum queue's deliveries on this node: consumers, and users of basic.get.

The number of a delivered entry, by which it is settled, contains the key of its holder and its
position in the queue: `key << POSITION_BITS | position`. A key is used again only when all entries
delivered with it are settled. So an entry of a holder that has ended is never mistaken for one of
another holder that got the same message later.

Invariants:
HO1. A key has one holder from `add` until it is closed, and every entry that it got is settled.
"""

from collections import deque
from collections.abc import Sequence
from typing import Final

from mypy_extensions import i64

from leveret.cluster.quorum.client.delivered_run import DeliveredRun
from leveret.storage.messages.message import Entry

POSITION_BITS: Final = 40
"""Enough positions for 100,000 messages a second for four months."""
POSITION_MASK: Final = (1 << POSITION_BITS) - 1
KEYS_MAX: Final = 1 << 21
"""With the position, a number below 1 << 62, which compiled code handles without a call."""


class Holder:
    """One holder, for the lifetime of one sender.

    number: identifies it in the group: the number of the command that created it. received: the
    number of the last delivery that has arrived. unsettled: how many entries were handed over and
    not settled. is_open: more may be handed over. has_ended: the group has taken back all of its
    deliveries.
    """

    __slots__ = ("has_ended", "is_open", "key", "number", "received", "unsettled")

    def __init__(self, key: int) -> None:
        self.key: i64 = key
        self.number: i64 = 0
        self.received: i64 = 0
        self.unsettled: i64 = 0
        self.is_open = True
        self.has_ended = False

    def __repr__(self) -> str:
        return f"<Holder {self.number}>"

    def receive(self, runs: list[DeliveredRun]) -> list[DeliveredRun]:
        """Take deliveries that have arrived. Returns those that had not arrived before."""
        fresh: list[DeliveredRun] = []
        for delivered in runs:
            run = delivered.run
            known = self.received + 1 - run.delivery
            if known < run.count:
                fresh.append(delivered.after(known) if known > 0 else delivered)
                self.received = run.delivery + run.count - 1
        return fresh


class Holders:
    """All holders of a node's client of one queue."""

    __slots__ = ("_by_key", "_free", "_keys_max", "_next_key")

    def __init__(self, keys_max: int = KEYS_MAX) -> None:
        """keys_max: keys below this number are used before one is used again."""
        self._keys_max = keys_max
        self._by_key: dict[int, Holder] = {}
        self._free: deque[int] = deque()
        self._next_key = 0

    def add(self) -> Holder:
        """A new holder."""
        if self._next_key < self._keys_max:
            key = self._next_key
            self._next_key += 1
        else:
            key = self._free.popleft()
        holder = self._by_key[key] = Holder(key)
        return holder

    def find(self, number: int) -> Holder | None:
        """The holder of an entry with this number."""
        return self._by_key.get(number >> POSITION_BITS)

    def settled(self, holder: Holder, count: int) -> None:
        """Count entries of a holder as settled."""
        holder.unsettled -= count
        assert holder.unsettled >= 0, "HO1: an entry is settled once"
        self._free_if_unused(holder)

    def close(self, holder: Holder) -> None:
        """End a holder: it gets no more deliveries. A second call does nothing."""
        if holder.is_open:
            holder.is_open = False
            self._free_if_unused(holder)

    def _free_if_unused(self, holder: Holder) -> None:
        if not holder.is_open and not holder.unsettled:
            del self._by_key[holder.key]
            self._free.append(holder.key)

    def end_all(self) -> None:
        """End all holders: the group has ended the sender, and has taken back their deliveries."""
        for holder in list(self._by_key.values()):
            holder.has_ended = True
            self.close(holder)


class Settlement:
    """Entries that are settled in the same way, gathered before they are sent."""

    __slots__ = ("_end", "_first", "_runs")

    def __init__(self) -> None:
        self._runs: list[tuple[int, int]] = []
        self._first: i64 = 0
        self._end: i64 = 0

    def __bool__(self) -> bool:
        return self._first != self._end

    def add(self, entries: Sequence[Entry]) -> None:
        """Settle entries."""
        for entry in entries:
            number: i64 = entry.position
            if number != self._end or not self:
                self._begin(number)
            self._end += 1

    def add_run(self, first: int, count: int) -> None:
        """Settle consecutive entries of one holder. first: the number of the first one."""
        if first != self._end or not self:
            self._begin(first)
        self._end += count

    def _begin(self, number: int) -> None:
        if self._first != self._end:
            self._runs.append((self._first, self._end))
        self._first = self._end = number

    def take(self, holders: Holders, in_order: bool) -> list[tuple[Holder, list[int]]]:
        """Take the gathered positions by holder, as ascending intervals: first, last ...


        in_order: as it was settled, so that a holder may come more than once. Entries of holders
        that have ended are left out: the group has taken them back.
        """
        self._begin(0)
        runs, self._runs = self._runs, []
        if len(runs) > 1 and not in_order:
            runs.sort()
        taken: list[tuple[Holder, list[int]]] = []
        last: Holder | None = None
        intervals: list[int] = []
        for first, end in runs:
            holder = holders.find(first)
            if holder is None:
                continue
            if not holder.has_ended:
                position = first & POSITION_MASK
                if holder is not last or intervals[-1] >= position:
                    last, intervals = holder, []
                    taken.append((holder, intervals))
                if intervals and intervals[-1] == position - 1:
                    intervals.pop()
                    intervals.append(position + end - first - 1)
                else:
                    intervals += (position, position + end - first - 1)
            holders.settled(holder, end - first)
        return taken
