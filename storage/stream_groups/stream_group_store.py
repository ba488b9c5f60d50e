"""Everything that a node stores for the groups of its streams.

    DIR/streams/0000000001.groups    the snapshots of groups (rows.py)
    DIR/streams/logs/123/...         the segments of the stream whose group has the number 123

Members, terms and votes are records of the node's log.
"""

import asyncio
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

from leveret.storage.disk.disk import Disk
from leveret.storage.disk.file_reads import FileReads
from leveret.storage.disk.worker import Worker
from leveret.storage.group_log.entry_reader import EntryReader
from leveret.storage.group_log.group_log import GroupLog
from leveret.storage.group_log.group_recovery import MACHINE, GroupRecovery
from leveret.storage.group_log.group_store import GroupStore
from leveret.storage.group_log.rounds import Rounds, SnapshotSource
from leveret.storage.group_log.rows import Key
from leveret.storage.log.log import Log
from leveret.storage.log.log_files import LogFiles
from leveret.storage.stream_groups.stream_entries import STREAM_RECORDS, StreamGroupLog
from leveret.storage.stream_groups.stream_rounds import StreamRounds, StreamSnapshots
from leveret.storage.stream_log.stream_store import StreamStore

STREAMS, LOGS = "streams", "logs"
WRITERS = 4
"""Threads that write streams, so that several syncs run at once. They start with the first use."""

Result = TypeVar("Result")


class _Writer:
    """A thread that starts when it is needed."""

    def __init__(self, loop: asyncio.AbstractEventLoop, name: str) -> None:
        self._loop = loop
        self._name = name
        self._worker: Worker | None = None

    def submit(
        self, job: Callable[[], Result], done: Callable[[Result | None, Exception | None], object]
    ) -> None:
        """Run the job in the thread, then call `done` in the loop."""
        if self._worker is None:
            self._worker = Worker(self._loop, self._name)
        self._worker.submit(job, done)

    def stop(self) -> None:
        """Wait until the jobs are done, and end."""
        if self._worker is not None:
            self._worker.stop()


class StreamGroupStore(GroupStore):
    """The stored streams of one node. streams: their logs."""

    records = STREAM_RECORDS

    def __init__(
        self, directory: Path, log: Log, files: LogFiles, disk: Disk, reads: FileReads,
        worker: Worker,
    ) -> None:  # fmt: skip
        """directory: of the streams. worker: a thread for the disk. Raises StoreError."""
        loop = asyncio.get_running_loop()
        disk.make_synced_directory(directory)
        disk.make_synced_directory(directory / LOGS)
        self._writers = [_Writer(loop, f"leveret-streams-{number}") for number in range(WRITERS)]
        self.streams = StreamStore(directory / LOGS, disk, reads, self._writers, loop)
        super().__init__(directory, log, files, disk, reads, worker)

    def _new_log(self, log: Log, recovery: GroupRecovery, reader: EntryReader) -> GroupLog:
        rows = self._rows
        self.entries = StreamGroupLog(
            log, recovery, reader, self.streams, lambda group: rows.read(Key(group, MACHINE))
        )
        return self.entries

    def _new_rounds(self, source: SnapshotSource) -> Rounds:
        rounds = StreamRounds(
            self.log, self._node_log, self._files, self._rows, self._kept, self._worker,
            StreamSnapshots(source, self.entries),
        )  # fmt: skip
        rounds.members, rounds.entries = source, self.entries
        return rounds

    async def save(self, groups: Iterable[int]) -> None:
        """Take snapshots of groups. Raises StoreError."""
        await self.rounds.free_space(groups)

    def stop_writing(self) -> None:
        """Wait for the writes in progress, and end the threads."""
        for writer in self._writers:
            writer.stop()
        self.streams.close()
