"""Rounds of snapshots: they bring the groups' rows up to date, so that the log can remove a file.

Before the log removes its oldest file, each group that has written to it since its rows were
written is asked for a snapshot. All of these are put into the rows in one change (rows.py), with
the places of each group's entries in each file. The file is kept under another name if any entry in
it is needed. Holes are punched into kept files of which much is no longer needed, and kept files
without needed entries are removed.

The rows of a kept file are not rewritten merely because fewer entries are needed. If entries of a
group were truncated, or came with a snapshot that has taken effect, the next round rewrites all
rows of this group: the old ones would be wrong together with a later record.

A round, step by step; the node may crash after any of them:

    1  snapshots of the groups are taken; then the round is planned, in one turn
    2  the log is synced, so that everything that the plan is based on is on disk
    3  the log file gets its second name
    4  the rows are changed, and then the set of readable entries
    5  holes are punched into kept files, or they are removed
    6  the log removes the file (retirement.py)

Before step 4 a restart finds the old rows, and all records after them in the log's own files. After
step 4 it finds the new rows, which cover the records of the file. A second name that no row needs
is removed.

Invariants:

GSR1  The entries that a row refers to are on disk before the row is.
GSR2  Entries are discarded only when the row of a snapshot that covers them is on disk.
GSR3  The rows have the place of each needed entry of their group, as of the record they cover.
"""

import asyncio
from collections.abc import Iterable
from typing import NamedTuple, Protocol

import msgspec

from leveret.storage.disk.disk import DiskFull
from leveret.storage.disk.worker import Worker
from leveret.storage.group_log.entry_blocks import EntryBlock, Runs
from leveret.storage.group_log.group_log import GroupLog
from leveret.storage.group_log.group_records import CRC_BYTES
from leveret.storage.group_log.group_recovery import COVERED, MACHINE, places_row
from leveret.storage.group_log.group_state import NO_SNAPSHOT, NOT_TAKEN, GroupState, SnapshotName
from leveret.storage.group_log.kept_files import KeptFiles
from leveret.storage.group_log.rows import STATE, GroupRows, Key
from leveret.storage.log.log import Log
from leveret.storage.log.log_files import LogFile, LogFiles

FREED_BYTES_MIN, FREED_SHARE = 1024 * 1024, 4
"""Holes are punched if more bytes than this, and more than one in 4 of the file, are unneeded."""


class TakenSnapshot(NamedTuple):
    """The state of a group's machine after an entry.

    configuration: as bytes. live: runs of the entries that it refers to. discard: the last entry
    that members which are behind do not need; at most the last one that the snapshot covers.
    """

    name: SnapshotName
    configuration: bytes
    state: bytes
    live: Runs
    discard: int


class StoredSnapshot(NamedTuple):
    """A snapshot that is on disk. state: of the machine."""

    name: SnapshotName
    configuration: bytes
    state: bytes


class SnapshotSource(Protocol):
    """Takes snapshots of groups: the service that runs them."""

    def with_news(self) -> list[int]:
        """The groups that have applied more than their newest snapshot has."""

    async def take(self, group: int) -> TakenSnapshot | None:
        """A snapshot of the entries that a group has applied; None if there are no new ones."""

    def taken(self, group: int, snapshot: TakenSnapshot) -> None:
        """A snapshot is on disk, and the entries that it allows to discard are discarded."""


class _GroupPlan(NamedTuple):
    """The part of the plan for one group. blocks: those that it needs."""

    state: GroupState
    snapshot: TakenSnapshot | None
    blocks: list[EntryBlock]


class _Plan(NamedTuple):
    """The steps of one round. needed: blocks by file. free, remove: kept files."""

    groups: list[_GroupPlan]
    put: dict[Key, bytes]
    delete: set[Key]
    needed: dict[int, list[EntryBlock]]
    free: list[int]
    remove: list[int]


class Rounds:
    """The rounds of one node. worker: a thread for the disk; not that of the log."""

    def __init__(
        self, group_log: GroupLog, log: Log, files: LogFiles, rows: GroupRows, kept: KeptFiles,
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
        """For each kept file, how many bytes were needed when holes were last punched into it."""
        group_log.cover = self.cover

    def begin(self) -> None:
        """Remove the names of kept files that no row needs, after the log was read.

        A file that the log still has is kept again before the log removes it.
        """
        oldest = self._files.files[0].number
        needed = {key.file for key in self._rows.keys}
        for number in sorted(self._kept.numbers):
            if number >= oldest or number not in needed:
                self._kept.remove(number)
            else:
                self._space[number] = self._kept.used_bytes(number)

    async def cover(self, file: LogFile) -> None:
        """Let the rows cover all records of the oldest log file. Keep the file if it is needed."""
        async with self._lock:
            due = [
                state
                for state in self._group_log.groups.values()
                if NOT_TAKEN < state.first_file <= file.number
            ]
            await self._run(due, await self._take(due), file)
            self._group_log.last_numbers.pop(file.number, None)

    async def free_space(self, groups: Iterable[int]) -> bool:
        """Take snapshots of groups, and free the disk space that these do not need.

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

    async def install(self, state: GroupState, snapshot: TakenSnapshot, kept: int) -> None:
        """Write a received snapshot to disk. kept: the last entry that is not part of it.

        The group's log does not change until it is reset. If the member has been removed, nothing
        happens.
        """
        async with self._lock:
            is_there = self._group_log.groups.get(state.group) is state
            if is_there and snapshot.name.index > state.snapshot.index:
                await self._run([state], {state.group: snapshot}, None, kept)

    async def pin(self, group: int, user: object) -> StoredSnapshot:
        """The newest snapshot of a group. The entries that it refers to stay until the pin is
        removed.

        Raises KeyError if the group is not there, StoreError if the snapshot cannot be read.
        """
        async with self._lock:
            state = self._group_log.groups[group]
            data = await self._worker.run(lambda: self.machine_state(group))
            state.pins[user] = list(state.live or ())
            return StoredSnapshot(state.snapshot, state.configuration, data)

    async def _take(self, due: list[GroupState]) -> dict[int, TakenSnapshot]:
        snapshots = {}
        for state in due:
            if not state.damage:
                snapshot = await self._source.take(state.group)
                if snapshot is not None and snapshot.name.index >= state.snapshot.index:
                    snapshots[state.group] = snapshot
        return snapshots

    async def _run(
        self, due: list[GroupState], snapshots: dict[int, TakenSnapshot], file: LogFile | None,
        kept: int | None = None,
    ) -> None:  # fmt: skip
        if file is None:
            # The record that creates a group may not have been taken yet. Applied later, it would
            # void the rows.
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
        self, due: list[GroupState], snapshots: dict[int, TakenSnapshot], file: LogFile | None,
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
        self, groups: list[_GroupPlan], blocks: dict[int, list[EntryBlock]], put: dict[Key, bytes]
    ) -> set[Key]:
        """Put rows for the files that the log still has, and for all files of a group whose entries
        have moved. Returns the rows to delete.
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
        self, blocks: dict[int, list[EntryBlock]], put: dict[Key, bytes]
    ) -> tuple[dict[int, list[EntryBlock]], list[int]]:
        """The needed blocks by their file, and the kept files of which much is not needed.

        The rows of these files are rewritten, so that no row refers to freed entries.
        """
        needed: dict[int, list[EntryBlock]] = {}
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
        """The kept files that the log has removed."""
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


def _ranges(blocks: list[EntryBlock]) -> list[tuple[int, int]]:
    """The byte ranges of the entries in blocks of one file."""
    return [
        (offset - CRC_BYTES, offset + size)
        for block in blocks
        for offset, size in zip(block.offsets, block.sizes, strict=True)
    ]
