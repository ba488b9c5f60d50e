"""Rounds of snapshots: the groups' rows are brought up to date, so that the log may give up a file.

When the log is to give up its oldest file, each group that has written to it since its rows were
written is asked for a snapshot. One change of the rows (rows.py) has all of these, and where each
group's entries are in which file. The file is kept under another name if any entry in it is needed.
Kept files of which much is no longer needed are punched, and those without needed entries are
removed.

Rows of kept files stay as they are while all that changes is that fewer entries are needed. A group
whose entries were truncated, or came with a snapshot that has taken effect, gets all of its rows
again with the next round: the old ones would be wrong beside a later record.

A round, step by step; the node may crash after any of them:

    1  the groups give their snapshots; then the plan of the round is made, in one turn
    2  the log is synced, so that all that the plan is made from is on disk
    3  the log file gets its second name
    4  the rows are changed, and then what can be read
    5  kept files are punched or removed
    6  the log gives up the file (retirement.py)

Before step 4 a restart finds the old rows and all records after them, in the log's own files; after
it the new rows, which cover the records of the file. A second name that no row needs is removed.

Invariants:

GSR1  What a row says is on disk before the row is.
GSR2  Entries are given up only by a snapshot whose row is on disk.
GSR3  A row says where each needed entry of its group is, as of the record that it covers.
"""

import asyncio
from collections.abc import Iterable
from typing import NamedTuple, Protocol

import msgspec

from leveret.storage.disk.disk import DiskFull
from leveret.storage.disk.worker import Worker
from leveret.storage.group_log.entry_blocks import Block, Runs
from leveret.storage.group_log.group_log import GroupLog
from leveret.storage.group_log.group_records import CRC_BYTES
from leveret.storage.group_log.group_recovery import COVERED, MACHINE, places_row
from leveret.storage.group_log.group_state import NO_SNAPSHOT, NOT_TAKEN, GroupState, SnapshotName
from leveret.storage.group_log.kept_files import KeptFiles
from leveret.storage.group_log.rows import STATE, Key, Rows
from leveret.storage.log.log import Log
from leveret.storage.log.log_files import LogFile, LogFiles

FREED_BYTES_MIN, FREED_SHARE = 1024 * 1024, 4
"""A kept file is punched when more than this many bytes, and more than one in 4, are unneeded."""


class Snapshot(NamedTuple):
    """The state of a group's machine after an entry.

    configuration: as bytes. live: runs of the entries that it refers to. discard: entries through
    this one are not needed for members that are behind; at most the snapshot's.
    """

    name: SnapshotName
    configuration: bytes
    state: bytes
    live: Runs
    discard: int


class StoredSnapshot(NamedTuple):
    """A snapshot that is on disk. state: that of the machine."""

    name: SnapshotName
    configuration: bytes
    state: bytes


class SnapshotSource(Protocol):
    """The service of the groups."""

    async def take(self, group: int) -> Snapshot | None:
        """A snapshot of what a group has applied; None if there is nothing new."""

    def taken(self, group: int, snapshot: Snapshot) -> None:
        """A snapshot is on disk, and the entries that it allows to discard are discarded."""


class _GroupPlan(NamedTuple):
    """What becomes of one group. blocks: its needed ones."""

    state: GroupState
    snapshot: Snapshot | None
    blocks: list[Block]


class _Plan(NamedTuple):
    """A round. needed: blocks by their file. free, remove: kept files."""

    groups: list[_GroupPlan]
    put: dict[Key, bytes]
    delete: set[Key]
    needed: dict[int, list[Block]]
    free: list[int]
    remove: list[int]


class Rounds:
    """The rounds of one node. worker: a thread for the disk; not that of the log."""

    def __init__(
        self, group_log: GroupLog, log: Log, files: LogFiles, rows: Rows, kept: KeptFiles,
        worker: Worker, source: SnapshotSource,
    ) -> None:  # fmt: skip
        self._group_log = group_log
        self._log = log
        self._files = files
        self._rows = rows
        self._kept = kept
        self._worker = worker
        self._source = source
        self._lock = asyncio.Lock()
        self._space: dict[int, int] = {}
        """The bytes that each kept file may have: those needed when it was punched last."""
        group_log.cover = self.cover

    def begin(self) -> None:
        """Remove the names of kept files that no row needs, after the log was read.

        A file that the log still has is kept again when the log gives it up.
        """
        oldest = self._files.files[0].number
        needed = {key.file for key in self._rows.keys}
        for number in sorted(self._kept.numbers):
            if number >= oldest or number not in needed:
                self._kept.remove(number)
            else:
                self._space[number] = self._kept.used_bytes(number)

    async def cover(self, file: LogFile) -> None:
        """Have the rows cover all records of the oldest log file, and keep it if it is needed."""
        async with self._lock:
            due = [
                state
                for state in self._group_log.groups.values()
                if NOT_TAKEN < state.first_file <= file.number
            ]
            await self._run(due, await self._take(due), file)
            self._group_log.last_numbers.pop(file.number, None)

    async def free_space(self, groups: Iterable[int]) -> bool:
        """Take snapshots of groups, and give back the space that these do not need.

        Returns False if a full disk has no room for the rows.
        """
        async with self._lock:
            found = self._group_log.groups
            due = [found[group] for group in groups if group in found]
            try:
                await self._run(due, await self._take(due), None)
            except DiskFull:
                return False
        return True

    async def install(self, state: GroupState, snapshot: Snapshot, kept: int) -> None:
        """Have a snapshot that was received on disk. Entries through `kept` are not part of it.

        The group's log is as before, until it is reset. Nothing happens if the member was removed
        meanwhile.
        """
        async with self._lock:
            is_there = self._group_log.groups.get(state.group) is state
            if is_there and snapshot.name.index > state.snapshot.index:
                await self._run([state], {state.group: snapshot}, None, kept)

    async def pin(self, group: int, user: object) -> StoredSnapshot:
        """The newest snapshot of a group. What it refers to stays until the pin is taken out.

        Raises KeyError if the group is not there, StoreError if the snapshot cannot be read.
        """
        async with self._lock:
            state = self._group_log.groups[group]
            data = await self._worker.run(lambda: self.machine_state(group))
            state.pins[user] = list(state.live or ())
            return StoredSnapshot(state.snapshot, state.configuration, data)

    async def _take(self, due: list[GroupState]) -> dict[int, Snapshot]:
        snapshots = {}
        for state in due:
            if not state.damage:
                snapshot = await self._source.take(state.group)
                if snapshot is not None and snapshot.name.index >= state.snapshot.index:
                    snapshots[state.group] = snapshot
        return snapshots

    async def _run(
        self, due: list[GroupState], snapshots: dict[int, Snapshot], file: LogFile | None,
        kept: int | None = None,
    ) -> None:  # fmt: skip
        if file is None:
            # A record that creates a group may not be taken yet, and would void its rows.
            await self._log.sync()
        groups = self._group_log.groups
        due = [state for state in due if groups.get(state.group) is state]
        known = {state.group for state in due}
        due += [one for one in groups.values() if one.has_moved and one.group not in known]
        before = [(state.first_file, state.has_moved) for state in due]
        plan = self._plan(due, snapshots, file, kept)
        for state in due:
            state.first_file, state.has_moved = NOT_TAKEN, False
        try:
            await self._log.sync()  # GSR1
            await self._worker.run(lambda: self._carry_out(plan, file))
        except BaseException:
            for state, (first, has_moved) in zip(due, before, strict=True):
                state.first_file = first
                state.has_moved = state.has_moved or has_moved
            raise
        self._finish(plan, kept)
        if file is not None:
            self._kept.finish(file.number)
            self._space[file.number] = file.size
        await self._worker.run(lambda: self._give_back(plan))
        for number in plan.free:
            self._space[number] = sum(block.octets for block in plan.needed[number])
        for number in plan.remove:
            self._group_log.reader.close(number)
            self._space.pop(number, None)

    # The plan

    def _plan(
        self, due: list[GroupState], snapshots: dict[int, Snapshot], file: LogFile | None,
        kept: int | None,
    ) -> _Plan:  # fmt: skip
        record = self._group_log.number - 1
        put: dict[Key, bytes] = {}
        groups = []
        for state in due:
            snapshot = snapshots.get(state.group)
            discarded, live = state.discarded, state.live
            head = state.head
            if snapshot is not None:
                if kept is None:
                    discarded, live = max(discarded, snapshot.discard), snapshot.live
                head = msgspec.structs.replace(
                    head, snapshot=snapshot.name, configuration=snapshot.configuration,
                    kept=state.kept if kept is None else kept,
                )  # fmt: skip
                put[Key(state.group, MACHINE)] = snapshot.state
            put[Key(state.group, STATE)] = msgspec.msgpack.encode(
                msgspec.structs.replace(head, discarded=discarded, record=record)
            )
            groups.append(_GroupPlan(state, snapshot, state.needed(discarded, live)))
        if file is not None and file.number in self._group_log.last_numbers:
            number = self._group_log.last_numbers[file.number]
            put[COVERED] = number.to_bytes(8, "little")
        blocks = {one.state.group: one.blocks for one in groups}
        delete = self._plan_places(groups, blocks, put)
        needed, free = self._plan_freeing(blocks, put)
        delete -= put.keys()
        in_rows = {key.file for key in (self._rows.keys | put.keys()) - delete}
        remove = [number for number in self._given_up() if number not in in_rows]
        return _Plan(groups, put, delete, needed, free, remove)

    def _plan_places(
        self, groups: list[_GroupPlan], blocks: dict[int, list[Block]], put: dict[Key, bytes]
    ) -> set[Key]:
        """Put rows of the files that the log still has, and of all files of a group whose entries
        have moved; returns the rows that are to go.
        """
        oldest = self._files.files[0].number
        wanted: set[Key] = set()
        for state, snapshot, needed in groups:
            if snapshot is not None or state.snapshot != NO_SNAPSHOT:
                wanted.add(Key(state.group, MACHINE))
            for file in {block.file for block in (*needed, *state.received_blocks)}:
                key = Key(state.group, file)
                wanted.add(key)
                if file >= oldest or state.has_moved:
                    put[key] = places_row(state, needed, file)
        known = self._group_log.groups
        return {
            key
            for key in self._rows.keys
            if (key.group not in known and key != COVERED)
            or (key.group in blocks and key.file != STATE and key not in wanted)
        }

    def _plan_freeing(
        self, blocks: dict[int, list[Block]], put: dict[Key, bytes]
    ) -> tuple[dict[int, list[Block]], list[int]]:
        """The needed blocks by their file, and the kept files of which much is not needed.

        The rows of these are written again: nothing that is freed is in a row.
        """
        needed: dict[int, list[Block]] = {}
        for group, state in self._group_log.groups.items():
            for block in (*blocks.get(group, state.blocks), *state.received_blocks):
                needed.setdefault(block.file, []).append(block)
        free = []
        for number in self._given_up():
            left = sum(block.octets for block in needed.get(number, ()))
            space = self._space[number]
            if left and space - left > max(FREED_BYTES_MIN, space // FREED_SHARE):
                free.append(number)
        for key in self._rows.keys:
            found = self._group_log.groups.get(key.group)
            if key.file in free and found is not None:
                put[key] = places_row(found, blocks.get(key.group, found.blocks), key.file)
        return needed, free

    def _given_up(self) -> list[int]:
        """The kept files that the log no longer has."""
        oldest = self._files.files[0].number
        return sorted([number for number in self._kept.numbers if number < oldest])

    # In the worker's thread

    def _carry_out(self, plan: _Plan, file: LogFile | None) -> None:
        if file is not None and file.number in plan.needed:
            self._kept.keep(file.number, file.path, _ranges(plan.needed[file.number]))
        self._rows.change(plan.put, plan.delete)

    def _give_back(self, plan: _Plan) -> None:
        for number in plan.free:
            self._kept.free(number, _ranges(plan.needed[number]))
        for number in plan.remove:
            self._kept.remove(number)

    # Back in the loop

    def _finish(self, plan: _Plan, kept: int | None) -> None:
        for state, snapshot, _ in plan.groups:
            if snapshot is None:
                state.blocks = state.needed(state.discarded, state.live)
                continue
            state.snapshot = snapshot.name
            state.configuration = snapshot.configuration
            state.live = snapshot.live
            if kept is not None:
                state.kept = kept
                continue
            state.discarded = max(state.discarded, snapshot.discard)
            state.blocks = state.needed(state.discarded, state.live)  # GSR2
            if self._group_log.groups.get(state.group) is state:
                self._source.taken(state.group, snapshot)

    def machine_state(self, group: int) -> bytes:
        """The state of the machine in the newest snapshot; empty if there is none."""
        is_there = self._group_log.groups[group].snapshot != NO_SNAPSHOT
        return self._rows.read(Key(group, MACHINE)) if is_there else b""


def _ranges(blocks: list[Block]) -> list[tuple[int, int]]:
    """The byte ranges of the entries in blocks of one file."""
    return [
        (offset - CRC_BYTES, offset + size)
        for block in blocks
        for offset, size in zip(block.offsets, block.sizes, strict=True)
    ]
