"""A queue of runs that takes little memory if it is long.

Its first and last runs are objects. Those between them are packed in blocks:

    first | block | block | block | last

Invariants:

QM9  If there are no first runs, there are no blocks and no last runs either.
QM10  Only the queue changes a run that was given to it, and only while the run is the head.
"""

from collections.abc import Iterator
from typing import Final

from leveret.cluster.quorum.machine.live_entries import intervals_of_indexes
from leveret.cluster.quorum.machine.own_times import TIME_BYTES
from leveret.cluster.quorum.machine.packed_runs import pack_runs, unpack_runs
from leveret.cluster.quorum.machine.runs import NEVER, RUN_BYTES, Run

BLOCK_RUNS: Final = 512
"""Packing this many takes 0.2 ms. Of a queue of 2,000 runs, half is packed."""
BLOCK_TIMES = 65_536
"""How many messages with times of their own are packed together, too."""
TAKEN_MAX: Final = 64
"""How many runs are taken from the start of a list before the rest of the list is moved."""


class PackedBlock:
    """Packed runs. indexes: the intervals of entries that they refer to. count, bytes: of their
    messages. expires_ms: when the first of them expires; `NEVER` if none does.
    """

    __slots__ = ("bytes", "count", "data", "expires_ms", "indexes")

    def __init__(self, data: bytes, runs: list[Run]) -> None:
        self.data = data
        self.indexes = intervals_of_indexes([run.index for run in runs])
        self.count = self.bytes = 0
        self.expires_ms = first_expiry_ms(runs)
        for run in runs:
            self.count += run.count
            self.bytes += run.count * run.size


class RunQueue:
    """A long queue of runs. count: how many messages it has. expiring: how many runs may expire.

    earliest_ms: no run expires before that time; `NEVER` if none expires at all.
    """

    __slots__ = (
        "_at", "_blocks", "_first", "_last", "_times", "bytes", "count", "earliest_ms", "expiring",
    )  # fmt: skip

    def __init__(self) -> None:
        self._first: list[Run] = []
        self._at = 0
        self._blocks: list[PackedBlock] = []
        self._last: list[Run] = []
        self._times = 0
        """How many of the last messages have times of their own."""
        self.count = 0
        self.bytes = 0
        self.expiring = 0
        self.earliest_ms = NEVER

    def append(self, run: Run) -> None:
        """Add a run at the end."""
        self.count += run.count
        self.bytes += run.count * run.size
        if run.expires_at_ms:
            self._expires(run.expires_at_ms)
        if not self._blocks and not self._last and len(self._first) - self._at < BLOCK_RUNS:
            self._first.append(run)
            return
        self._last.append(run)
        if run.times is not None:
            self._times += run.count
        if len(self._last) >= BLOCK_RUNS or self._times >= BLOCK_TIMES:
            self._blocks.append(_block_of(self._last))
            self._last, self._times = [], 0

    def _expires(self, expires_at_ms: int) -> None:
        """A run is added that expires."""
        self.expiring += 1
        if self.earliest_ms == NEVER or expires_at_ms < self.earliest_ms:
            self.earliest_ms = expires_at_ms

    @property
    def head(self) -> Run | None:
        """The first run; None if the queue is empty."""
        return self._first[self._at] if self.count else None

    def take(self, count_max: int) -> Run:
        """Take the first run, or its first `count_max` messages. The queue must not be empty."""
        run = self._first[self._at]
        if run.count <= count_max:
            self._drop_head(run)
            return run
        taken = run.part(0, count_max)
        run.position += count_max
        run.place += count_max
        run.count -= count_max
        self.count -= count_max
        self.bytes -= count_max * run.size
        return taken

    def _drop_head(self, run: Run) -> None:
        self.count -= run.count
        self.bytes -= run.count * run.size
        if run.expires_at_ms:
            self.expiring -= 1
        self._at += 1
        if self._at == len(self._first):
            self._first, self._at = [], 0
            self._fill_first()
            assert self._first or not self.count, "QM9: a queue without a first run has messages"
        elif self._at >= TAKEN_MAX:
            del self._first[: self._at]
            self._at = 0

    def _fill_first(self) -> None:
        """Have first runs again, if there are others (QM9)."""
        if self._first:
            return
        if self._blocks:
            self._first = unpack_runs(self._blocks.pop(0).data)
        else:
            self._first, self._last = self._last, []
            self._times = 0

    def take_expired(self, now_ms: int, runs_max: int) -> list[Run]:
        """Take expired runs from anywhere in the queue, about `runs_max` of them at most. Messages
        with times of their own are a run each.
        """
        expired: list[Run] = []
        if self.earliest_ms == NEVER or self.earliest_ms > now_ms:
            return expired
        first = self._without(self._first[self._at :], now_ms, expired, runs_max)
        # Runs have fallen into parts.
        blocks = _blocks_of(first[BLOCK_RUNS:])
        first = first[:BLOCK_RUNS]
        for block in self._blocks:
            if not NEVER < block.expires_ms <= now_ms or len(expired) >= runs_max:
                blocks.append(block)
                continue
            runs = self._without(unpack_runs(block.data), now_ms, expired, runs_max)
            blocks += _blocks_of(runs)
        last = self._without(self._last, now_ms, expired, runs_max)
        if len(last) >= BLOCK_RUNS:
            blocks += _blocks_of(last)
            last = []
        self._times = sum([run.count for run in last if run.times is not None])
        self._first, self._at, self._blocks, self._last = first, 0, blocks, last
        self._fill_first()
        for run in expired:
            self.count -= run.count
            self.bytes -= run.count * run.size
        times = [first_expiry_ms(self._first), first_expiry_ms(self._last)]
        times += [block.expires_ms for block in self._blocks]
        self.earliest_ms = min([at_ms for at_ms in times if at_ms != NEVER], default=NEVER)
        return expired

    def _without(
        self, runs: list[Run], now_ms: int, expired: list[Run], runs_max: int
    ) -> list[Run]:
        """The runs, or parts of them, that have not expired; the others are added to `expired`. Of
        runs with times, some are left as they are if there are very many.
        """
        kept: list[Run] = []
        for run in runs:
            if run.times is not None and len(expired) >= runs_max:
                kept.append(run)
            else:
                kept += run.without_expired(now_ms, expired)
        self.expiring += len(kept) - len(runs)
        return kept

    @property
    def block_count(self) -> int:
        """How many blocks there are."""
        return len(self._blocks)

    def memory_bytes(self) -> int:
        """About how much memory it takes."""
        octets = (len(self._first) - self._at + len(self._last)) * RUN_BYTES
        octets += self._times * TIME_BYTES
        for block in self._blocks:
            octets += len(block.data) + RUN_BYTES
        return octets

    def runs(self) -> list[Run]:
        """All runs in order, as copies."""
        runs = [run.part(0, run.count) for run in self._first[self._at :]]
        for block in self._blocks:
            runs += unpack_runs(block.data)
        return runs + [run.part(0, run.count) for run in self._last]

    def at(self, place: int) -> Run | None:
        """The message at a place, counted from 1."""
        runs = self._first[self._at :]
        skipped = sum([run.count for run in runs])
        if place > skipped:
            place -= skipped
            runs = self._last
            for block in self._blocks:
                if place <= block.count:
                    runs = unpack_runs(block.data)
                    break
                place -= block.count
        for run in runs:
            if place <= run.count:
                return run.part(place - 1, 1)
            place -= run.count
        return None

    def after(self, index: int) -> tuple[int, int]:
        """How many messages refer to later entries than this one, and the bytes of their bodies."""
        count = octets = 0
        runs = self._first[self._at :] + self._last
        for block in self._blocks:
            if block.indexes[0] > index:
                count += block.count
                octets += block.bytes
            elif block.indexes[-1] > index:
                runs += unpack_runs(block.data)
        for run in runs:
            if run.index > index:
                count += run.count
                octets += run.count * run.size
        return count, octets

    def live(self) -> list[list[int]]:
        """The entries that the runs refer to, as lists of intervals."""
        objects = self._first[self._at :] + self._last
        parts = [block.indexes for block in self._blocks]
        parts.append(intervals_of_indexes([run.index for run in objects]))
        return parts

    def pieces(self) -> list[bytes]:
        """The first runs, each block, and the last runs, all packed."""
        return [
            pack_runs(self._first[self._at :]),
            *[block.data for block in self._blocks],
            pack_runs(self._last),
        ]

    def restore(self, pieces: list[bytes]) -> Iterator[None]:
        """Restore the queue from its pieces, one in each step."""
        self._first, self._at, self._last = unpack_runs(pieces[0]), 0, unpack_runs(pieces[-1])
        self._blocks = []
        self.count = self.bytes = self.expiring = 0
        self.earliest_ms = NEVER
        self._count_runs(self._first)
        for data in pieces[1:-1]:
            runs = unpack_runs(data)
            self._blocks.append(PackedBlock(data, runs))
            self._count_runs(runs)
            yield
        self._count_runs(self._last)
        self._times = sum([run.count for run in self._last if run.times is not None])

    def _count_runs(self, runs: list[Run]) -> None:
        for run in runs:
            self.count += run.count
            self.bytes += run.count * run.size
            if run.expires_at_ms:
                self._expires(run.expires_at_ms)


def first_expiry_ms(runs: list[Run]) -> int:
    """When the first of these runs expires; `NEVER` if none does."""
    first_ms = NEVER
    for run in runs:
        expires_at_ms = run.expires_at_ms
        if expires_at_ms != NEVER and (first_ms == NEVER or expires_at_ms < first_ms):
            first_ms = expires_at_ms
    return first_ms


def _block_of(runs: list[Run]) -> PackedBlock:
    return PackedBlock(pack_runs(runs), runs)


def _blocks_of(runs: list[Run]) -> list[PackedBlock]:
    return [_block_of(runs[at : at + BLOCK_RUNS]) for at in range(0, len(runs), BLOCK_RUNS)]
