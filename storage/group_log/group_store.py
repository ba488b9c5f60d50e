"""Everything that a node stores for its Raft groups: connects the log, the rows and kept files.

    DIR/quorum/0000000001.groups    the snapshots of groups, and where their entries are (rows.py)
    DIR/quorum/0000000001.log       log files that are kept for their entries (kept_files.py)

The entries themselves are records of the node's log. A store is created before the log is read, and
started (`begin`) after that.
"""

import logging
from pathlib import Path
from typing import ClassVar

from leveret.storage.disk.disk import Disk
from leveret.storage.disk.file_reads import FileReads
from leveret.storage.disk.worker import Worker
from leveret.storage.group_log.entry_reader import EntryReader
from leveret.storage.group_log.group_log import RECENT_BYTES, GroupLog
from leveret.storage.group_log.group_records import QUORUM_RECORDS, RecordName
from leveret.storage.group_log.group_recovery import GroupRecovery
from leveret.storage.group_log.kept_files import KeptFiles
from leveret.storage.group_log.rounds import Rounds, SnapshotSource
from leveret.storage.group_log.rows import GroupRows
from leveret.storage.log.log import Log
from leveret.storage.log.log_files import LogFiles

QUORUM = "quorum"

logger = logging.getLogger("leveret.store")


class GroupStore:
    """The stored groups of one kind on one node.

    records: those of this kind. log: writes and reads entries; it is a client of the node's log.
    rounds: exists from `begin` on.
    """

    records: ClassVar[RecordName] = QUORUM_RECORDS

    def __init__(
        self, directory: Path, log: Log, files: LogFiles, disk: Disk, reads: FileReads,
        worker: Worker, recent_bytes: int = RECENT_BYTES,
    ) -> None:  # fmt: skip
        """directory: of the groups' own files. worker: a thread for the disk. Raises StoreError."""
        disk.make_synced_directory(directory)
        self._node_log = log
        self._files = files
        self._worker = worker
        self._rows = GroupRows(directory, disk)
        self._kept = KeptFiles(directory, disk)
        self._recent_bytes = recent_bytes
        recovery = GroupRecovery(self._rows, records=self.records)
        self.log = self._new_log(log, recovery, EntryReader(files, self._kept, reads, disk))
        self.rounds: Rounds
        self._source: SnapshotSource | None = None
        log.register(self.log)

    def _new_log(self, log: Log, recovery: GroupRecovery, reader: EntryReader) -> GroupLog:
        return GroupLog(log, recovery, reader, self._recent_bytes)

    def _new_rounds(self, source: SnapshotSource) -> Rounds:
        return Rounds(
            self.log, self._node_log, self._files, self._rows, self._kept, self._worker, source
        )

    async def free_space(self) -> None:
        """Free the space in kept files of entries that current snapshots would not need."""
        kept = self._kept.numbers
        if self._source is not None and kept:
            in_kept = [
                group
                for group, state in self.log.groups.items()
                if state.blocks and state.blocks[0].file in kept
            ]
            await self.rounds.free_space({*self._source.with_news(), *in_kept})

    def close_files(self) -> None:
        """Close the files that are open for reading."""
        self.log.reader.close_all()

    def begin(self, source: SnapshotSource) -> None:
        """Start to write, after the log was read."""
        self.log.begin()
        for problem in self._rows.problems:
            logger.error("%s", problem)
        for state in self.log.groups.values():
            if state.damage:
                logger.error(
                    "the member of group %d of %s on this node cannot be used: %s",
                    state.group, self.log.name, state.damage,
                )  # fmt: skip
        self.rounds = self._new_rounds(source)
        self.rounds.begin()
        self._source = source
