"""The groups of a node that has no files, such as the broker of a test. They end with the node.

What is written counts as durable at once. An entry stays in memory while a message of it is in its
queue. The others are given up when those that came since the last time take more memory than what
was left then.
"""

import asyncio
from pathlib import Path
from typing import ClassVar

from leveret.storage.contract.backing_queue import Waiter
from leveret.storage.disk.disk import Disk
from leveret.storage.group_log.entry_blocks import EntryBlock, block_of
from leveret.storage.group_log.entry_reader import EntryReader
from leveret.storage.group_log.group_log import GroupLog
from leveret.storage.group_log.group_records import QUORUM_RECORDS, RecordName
from leveret.storage.group_log.group_recovery import GroupRecovery
from leveret.storage.group_log.rounds import Rounds, SnapshotSource
from leveret.storage.group_log.rows import GroupRows, Key
from leveret.storage.log.log_files import LogFile

GIVEN_UP_BYTES_MIN = 1024 * 1024


class MemoryGroupStore:
    """What `Groups` needs of a store. It is the node's log of its own `log`.

    rounds: never set. They are for members on other nodes, and for restarts.
    """

    batch = written = 1
    records: ClassVar[RecordName] = QUORUM_RECORDS
    rounds: Rounds

    def __init__(self) -> None:
        self.log = self._new_log(GroupRecovery(_NoRows(), records=self.records), _NoReader())
        self._loop = asyncio.get_running_loop()
        self._file = LogFile(1, Path())
        self._bytes = self._bytes_left = 0
        self._is_scheduled = False
        self._source: SnapshotSource
        self._giving_up: asyncio.Task[None] | None = None

    def _new_log(self, recovery: GroupRecovery, reader: EntryReader) -> GroupLog:
        return GroupLog(self, recovery, reader, recent_bytes=None)

    def begin(self, source: SnapshotSource) -> None:
        """Begin to write."""
        self._source = source
        self.log.begin()

    # A `NodeLog`

    def write_later(self, pending_bytes: int = 0) -> None:
        """Take what was gathered at the end of the turn."""
        self._bytes += pending_bytes
        if not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon(self._take_records)

    def when_safe(self, waiter: Waiter, first: int, holder: object) -> None:
        """Take what was gathered, and confirm."""
        self._take_records()
        waiter.confirm(first, holder)

    def _take_records(self) -> None:
        self._is_scheduled = False
        self.log.take_records(self._file, 0)
        new = self._bytes - self._bytes_left
        if new > max(GIVEN_UP_BYTES_MIN, self._bytes_left) and self._giving_up is None:
            self._giving_up = self._loop.create_task(self._give_up())

    async def _give_up(self) -> None:
        """Give up the entries of which no message is left."""
        for group in list(self.log.groups):
            snapshot = await self._source.take(group)
            state = self.log.groups.get(group)
            if snapshot is None or state is None:
                continue
            state.snapshot, state.live = snapshot.name, snapshot.live
            state.discarded = max(state.discarded, snapshot.discard)
            state.blocks = state.needed(state.discarded, state.live)
            for index in [one for one in state.recent if block_of(state.blocks, one) is None]:
                del state.recent[index]
            self._source.taken(group, snapshot)
        groups = self.log.groups.values()
        self._bytes_left = sum(block.octets for state in groups for block in state.blocks)
        self._bytes = self._bytes_left
        self._giving_up = None


class _NoRows(GroupRows):
    """Rows of no file."""

    def __init__(self) -> None:
        super().__init__(Path(), Disk())

    def load(self, changes_files: bool = True) -> dict[Key, bytes]:
        """There are none."""
        return {}


class _NoReader(EntryReader):
    """All entries are in memory."""

    def __init__(self) -> None:
        """Nothing is open."""

    def read(self, block: EntryBlock, first: int, last: int, bytes_max: int) -> list[bytes]:
        """The entry was given up."""
        raise KeyError(first)
