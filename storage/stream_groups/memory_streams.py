"""The streams of a node that has no files, such as the broker of a test. They end with the node.

Every write counts as durable at once. Chunks stay in memory until retention removes them.
"""

import asyncio
from collections.abc import Callable, Iterable
from pathlib import Path

from leveret.storage.disk.disk import Disk
from leveret.storage.disk.file_reads import FileReads
from leveret.storage.group_log.entry_reader import EntryReader
from leveret.storage.group_log.group_log import GroupLog
from leveret.storage.group_log.group_recovery import GroupRecovery
from leveret.storage.group_log.memory_groups import MemoryGroupStore
from leveret.storage.stream_groups.stream_entries import STREAM_RECORDS, StreamGroupLog
from leveret.storage.stream_log.stream_store import StoredStream, StreamStore


class MemoryStreamStore(MemoryGroupStore):
    """The store of the `Groups` of streams. streams: their logs."""

    records = STREAM_RECORDS

    def _new_log(self, recovery: GroupRecovery, reader: EntryReader) -> GroupLog:
        self.streams = _MemoryStreams()
        return StreamGroupLog(self, recovery, reader, self.streams, lambda group: b"")

    async def save(self, groups: Iterable[int]) -> None:
        """Take snapshots of groups, so that retention may remove the entries that they cover."""
        for group in groups:
            snapshot = await self._source.take(group)
            state, stream = self.log.groups.get(group), self.streams.streams.get(group)
            if snapshot is not None and state is not None and stream is not None:
                state.snapshot = snapshot.name
                self._source.taken(group, snapshot._replace(discard=stream.log.first_entry - 1))

    def _take_records(self) -> None:
        """Drop the gathered records: none of them takes space."""
        self._is_scheduled = False
        self.log.take_records(self._file, 0)


class _MemoryStreams(StreamStore):
    """Streams without files."""

    def __init__(self) -> None:
        disk = Disk()
        loop = asyncio.get_running_loop()
        super().__init__(Path(), disk, FileReads(disk), [_NoThread()], loop)

    def open(self, groups: object) -> None:
        """There are none."""

    def remove(self, group: int) -> None:
        """Forget a stream."""
        self.streams.pop(group, None)

    def write(self, stream: StoredStream) -> None:
        """Nothing is written."""
        stream.log.drop_steps()

    def when_written(self, stream: StoredStream, callback: Callable[[], object]) -> None:
        """Call back at the end of the turn."""
        self.write(stream)
        self.call_soon(callback)


class _NoThread:
    """Stands for the thread of a stream."""

    def submit(self, job: object, done: object) -> None:
        """There is nothing to do."""
