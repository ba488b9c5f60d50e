"""The streams of one node: writes what their logs gather, on threads.

**Promise.** `when_written` calls back when all that a stream's log had gathered is on disk.
**Not promised.** Any order between streams.

**Mechanism.** At most one batch of a stream's steps is with a thread; steps gathered meanwhile are
the next batch. The streams are spread over the threads, so that several syncs run at once. A batch
that finds the disk full is carried out again until there is room; removals by retention are carried
out first, and the deletion of a stream at once. After any other error, such as a failed sync, the
state of the files is unknown: the store fails, and the node has to stop.

    DIR/streams/123/    the segments of the stream whose group has the number 123
"""

import asyncio
import logging
from collections.abc import Callable, Container, Sequence
from functools import partial
from pathlib import Path

from mypy_extensions import mypyc_attr

from leveret.storage.disk.callbacks import call, call_each
from leveret.storage.disk.disk import Disk, DiskFull, StoreError
from leveret.storage.disk.file_reads import FileReads, ReadingWorker
from leveret.storage.stream_log.recovery import open_stream, sync_opened
from leveret.storage.stream_log.segment_files import RemoveAll, Step, StreamFiles
from leveret.storage.stream_log.segment_heads import SegmentHead
from leveret.storage.stream_log.stream_log import StreamLog, new_log
from leveret.storage.stream_log.written_files import WrittenFiles

RETRY_SECONDS = 0.5
"""The interval at which a write to a full disk is tried again."""

OPEN_SHARE = 2
"""Files that are written may be half as many as those that are kept open to be read."""

Callback = Callable[[], object]

logger = logging.getLogger("leveret.store")


class StoredStream:
    """A stream. log: its entries."""

    def __init__(
        self, group: int, log: StreamLog, files: StreamFiles, worker: ReadingWorker
    ) -> None:
        self.group = group
        self.log = log
        self.files = files
        self.worker = worker
        self.is_writing = False
        self.is_removed = False
        self.after: StoredStream | None = None
        """An earlier stream in the same directory, which is being removed."""
        self.successor: StoredStream | None = None
        self.waiting: list[Callback] = []
        """They wait until the gathered steps of the log are carried out."""
        self.in_batch: list[Callback] = []
        """They wait for the batch that is being written."""


@mypyc_attr(allow_interpreted_subclasses=True)
class StreamStore:
    """The streams of one node, by the numbers of their groups. For the event loop's thread.

    damaged: why the files of a stream cannot be used. call_soon: schedules a call for the end of
    the current turn of the event loop. name_of: the name of a group's stream, for the log.

    disk_filled: called with True when a write finds the disk full, with False when all is written
    again. failed: called with the error when a stream cannot be written for another reason.
    """

    def __init__(
        self, directory: Path, disk: Disk, reads: FileReads, workers: Sequence[ReadingWorker],
        loop: asyncio.AbstractEventLoop,
    ) -> None:  # fmt: skip
        self.streams: dict[int, StoredStream] = {}
        self.damaged: dict[int, StoreError] = {}
        self.call_soon: Callable[[Callback], object] = loop.call_soon
        self.name_of: Callable[[int], str] = lambda group: f"the stream of group {group}"
        self.disk_filled: Callable[[bool], object] = lambda is_full: None
        self.failed: Callable[[Exception], object] = lambda error: None
        self._directory = directory
        self._disk = disk
        self._reads = reads
        self._workers = workers
        most = disk.kept_open_max // OPEN_SHARE // len(workers)
        self._written_files = [WrittenFiles(disk, most) for _ in workers]
        self._loop = loop
        self._changed: dict[int, StoredStream] = {}
        self._removing: dict[int, StoredStream] = {}
        self._without_room: set[StoredStream] = set()

    # Life

    def open(self, groups: Container[int]) -> None:
        """Open the streams that a restart finds, before the loop serves clients.

        groups: those that exist. Directories of others are removed. Raises StoreError if the
        directory cannot be read, or synced.
        """
        for name in self._disk.names_in(self._directory):
            group = int(name) if name.isascii() and name.isdigit() else -1
            if group not in groups:
                self._disk.remove_tree(self._directory / name)
                continue
            try:
                log = open_stream(self._directory / name, self._disk, self._reads)
            except StoreError as error:
                self.damaged[group] = error
                logger.error("the stream of group %d cannot be used: %s", group, error)
            else:
                self._add(group, log)
        opened = [stream.log for stream in self.streams.values()]
        sync_opened(opened, self._directory, self._disk)

    def create(self, group: int, head: SegmentHead) -> StoredStream:
        """Create a stream that begins with this head, in place of a damaged one."""
        self.damaged.pop(group, None)
        log = new_log(self._path(group), self._disk, self._reads, head)
        stream = self._add(group, log)
        self.write(stream)
        return stream

    def remove(self, group: int) -> None:
        """Remove a stream, with the callbacks that wait for it."""
        self.damaged.pop(group, None)
        stream = self.streams.pop(group, None)
        if stream is not None:
            stream.is_removed = True
            self._removing[group] = stream
            stream.waiting.clear()
            stream.in_batch.clear()
            stream.log.add_step(RemoveAll())
            self.write(stream)

    def _add(self, group: int, log: StreamLog) -> StoredStream:
        number = group % len(self._workers)
        worker = self._workers[number]
        files = StreamFiles(self._path(group), self._disk, self._written_files[number])
        stream = self.streams[group] = StoredStream(group, log, files, worker)
        removing = self._removing.get(group)
        if removing is not None:
            stream.after, removing.successor = removing, stream
        return stream

    def _path(self, group: int) -> Path:
        return self._directory / str(group)

    def close(self) -> None:
        """Close all files. The threads have ended."""
        for files in self._written_files:
            files.close_all()

    # Writing

    def write(self, stream: StoredStream) -> None:
        """Write the gathered steps of a stream's log at the end of the turn."""
        if not self._changed:
            self.call_soon(self._end_turn)
        self._changed[id(stream)] = stream

    def when_written(self, stream: StoredStream, callback: Callback) -> None:
        """Call back when all that a stream's log has gathered so far is on disk."""
        stream.waiting.append(callback)
        self.write(stream)

    def _end_turn(self) -> None:
        changed, self._changed = self._changed, {}
        for stream in changed.values():
            if not stream.is_writing and stream.after is None:
                self._begin_batch(stream)

    def _begin_batch(self, stream: StoredStream) -> None:
        if not stream.log.has_steps and not stream.waiting:
            return
        stream.in_batch, stream.waiting = stream.waiting, []
        stream.is_writing = True
        self._submit(stream, stream.log.take_steps())

    def _submit(self, stream: StoredStream, steps: list[Step]) -> None:
        stream.worker.submit(
            lambda: stream.files.carry_out(steps),
            lambda _, error: self._carried_out(stream, error),
        )

    def _carried_out(self, stream: StoredStream, error: Exception | None) -> None:
        if isinstance(error, DiskFull):
            self._retry_later(stream, error)
            return
        if error is not None:
            self._fail(stream, error)
            return
        self._has_room(stream)
        stream.is_writing = False
        stream.log.written()
        callbacks, stream.in_batch = stream.in_batch, []
        call_each(callbacks)
        if stream.log.has_steps or stream.waiting:
            self.write(stream)
        elif stream.is_removed:
            self._is_gone(stream)

    def _retry_later(self, stream: StoredStream, error: DiskFull) -> None:
        is_first, delay_s = not self._without_room, RETRY_SECONDS
        self._without_room.add(stream)
        if is_first:
            logger.critical(
                "%s cannot be written; publishers are held back until there is room: %s",
                self.name_of(stream.group), error,
            )  # fmt: skip
            call(partial(self.disk_filled, True))
            delay_s = 0.0  # Another program may take the space that was given up for this.
        self._loop.call_later(delay_s, self._retry, stream)

    def _retry(self, stream: StoredStream) -> None:
        self._submit(stream, [RemoveAll()] if stream.is_removed else stream.log.steps_again())

    def _has_room(self, stream: StoredStream) -> None:
        if stream in self._without_room:
            self._without_room.remove(stream)
            if not self._without_room:
                logger.warning("the disk has room again: all streams are written")
                call(partial(self.disk_filled, False))

    def _fail(self, stream: StoredStream, error: Exception) -> None:
        """Report it. The batch stays with the thread: nothing in it is ever reported as written."""
        logger.critical(
            "%s cannot be written: %s; unconfirmed messages stay unconfirmed, and the node stops; "
            "repair the disk of the data directory, then start the node",
            self.name_of(stream.group), error,
        )  # fmt: skip
        self.failed(error)

    def _is_gone(self, stream: StoredStream) -> None:
        """The files of a removed stream are gone: a later one with its number begins."""
        if self._removing.get(stream.group) is stream:
            del self._removing[stream.group]
        successor = stream.successor
        if successor is not None:
            successor.after = None
            self.write(successor)
