"""The log's state of one group: its writes in their order, as they are put into records.

The log applies each item when it encodes the record with it, and again when a restart reads the
record. So the state in memory is the one that a restart finds after that record.

    discarded ... entries through this index are bodies only: those in live runs
    kept      ... entries through this index stay when a snapshot that was received takes effect
    received  ... bodies that came with a snapshot, until it takes effect
"""

from collections.abc import Iterator

import msgspec

from leveret.storage.group_log.entry_blocks import (
    EntryBlock,
    Runs,
    add_entry,
    block_of,
    needed_blocks,
    truncate,
)
from leveret.storage.group_log.group_records import (
    ENTRIES,
    RECEIVED,
    RESET,
    TERM,
    TRUNCATE,
    GroupWrite,
)

NOT_TAKEN = -1


class SnapshotName(msgspec.Struct, frozen=True, array_like=True, order=True):
    """Identifies a snapshot by the last entry that it covers, and the term of this entry."""

    index: int
    term: int


NO_SNAPSHOT = SnapshotName(0, 0)


class FoundRun(msgspec.Struct, frozen=True):
    """Consecutive entries of one term and kind."""

    first: int
    count: int
    term: int
    kind: int


class GroupHead(msgspec.Struct, frozen=True, array_like=True):
    """The row of a group: everything except its entries and the state of its machine."""

    me: str
    term: int
    vote: str
    snapshot: SnapshotName
    configuration: bytes
    discarded: int
    kept: int
    record: int
    damage: str


class GroupState:
    """The state of one group.

    me: the name of the member on this node. configuration: that of the snapshot, as bytes.
    live: runs of the entries that the snapshot refers to; None while these are unknown.
    pins: runs that are being sent to other members, by the object that sends them; they are needed
    as live runs are.
    recent: payloads in memory, by index. record: the last record that the rows of the group cover.
    first_file: the oldest log file with a later record. has_moved: entries were truncated or moved
    since the rows were written, or damage was found, so that all of the rows have to be written
    again.
    damage: why the group cannot be used; empty if it can. bad: entries whose payload did not match
    its checksum at the start.
    """

    __slots__ = (
        "bad", "blocks", "configuration", "damage", "discarded", "first_file", "group",
        "has_moved", "kept", "live", "me", "pins", "received", "received_blocks", "recent",
        "record", "snapshot", "term", "vote",
    )  # fmt: skip

    def __init__(self, group: int, me: str, configuration: bytes) -> None:
        self.group = group
        self.me = me
        self.configuration = configuration
        self.term = 0
        self.vote = ""
        self.snapshot = self.received = NO_SNAPSHOT
        self.discarded = self.kept = 0
        self.blocks: list[EntryBlock] = []
        self.received_blocks: list[EntryBlock] = []
        self.live: Runs | None = None
        self.pins: dict[object, Runs] = {}
        self.recent: dict[int, bytes] = {}
        self.bad: set[int] = set()
        self.first_file = NOT_TAKEN
        self.has_moved = False
        self.record = 0
        self.damage = ""

    # Rows

    @property
    def head(self) -> GroupHead:
        """The row of the group."""
        return GroupHead(
            self.me, self.term, self.vote, self.snapshot, self.configuration, self.discarded,
            self.kept, self.record, self.damage,
        )  # fmt: skip

    @classmethod
    def of_head(cls, group: int, head: GroupHead) -> "GroupState":
        """A group in the state that its row has."""
        state = cls(group, head.me, head.configuration)
        state.term, state.vote = head.term, head.vote
        state.snapshot = head.snapshot
        state.discarded, state.kept = head.discarded, head.kept
        state.record, state.damage = head.record, head.damage
        return state

    # Writes

    def apply(self, item: GroupWrite, file: int, offsets: list[int]) -> None:
        """Apply a write. offsets: where its payloads are in the log file.

        CREATE and REMOVE are not applied here: they create and remove the whole object.
        """
        if self.first_file == NOT_TAKEN:
            self.first_file = file
        if item.what == ENTRIES:
            self._add(item, file, offsets)
        elif item.what == TERM:
            self.term, self.vote = item.number, item.text
        elif item.what == TRUNCATE:
            self._truncate(item.first)
        elif item.what == RESET:
            self._reset(SnapshotName(item.number, item.term), item.first)
        elif item.what == RECEIVED:
            self._receive(item, file, offsets[0])

    def _add(self, item: GroupWrite, file: int, offsets: list[int]) -> None:
        index = item.first
        for size, offset in zip(item.sizes, offsets, strict=True):
            add_entry(self.blocks, file, index, item.term, item.kind, offset, size)
            index += 1

    def _truncate(self, first: int) -> None:
        truncate(self.blocks, first)
        self.has_moved = True
        if self.bad:
            self.bad = {index for index in self.bad if index < first}

    def _reset(self, snapshot: SnapshotName, kept: int) -> None:
        truncate(self.blocks, kept + 1)
        if self.received == snapshot:
            came = [(kept + 1, snapshot.index)]
            self.blocks += needed_blocks(self.received_blocks, snapshot.index, came)
        self.received, self.received_blocks = NO_SNAPSHOT, []
        self.has_moved = True
        self.discarded = snapshot.index

    def _receive(self, item: GroupWrite, file: int, offset: int) -> None:
        name = SnapshotName(item.number, item.snapshot_term)
        if name != self.received:
            self.received, self.received_blocks = name, []
            self.has_moved = True
        last = self.received_blocks[-1].last if self.received_blocks else 0
        if item.first > last:
            add_entry(
                self.received_blocks, file, item.first, item.term, item.kind, offset, item.sizes[0]
            )

    # Questions

    @property
    def last(self) -> int:
        """The index of the last entry of the log."""
        return max(self.blocks[-1].last if self.blocks else 0, self.discarded)

    def runs(self) -> Iterator[FoundRun]:
        """The entries of the log, without those that are bodies only."""
        for block in self.blocks:
            first = max(block.first, self.discarded + 1)
            if block.last >= first:
                yield FoundRun(first, block.last + 1 - first, block.term, block.kind)

    @property
    def lacks_reset(self) -> bool:
        """Whether a restart found a received snapshot and an empty log that was not yet reset after
        it.

        If the log has entries, they show that it has to be reset.
        """
        return self.snapshot.index > self.discarded and next(self.runs(), None) is None

    def find_damage(self) -> str:
        """Why the entries that a restart found cannot be used; empty if they can."""
        if self.discarded > self.snapshot.index:
            return f"its snapshot at entry {self.discarded} is missing"
        index, reason = self.first_damaged()
        return reason if index else ""

    def first_damaged(self) -> tuple[int, str]:
        """The first entry that is missing or damaged, and what it is; 0 if all can be used."""
        following = self.discarded + 1
        for run in self.runs():
            if run.first != following:
                return following, f"entries {following} to {run.first - 1} are missing"
            following = run.first + run.count
        bad = [index for index in sorted(self.bad) if index > self.discarded]
        if bad and block_of(self.blocks, bad[0]) is not None:
            return bad[0], f"entry {bad[0]} does not match its checksum"
        return 0, ""

    def needed(self, discarded: int, live: Runs | None) -> list[EntryBlock]:
        """The blocks that are needed if the entries through an index are discarded."""
        if live is None:
            return list(self.blocks)
        if self.pins:
            live = sorted([*live, *[run for runs in self.pins.values() for run in runs]])
        return needed_blocks(self.blocks, discarded, live)
