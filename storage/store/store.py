"""The store of a node: the tiered queues, and the files and threads that store their messages.

    DIR/log/0000000001.log              the write-ahead log (log.py)
    DIR/queues/KEY/0000000000.segment   segments of durable queues (segments.py)
    DIR/bodies/0000000001.bodies        the message store (message_store.py)
    DIR/transient/KEY/...               segments of queues that are not durable; removed at a start
    DIR/quorum/...                      snapshots of replicated quorum queues (group_store.py)
    DIR/streams/...                     streams (stream_group_store.py)

A queue's key is its storage id times 256, plus its priority level. The life of a store: `open`
reads the log; `queue` restores the declared queues one by one; `all_restored` ends that and starts
the background task; `close` writes waiting records and stops.

The store connects these modules and decides nothing itself: the log writes, the pager moves
messages to segments, `Retirement` removes log files, `Removal` removes segments, the sweeper frees
large bodies, `Reclaiming` has them do so on an idle node, `Pressure` decides when publishers have
to wait.

Invariants of all these modules together:

ST1  A persistent message on a durable queue that is not gone is in the log, or in a synced segment
     that a STATE in the log counts. It may also be in memory.
ST2  A message is in a segment only when the log has it on disk, or it is not persistent (QL1).
ST3  A publisher is confirmed by the log alone, after the sync of the batch with its messages and of
     the metadata that declare their queues (LG2).
ST4  Removing takes two steps: the record that makes a file unneeded is synced, then the file is
     removed.
     Log files: LG5. Segments and directories of queues: RM1, RM2. Bodies: W1.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from leveret.storage.bodies.message_store import MessageStore
from leveret.storage.disk.disk import Disk
from leveret.storage.disk.file_reads import FileReads
from leveret.storage.disk.reserve import Reserve
from leveret.storage.disk.unsynced_files import UnsyncedFiles
from leveret.storage.disk.worker import Worker
from leveret.storage.group_log.group_store import QUORUM, GroupStore
from leveret.storage.log.large_records import LARGE_BODIES_BYTES
from leveret.storage.log.log import Log
from leveret.storage.log.log_files import FILE_BYTES_MAX, LogFiles
from leveret.storage.log.recovery import LogReader
from leveret.storage.log.retirement import Retirement
from leveret.storage.messages.addresses import Addresses
from leveret.storage.messages.formats import RunRecord
from leveret.storage.messages.message import Address, Entry, Header, Message
from leveret.storage.metadata.metadata import Metadata
from leveret.storage.queue.pager import Pager
from leveret.storage.queue.queue_keys import HEAD_IDS, LEVELS, TRANSIENT_IDS, storage_id_of
from leveret.storage.queue.queue_log import QueueLog
from leveret.storage.queue.queue_recovery import QueueRecovery
from leveret.storage.queue.segment_entries import header_of
from leveret.storage.queue.tiered_queue import TieredQueue
from leveret.storage.store.pressure import Pressure
from leveret.storage.store.reclaiming import Reclaiming
from leveret.storage.store.removal import Removal
from leveret.storage.store.restoring import Restorer
from leveret.storage.store.store_figures import StoreFigures, store_figures
from leveret.storage.store.sweeper import Sweeper
from leveret.storage.stream_groups.stream_group_store import STREAMS, StreamGroupStore

LOG, QUEUES, BODIES, TRANSIENT = "log", "queues", "bodies", "transient"
CHECK_SECONDS = 1.0
"""The interval at which all queues are counted again, since they do not report when they shrink."""
GROUP_LOOKS = 30
"""Groups give space back in every 30th interval, and in each one while the disk is short."""

logger = logging.getLogger("leveret.store")


class Store:
    """The messages of one node.

    log: its clients are registered before `open`. pressure: whether publishers are held back.
    failed: called with the error when the store has stopped; the node must stop.
    wall_offset_ms: added to the broker's clock to get the wall clock. embed_below: a body
    with fewer bytes is kept in segments. keeps_reserve: disk space is kept for a full disk. reads:
    of messages, for callers in the event loop. disk_reads, disk_writes: messages that were read
    from segments and written to them, those of deleted queues included. groups: of quorum queues.
    streams: their groups.
    """

    def __init__(
        self,
        directory: Path,
        metadata: Metadata,
        make_header: Callable[[bytes], Header],
        wall_offset_ms: int = 0,
        embed_below: int = 4096,
        disk: Disk | None = None,
        log_file_bytes: int = FILE_BYTES_MAX,
        keeps_reserve: bool = False,
    ) -> None:
        loop = asyncio.get_running_loop()
        self.disk = disk if disk is not None else Disk()
        self.make_header = make_header
        self.wall_offset_ms = wall_offset_ms
        self.embed_below = min(embed_below, LARGE_BODIES_BYTES)
        self.failed: Callable[[Exception], object] = lambda error: None
        self.disk_reads = self.disk_writes = 0
        self._directory = directory
        self._metadata = metadata
        self._addresses = Addresses()
        self._highest_id, self._next_transient = 0, TRANSIENT_IDS
        self.disk.make_synced_directory(directory)
        for name in (LOG, QUEUES, BODIES):
            self.disk.make_directory(directory / name)
        self.disk.write_in_place(directory / LOG)
        # Sync the names of these directories: files are synced only with their own directory.
        self.disk.sync_directory(directory)
        self._log_worker = Worker(loop, "leveret-log")
        self._page_worker = Worker(loop, "leveret-pager")
        self._log_files = LogFiles(directory / LOG, self.disk, log_file_bytes)
        self.log = Log(self._log_files, self.disk, self._log_worker, loop, self._sync_metadata)
        self.log.failed = self._fail
        self.log.file_filled = self._look_at_files
        self._read_worker = Worker(loop, "leveret-reader")
        self.reads = FileReads(self.disk, self._read_worker)
        self.bodies = MessageStore(directory / BODIES, self.disk, self.reads)
        self._unsynced = UnsyncedFiles(directory, self.disk)
        self.pager = Pager(self._unsynced, self._page_worker, self.log.sync, self._fail)
        recovery = QueueRecovery(self._messages_of)
        self.queue_log = QueueLog(self.log, self.pager, self._sync_segments, recovery)
        self.log.register(self.queue_log)
        self.groups = GroupStore(
            directory / QUORUM, self.log, self._log_files, self.disk, self.reads, self._page_worker
        )
        self.streams = StreamGroupStore(
            directory / STREAMS, self.log, self._log_files, self.disk, self.reads, self._page_worker
        )
        self.streams.streams.failed = self._fail
        reserve = Reserve(directory, self.disk) if keeps_reserve else None
        self.pressure = Pressure(
            self.log, self._log_files, self.pager, self.streams.streams, reserve
        )
        self._looks = 0
        self._restorer = Restorer(self, directory / QUEUES, recovery.found)
        self._retirement = Retirement(self.log, self._log_files, self.disk, self._page_worker)
        self._removal = Removal(self._unsynced, self._page_worker, self.log, metadata, loop)
        self._sweeper = Sweeper(
            self._unsynced, self.bodies, self.log, self.pager, self._page_worker
        )
        self.reclaiming = Reclaiming(
            self._log_files, self.bodies, self.pager, self._retirement, self._sweeper
        )
        self._has_work = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    # Starting

    def open(self, progress: Callable[[int, int], object] = lambda done, total: None) -> None:
        """Read the log. Raises StoreError. progress: as for `LogReader.read`."""
        reader = LogReader(self._directory / LOG, self.disk, self.log.clients)
        reader.read(progress)
        self._restorer.was_closed = reader.was_closed
        for problem in reader.problems:
            logger.error("%s", problem)
        for what in reader.torn:
            logger.warning("%s", what)
        # RV4: records that a killed process left may be readable here but not on disk.
        self._log_files.sync(reader.files)
        self._metadata.sync()
        self.disk.remove_tree(self._directory / TRANSIENT)
        for path in reader.stale:
            self.disk.remove(path)
        restored = self._restorer.keys()
        self._highest_id = max(map(storage_id_of, restored), default=0)
        self._log_files.begin(reader.files, reader.next_number)

    def figures(self) -> StoreFigures:
        """Counts and times of the store's operations since the node started."""
        messages = self.disk_reads, self.disk_writes
        return store_figures(self.disk.counts, messages, (self.bodies.reads, self.bodies.writes))

    @property
    def ready_count(self) -> int:
        """The ready messages of all queues, and of copies of queues that another node leads."""
        return sum(queue.ready_count for queue in self.pager.queues.values())

    @property
    def highest_storage_id(self) -> int:
        """The highest storage id of a durable queue that exists or has files or records; 0 if none
        has. New ids are the metadata's (MD1): files of a deleted queue may come back after a power
        cut, so files do not show which ids were used.
        """
        return self._highest_id

    def queue(
        self, storage_id: int, level: int, name: str, is_durable: bool, is_lazy: bool,
        knows_deliveries: bool = False, is_head: bool = False,
    ) -> TieredQueue:  # fmt: skip
        """A queue, or a level of one, with the messages that a restart found.

        knows_deliveries: as in `TieredQueue`. is_head: it is the head of a chain (`HEAD_IDS`).
        """
        if not is_durable:
            storage_id = self._next_transient
            self._next_transient += 1
        else:
            self._highest_id = max(self._highest_id, storage_id)
            storage_id += HEAD_IDS * is_head
        key = storage_id * LEVELS + level
        assert key not in self.pager.queues, f"the queue with key {key} exists already"
        directory = self._directory / (QUEUES if is_durable else TRANSIENT) / str(key)
        queue = TieredQueue(self, key, directory, name, is_durable, is_lazy, knows_deliveries)
        if is_durable:
            self._restorer.restore(queue)
        self.pager.queues[key] = queue
        return queue

    def levels_of(self, storage_id: int, priority_max: int) -> list[int]:
        """The priority levels of a queue that have files or log records from before a restart."""
        first = storage_id * LEVELS
        return [
            level
            for level in range(priority_max + 1)
            if self._restorer.has_found(first + level) or self.has_head(storage_id, level)
        ]

    def has_head(self, storage_id: int, level: int) -> bool:
        """Whether a restart found the head of a chain (`HEAD_IDS`)."""
        return self._restorer.has_found((storage_id + HEAD_IDS) * LEVELS + level)

    def all_restored(self, keeps_unclaimed: bool = False) -> None:
        """Start the background task, after all declared queues are restored.

        Files and records of all other queues belong to deleted queues. They are removed, unless
        they are kept because declarations were lost.
        """
        if not keeps_unclaimed:
            self._restorer.remove_rest()
        self._restorer.sync()
        self.pager.start()
        self.reclaiming.start(keeps_unclaimed)
        self._task = asyncio.get_running_loop().create_task(self._run())
        self._look_at_files()

    def _messages_of(self, run: RunRecord, bodies: list[bytes]) -> list[Message]:
        address, header = self.address(run.address), header_of(run, self.make_header)
        if not run.number:
            return [Message(address, header, body) for body in bodies]
        return [
            Message(address, header, body, None, number)
            for number, body in enumerate(bodies, run.number)
        ]

    # What queues need

    def address(self, encoded: bytes) -> Address:
        """The address with these bytes."""
        return self._addresses.find(encoded)

    def expires_at_ms(self, expires_wall_ms: int) -> int:
        """A time of the wall clock as one of the broker's clock; 0 stays 0."""
        return expires_wall_ms and max(1, expires_wall_ms - self.wall_offset_ms)

    def localize(self, entries: list[Entry]) -> None:
        """Convert the expiry of entries that a restart found from wall clock to broker's clock."""
        for entry in entries:
            entry.expires_at_ms = self.expires_at_ms(entry.expires_at_ms)

    def note_memory(self, queue: TieredQueue) -> None:
        """Note that the queue may have grown."""
        self.pager.note(queue)

    def note_shrunk(self, queue: TieredQueue) -> None:
        """Note that messages of a queue with segments have gone."""
        self.reclaiming.note(queue)

    def set_disk_short(self, is_short: bool) -> None:
        """Note that the disk alarm is in force, or is over."""
        self.reclaiming.is_disk_short = is_short

    def remove_segments(
        self, paths: list[Path], is_logged: bool, removed: Callable[[], object]
    ) -> None:
        """Remove segments in which no position is needed."""
        self._removal.remove_segments(paths, is_logged, removed)

    def forget(self, queue: TieredQueue) -> None:
        """Forget a deleted queue."""
        self.pager.forget(queue)
        if queue.has_segments:
            self.bodies.garbage_bytes += queue.delta.size
            self._removal.remove_directory(queue.writer.directory)

    # For the log

    def _sync_metadata(self) -> None:
        """Sync declarations before messages of their queues are confirmed. In the log's thread."""
        metadata = self._metadata
        if metadata.changes != metadata.synced_changes:
            metadata.sync()
            self.disk.passed("metadata.synced")

    async def _sync_segments(self) -> None:
        """Sync every segment and file of bodies that was written to since the last call."""
        await self._page_worker.run(self._unsynced.sync)
        self.disk.passed("segment.synced")

    # In the background

    def _look_at_files(self) -> None:
        self._has_work.set()
        self.pressure.look()

    async def _run(self) -> None:
        """Retire log files, sweep bodies and give disk space back when it is due."""
        loop = asyncio.get_running_loop()
        looks_at = loop.time() + CHECK_SECONDS
        try:
            await self.pressure.take_reserve(self._page_worker)
            while True:
                with suppress(TimeoutError):
                    async with asyncio.timeout_at(looks_at):
                        await self._has_work.wait()
                self._has_work.clear()
                if loop.time() >= looks_at:
                    await self._look()
                    looks_at = loop.time() + CHECK_SECONDS
                while self._retirement.is_due and await self._retirement.retire_oldest():
                    self.pressure.look()
                await self._sweeper.sweep_if_wanted()
        except asyncio.CancelledError:
            raise
        except Exception as error:
            self._fail(error)

    async def _look(self) -> None:
        """Do the checks that are due every `CHECK_SECONDS`."""
        await self.pager.note_all()
        await self.pressure.take_reserve(self._page_worker)
        self.reclaiming.look()
        await self.reclaiming.run()
        self._looks += 1
        if self.reclaiming.is_disk_short or self._looks % GROUP_LOOKS == 0:
            await self.groups.free_space()
        self.pressure.look()

    def _fail(self, error: Exception) -> None:
        logger.critical("the store has stopped: %s", error)
        self.failed(error)

    # Stopping

    async def close(self) -> None:
        """Write the records that wait, and stop."""
        # Cancel both tasks at once: a slice that one has planned must not be planned again.
        tasks = [task for task in (self._task, self.pager.task) if task is not None]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        for queue in self.pager.queues.values():
            queue.end_purges()
        await self.log.close()
        self._log_worker.stop()
        self.streams.stop_writing()
        self._page_worker.stop()
        self._read_worker.stop()
        self._unsynced.close()
        for queue in self.pager.queues.values():
            queue.delta.close()
        self.groups.close_files()
        self.bodies.close_files()
