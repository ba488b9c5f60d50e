"""The store of a node: its log, its message store, its pager, and the tiered queues.

    DIR/log/0000000001.log              the write-ahead log (log.py)
    DIR/queues/KEY/0000000000.segment   segments of durable queues (segments.py)
    DIR/bodies/0000000001.bodies        the message store (message_store.py)
    DIR/transient/KEY/...               segments of queues that do not survive, emptied at a start

A queue's key is its storage id times 256, plus its priority level. A store is opened, gives back
the queues one by one as they are asked for, and is told when there are no more.

A full log file is retired when it is not one of the newest: what is left of its messages goes to
segments, what it says of queues is said again at the log's end, and it is removed.
"""

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from pathlib import Path

from storage.disk import Disk
from storage.formats import Run, encode_oldest
from storage.log import FILE_BYTES_MAX, Log
from storage.message import Address, Entry, Header, Message
from storage.message_store import MessageStore
from storage.metadata import Metadata
from storage.pager import Pager
from storage.recovery import LogReader
from storage.restoring import Restorer
from storage.sweeper import Sweeper
from storage.tiered_queue import TieredQueue
from storage.tiers import Tiers
from storage.worker import Worker

LOG, QUEUES, BODIES, TRANSIENT = "log", "queues", "bodies", "transient"
LEVELS = 256
TRANSIENT_IDS = 1 << 48
"""Storage ids from here on are of queues that are not durable."""
FILES_KEPT = 3
"""Log files that are not retired: what is consumed meanwhile is written once."""
FILES_HIGH = 10
"""Publishers are held back when so many log files wait to be retired."""
ADDRESSES_MAX = 4096
CHECK_SECONDS = 1.0

logger = logging.getLogger("leveret.store")


class Store:
    """The messages of one node.

    is_congested: publishers should be held back until it is over; see `congestion_changed`.
    disk_filled: called with True when the disk is full, with False when there is room again.
    failed: called with the error when the store cannot go on; the node has to stop.
    disk_reads, disk_writes: messages of all queues, those that are deleted included.
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
    ) -> None:
        loop = asyncio.get_running_loop()
        self.disk = disk if disk is not None else Disk()
        self.make_header = make_header
        self.wall_offset_ms = wall_offset_ms
        self.embed_below = embed_below
        self.is_congested = False
        self.congestion_changed: Callable[[], object] = lambda: None
        self.disk_filled: Callable[[bool], object] = lambda is_full: None
        self.failed: Callable[[Exception], object] = lambda error: None
        self.disk_reads = self.disk_writes = 0
        self._directory = directory
        self._metadata = metadata
        self._metadata_changes = -1
        self._doomed: list[Path] = []
        self._addresses: dict[bytes, Address] = {}
        self._next_durable, self._next_transient = 1, TRANSIENT_IDS
        for name in (LOG, QUEUES, BODIES):
            self.disk.make_directory(directory / name)
        self._log_worker = Worker(loop, "leveret-log")
        self._page_worker = Worker(loop, "leveret-pager")
        self.log = Log(
            directory / LOG, self.disk, self._log_worker, loop, self._sync_metadata, log_file_bytes
        )
        self.bodies = MessageStore(directory / BODIES, self.disk)
        self.pager = Pager(self.disk, self._page_worker, self.log.sync, self._fail)
        self._sweeper = Sweeper(self.disk, self.bodies, self.log, self.pager, self._page_worker)
        self._restorer = Restorer(self, directory / QUEUES)
        self._full = {"log": False, "pager": False}
        self.log.file_filled = self._work_to_do
        self.log.congestion_changed = self._congestion_may_have_changed
        self.pager.overfull_changed = self._congestion_may_have_changed
        self.log.disk_filled = partial(self._disk_filled, "log")
        self.pager.disk_filled = partial(self._disk_filled, "pager")
        self.log.failed = self._fail
        self._wanted = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    # Starting

    def open(self) -> None:
        """Read what there is. Raises StoreError."""
        self.disk.remove_tree(self._directory / TRANSIENT)
        reader = LogReader(self._directory / LOG, self.disk, self._messages_of)
        reader.read()
        for problem in reader.problems:
            logger.error("%s", problem)
        for path in reader.stale:
            self.disk.remove(path)
        self._restorer.found = reader.queues
        self._next_durable = max(self._restorer.keys(), default=0) // LEVELS + 1
        self.log.begin(reader.files, reader.next_number)

    def new_storage_id(self) -> int:
        """A number for a durable queue that nothing on disk belongs to."""
        self._next_durable += 1
        return self._next_durable - 1

    def queue(
        self, storage_id: int, level: int, name: str, is_durable: bool, is_lazy: bool
    ) -> TieredQueue:
        """A queue, or a priority level of one, with what a restart found of it."""
        if not is_durable:
            storage_id = self._next_transient
            self._next_transient += 1
        else:
            self._next_durable = max(self._next_durable, storage_id + 1)
        key = storage_id * LEVELS + level
        directory = self._directory / (QUEUES if is_durable else TRANSIENT) / str(key)
        queue = TieredQueue(self, key, directory, name, is_durable, is_lazy)
        if is_durable:
            self._restorer.restore(queue)
        self.pager.queues[key] = queue
        return queue

    def levels_of(self, storage_id: int, priority_max: int) -> list[int]:
        """The priority levels of which a restart found something."""
        first = storage_id * LEVELS
        return [
            level for level in range(priority_max + 1) if self._restorer.has_found(first + level)
        ]

    def all_restored(self, keeps_unclaimed: bool = False) -> None:
        """What no queue has asked for belongs to queues that are deleted; go to work."""
        if not keeps_unclaimed:
            self._restorer.remove_rest()
        self.pager.note_all()
        self.pager.start()
        self._task = asyncio.get_running_loop().create_task(self._run())
        self._work_to_do()

    def _messages_of(self, run: Run, bodies: list[bytes]) -> list[Message]:
        address, header = self.address(run.address), self.make_header(run.header)
        if not run.number:
            return [Message(address, header, body) for body in bodies]
        return [
            Message(address, header, body, None, number)
            for number, body in enumerate(bodies, run.number)
        ]

    # What queues need

    def address(self, encoded: bytes) -> Address:
        """The address with these bytes; one object for all that have it."""
        address = self._addresses.get(encoded)
        if address is None:
            key_at = 1 + encoded[0]
            exchange, routing_key = encoded[1:key_at], encoded[key_at + 1 :]
            address = Address(
                exchange.decode("utf-8", "surrogateescape"),
                routing_key.decode("utf-8", "surrogateescape"),
                encoded,
            )
            if len(self._addresses) >= ADDRESSES_MAX:
                self._addresses.clear()
            self._addresses[encoded] = address
        return address

    def expires_at_ms(self, expires_wall_ms: int) -> int:
        """A time of day on the broker's clock; 0 stays 0."""
        return expires_wall_ms and max(1, expires_wall_ms - self.wall_offset_ms)

    def localize(self, entries: list[Entry]) -> None:
        """Entries of a restart have times of day; give them times of the broker's clock."""
        for entry in entries:
            entry.expires_at_ms = self.expires_at_ms(entry.expires_at_ms)

    def note_memory(self, queue: Tiers) -> None:
        """The queue may have grown."""
        self.pager.note(queue)

    def segments_unneeded(self, queue: Tiers, paths: list[Path]) -> None:
        """Segments may be removed, once the log has on disk why."""

        def removed(_: object, error: Exception | None) -> None:
            queue.removals -= 1
            if error is not None:
                logger.error("%s", error)

        def remove() -> None:
            self._page_worker.submit(lambda: self._remove_segments(paths), removed)

        if queue.is_durable:
            self.log.after_sync(remove)
        else:
            remove()

    def _remove_segments(self, paths: list[Path]) -> None:
        for path in paths:
            self.disk.remove(path)
            self.disk.passed("segment.removed")
        directory = paths[0].parent
        if directory.exists():
            self.disk.sync_directory(directory)

    def forget(self, queue: Tiers) -> None:
        """The queue is deleted."""
        self.pager.forget(queue)
        if not queue.writer.numbers and not queue.removals:
            return
        self.bodies.garbage_bytes += queue.delta.size
        if not self._doomed:
            asyncio.get_running_loop().call_soon(self._remove_queues)
        self._doomed.append(queue.writer.directory)

    def _remove_queues(self) -> None:
        """Remove what deleted queues had on disk, behind the last slice that was to be written."""
        doomed, self._doomed = self._doomed, []

        def remove() -> None:
            # Else a power cut could bring the queues back, and their messages would be missing.
            self._metadata.sync()
            for directory in doomed:
                self.disk.remove_tree(directory)

        self._page_worker.submit(remove, self._report)

    @staticmethod
    def _report(_: object, error: Exception | None) -> None:
        if error is not None:
            logger.error("%s", error)

    def _sync_metadata(self) -> None:
        """In the log's thread: a confirmed message must not lose the queue it is in."""
        changes = self._metadata.changes
        if changes != self._metadata_changes:
            self._metadata.sync()
            self._metadata_changes = changes
            self.disk.passed("metadata.synced")

    # Retiring log files

    def _work_to_do(self) -> None:
        self._wanted.set()
        self._congestion_may_have_changed()

    async def _run(self) -> None:
        while True:
            try:
                async with asyncio.timeout(CHECK_SECONDS):
                    await self._wanted.wait()
            except TimeoutError:
                self.pager.note_all()
            self._wanted.clear()
            try:
                while len(self.log.files) > FILES_KEPT:
                    await self._retire_oldest()
                await self._sweeper.sweep_if_wanted()
            except asyncio.CancelledError:
                raise
            except Exception as error:
                self._fail(error)
                return

    async def _retire_oldest(self) -> None:
        file = self.log.files[0]
        queues = self.pager.queues
        wanted = [(queues[key], end) for key, end in file.published.items() if key in queues]
        await self.pager.move_out(wanted)
        await self._sync_segments()
        async with self.pager.lock:
            # What was written meanwhile: a state must not speak of what is not on disk.
            await self._sync_segments()
            for key in file.touched:
                queue = queues.get(key)
                record = queue.encode_state() if queue is not None else None
                if record is not None:
                    self.log.append_record(key, record)
            self.log.append_record(0, encode_oldest(file.number + 1))
        self.disk.passed("log.retiring")
        await self.log.sync()
        self.log.forget_oldest()
        await self._page_worker.run(lambda: self.log.remove(file))
        self._congestion_may_have_changed()

    async def _sync_segments(self) -> None:
        paths, self.pager.unsynced = self.pager.unsynced, set()
        if paths:
            await self._page_worker.run(lambda: self.disk.sync_paths(self._directory, paths))
        self.disk.passed("segment.synced")

    # Trouble

    def _congestion_may_have_changed(self) -> None:
        is_congested = (
            self.log.is_congested or self.pager.is_overfull or len(self.log.files) > FILES_HIGH
        )
        if is_congested != self.is_congested:
            self.is_congested = is_congested
            self.congestion_changed()

    def _disk_filled(self, who: str, is_full: bool) -> None:
        before = any(self._full.values())
        self._full[who] = is_full
        if any(self._full.values()) != before:
            self.disk_filled(not before)

    def _fail(self, error: Exception) -> None:
        logger.critical("the store cannot go on: %s", error)
        self.failed(error)

    # Stopping

    async def close(self) -> None:
        """Write what is left, and stop."""
        # Both at once: a slice that one of them has planned must not be planned again.
        tasks = [task for task in (self._task, self.pager.task) if task is not None]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        await self.log.close()
        self._log_worker.stop()
        self._page_worker.stop()
        for queue in self.pager.queues.values():
            queue.delta.close()
