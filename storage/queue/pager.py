"""The pager: keeps the messages of a node within its memory budget without blocking the event loop.

Queues report when they grow. When together they hold more than the budget, each gets a target
(paging.py). Messages above the target are paged out in slices: a worker's thread writes the ones
that are not on disk yet, then they are dropped from memory. The event loop runs between slices. The
target of a lazy queue is always 0.

The same slices move messages out of a log file that is to be removed (`move_out`). Slices are
written one after the other, so that a message's place in its segment is known before it is written.

**Promises.** A turn of the loop plans at most one slice of SLICE_BYTES, and does not wait for the
disk.
**Not promised.** The budget is exceeded while the disk is slower than publishers, which are then
held back (`is_overfull`), and by unacked messages, which cannot be paged out.

Invariants:

PG1  One slice is planned and written at a time, under `lock`; so slices of a queue are written in
     the order of their positions (SL1).
PG2  A message is dropped from memory only after the write of its slice has returned.
PG4  After a failed write of a slice no slice is planned: the next one would count unwritten
     messages as written (SL2).

PG3 is in memory_counts.py.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from time import monotonic

from leveret.storage.bodies.planned_writes import write_planned
from leveret.storage.contract.paging import NO_TARGET, Figures, targets
from leveret.storage.disk.disk import DiskFull, StoreError
from leveret.storage.disk.unsynced_files import UnsyncedFiles
from leveret.storage.disk.worker import Worker
from leveret.storage.messages.formats import SEGMENT_MAGIC
from leveret.storage.messages.intervals import NO_POSITION
from leveret.storage.queue.memory_counts import MemoryCounts
from leveret.storage.queue.segment_slices import Slice
from leveret.storage.queue.tiered_queue import TieredQueue

SLICE_BYTES = 1024 * 1024
"""The bytes of a slice. Planning it takes about a millisecond."""
ROOM_BYTES = 2 * SLICE_BYTES
"""The free space a full disk must have for a slice: operations that free space need some, too."""
OVERFULL, NO_LONGER_OVERFULL = 1.1, 1.02
"""Publishers are held back when messages take more than the first multiple of the budget, until
they take less than the second: publishers are faster than the disk."""
LAZY_BYTES, LAZY_BYTES_HIGH = 64 * 1024, 8 * 1024 * 1024
"""The bytes that a lazy queue may have in memory; above the second, publishers are held back."""
PAGEABLE_SHARE = 10
"""A tenth of the budget is kept for messages that are not unacked, however many are unacked."""
TARGETS_SECONDS = 0.1
RATES_SECONDS = 2.0
RETRY_SECONDS = 0.5

logger = logging.getLogger("leveret.store")


class Pager:
    """Keeps queues within the budget. All methods are for the event loop's thread.

    budget_bytes: for all messages in memory. is_disk_full: nothing is paged out, as the space left
    is for operations that free space.
    """

    def __init__(
        self,
        files: UnsyncedFiles,
        worker: Worker,
        sync_log: Callable[[], Awaitable[None]],
        failed: Callable[[Exception], object],
    ) -> None:
        self._files = files
        self._worker = worker
        self._sync_log = sync_log
        self._failed = failed
        self._counts = MemoryCounts()
        self.queues = self._counts.queues
        self.budget_bytes = NO_TARGET
        self.is_overfull = False
        self.is_disk_full = False
        self._is_stuck = False
        self._has_failed = False
        self.overfull_changed: Callable[[], object] = lambda: None
        self.disk_filled: Callable[[bool], object] = lambda is_full: None
        self.lock = asyncio.Lock()
        self._wanted = asyncio.Event()
        self._lazy: set[TieredQueue] = set()
        self._behind: set[TieredQueue] = set()
        self._with_target: list[TieredQueue] = []
        self._rates: dict[int, tuple[int, float]] = {}
        self._rates_at = 0.0
        self.task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start paging; messages that a restart read into lazy queues are paged out first."""
        for queue in tuple(self.queues.values()):
            self.note(queue)
        self.task = asyncio.get_running_loop().create_task(self._run())

    # Watching

    @property
    def held_bytes(self) -> int:
        """The bytes of messages that could be on disk only, as last counted."""
        return self._counts.held_bytes

    @property
    def memory_bytes(self) -> int:
        """The bytes of memory that all messages take, as last counted."""
        return self._counts.held_bytes + self._counts.unpageable_bytes

    @property
    def allowed_bytes(self) -> int:
        """The limit in bytes for messages that could be on disk only."""
        budget = self.budget_bytes
        return max(budget // PAGEABLE_SHARE, budget - self._counts.unpageable_bytes)

    def note(self, queue: TieredQueue) -> None:
        """Count a queue that may have grown."""
        held = self._counts.note(queue)
        if queue.is_lazy:
            self._lazy.add(queue)
            self._wanted.set()
            if held > LAZY_BYTES_HIGH:
                self._behind.add(queue)
            else:
                self._behind.discard(queue)
        elif self.held_bytes > self.allowed_bytes:
            self._wanted.set()
        self._watch_fullness()

    def _watch_fullness(self) -> None:
        share = NO_LONGER_OVERFULL if self.is_overfull else OVERFULL
        is_overfull = self.held_bytes > self.allowed_bytes * share and not self._is_stuck
        is_overfull |= bool(self._behind)
        if is_overfull != self.is_overfull:
            self.is_overfull = is_overfull
            self.overfull_changed()

    async def note_all(self) -> None:
        """Count all queues again, since they do not report that they have shrunk."""
        self._is_stuck = False
        await self._count_all()
        if self.held_bytes > self.allowed_bytes:
            self._wanted.set()
        else:
            self._forget_targets()

    async def _count_all(self) -> None:
        await self._counts.count_all()
        self._watch_fullness()

    def set_budget(self, budget_bytes: int) -> None:
        """Change the memory budget of messages, in bytes."""
        self.budget_bytes = budget_bytes
        self._watch_fullness()
        if self.held_bytes > self.allowed_bytes:
            self._wanted.set()

    def _forget_targets(self) -> None:
        for queue in self._with_target:
            queue.target_bytes = NO_TARGET
        self._with_target = []

    async def _run(self) -> None:
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            try:
                await self._page_lazy()
                while self.held_bytes > self.allowed_bytes and await self._page_all():
                    await asyncio.sleep(0)
                # If nothing can be paged out, publishers need not wait.
                self._is_stuck = self.held_bytes > self.allowed_bytes
                self._watch_fullness()
            except asyncio.CancelledError:
                raise
            except Exception as error:
                self._failed(error)
                return

    async def _page_lazy(self) -> None:
        lazy, self._lazy = self._lazy, set()
        for queue in lazy:
            if queue.is_lazy and not queue.is_deleted:
                await self._page(queue, LAZY_BYTES)
            # If paging out did not help, publishers need not wait.
            self._behind.discard(queue)
            self._watch_fullness()

    def forget(self, queue: TieredQueue) -> None:
        """Forget a deleted queue."""
        self._counts.forget(queue)
        self._lazy.discard(queue)
        self._behind.discard(queue)
        self._watch_fullness()

    async def _page_all(self) -> bool:
        """Bring every queue to its target. Returns whether anything was paged out."""
        await self._count_all()
        queues = [queue for queue in self.queues.values() if queue.noted_bytes > LAZY_BYTES]
        self._measure_rates(queues)
        small_bytes = self.held_bytes - sum(queue.pageable_bytes for queue in queues)
        figures = [
            Figures(queue.pageable_bytes, self._rates.get(queue.key, (0, 0.0))[1], queue.is_lazy)
            for queue in queues
        ]
        found = targets(figures, self.allowed_bytes - small_bytes)
        if found is None:
            return False
        has_paged = False
        self._forget_targets()
        started_at = monotonic()
        for queue, target in sorted(
            zip(queues, found, strict=True), key=lambda pair: pair[1] - pair[0].pageable_bytes
        ):
            queue.target_bytes = target
            self._with_target.append(queue)
            if queue.pageable_bytes > target:
                has_paged |= await self._page(queue, target)
            if monotonic() - started_at > TARGETS_SECONDS:
                break
        return has_paged

    def _measure_rates(self, queues: list[TieredQueue]) -> None:
        """Measure the bytes a second that each queue delivers, by its `fetched_to`."""
        now = monotonic()
        elapsed = now - self._rates_at
        if elapsed < RATES_SECONDS:
            return
        self._rates_at = now
        rates = {}
        for queue in queues:
            fetched_to = queue.ledger.fetched_to
            before = self._rates.get(queue.key, (fetched_to, 0.0))[0]
            average = queue.ready_bytes / max(1, queue.ready_count)
            rates[queue.key] = (fetched_to, (fetched_to - before) * average / elapsed)
        self._rates = rates

    async def _page(self, queue: TieredQueue, target_bytes: int) -> bool:
        """Drop a queue's messages from memory down to its target. Returns whether any were."""
        has_paged = False
        while queue.pageable_bytes > target_bytes and not queue.is_deleted:
            excess = min(SLICE_BYTES, queue.pageable_bytes - target_bytes)
            if queue.page_out(excess):
                has_paged = True
                self.note(queue)
            elif not await self._write_slice_of(queue):
                break
            await asyncio.sleep(0)
        return has_paged

    # Writing

    async def _write_slice_of(self, queue: TieredQueue) -> bool:
        async with self.lock:
            self._check_writing()
            if self.is_disk_full:
                return False
            written = queue.plan_slice(SLICE_BYTES, NO_POSITION)
            if written is None and queue.waits_for_log:
                await self._sync_log()
                written = queue.plan_slice(SLICE_BYTES, NO_POSITION)
            if written is None:
                return False
            await self._write([(queue, written)])
            return True

    async def move_out(self, wanted: list[tuple[TieredQueue, int]]) -> None:
        """Write each queue's messages below a position to segments. They stay in memory.

        Raises DiskFull if a full disk has no room for all of them: no slice is planned that would
        wait for room, since its messages may be consumed before there is any.
        """
        waiting = list(reversed(wanted))
        while waiting:
            async with self.lock:
                self._check_writing()
                slices, size, is_stuck = [], 0, False
                bytes_max = SLICE_BYTES if await self._has_room() else 0
                while waiting and size <= bytes_max and not is_stuck:
                    queue, end = waiting[-1]
                    written = queue.plan_slice(max(0, bytes_max - size), end)
                    if written is None:
                        waiting.pop()
                        continue
                    is_stuck = not bytes_max and written.end == queue.ledger.flushed_to
                    slices.append((queue, written))
                    size += written.size + 1
                    if written.end < end:
                        break
                    waiting.pop()
                if slices:
                    await self._write(slices)
            if is_stuck:
                raise DiskFull("messages of a log file wait for room on a full disk; make room")
            await asyncio.sleep(0)

    async def _has_room(self) -> bool:
        """Whether there seems to be room for a slice."""
        if not self.is_disk_full:
            return True
        return await self._worker.run(self._files.free_bytes) >= ROOM_BYTES

    def _check_writing(self) -> None:
        """PG4: raise StoreError if a slice that was planned is not written."""
        if self._has_failed:
            raise StoreError("messages cannot be paged out: an earlier write failed")

    async def _write(self, slices: list[tuple[TieredQueue, Slice]]) -> None:
        assert self.lock.locked(), "PG1"
        try:
            await self.until_there_is_room(lambda: self._write_planned(slices))
        except BaseException:
            self._has_failed = True
            raise
        for queue, written in slices:
            if not queue.is_deleted:
                queue.slice_written(written)

    def _write_planned(self, slices: list[tuple[TieredQueue, Slice]]) -> Awaitable[None]:
        """Write slices, but no segment of a queue that was deleted while there was no room: its
        directory is removed. Its bodies are written, since other queues may refer to them.
        """
        writes = [
            write
            for queue, written in slices
            for write in written.writes
            if not (queue.is_deleted and write.magic == SEGMENT_MAGIC)
        ]
        return self._worker.run(lambda: write_planned(self._files, writes))

    async def until_there_is_room(self, attempt: Callable[[], Awaitable[None]]) -> None:
        """Attempt a write, and repeat it every RETRY_SECONDS while the disk is full."""
        is_full = False
        while True:
            try:
                await attempt()
                break
            except DiskFull as error:
                if not is_full:
                    is_full = True
                    logger.critical("%s; publishers are held back until there is room", error)
                    self.disk_filled(True)
                await asyncio.sleep(RETRY_SECONDS)
        if is_full:
            logger.warning("there is room on the disk again: messages are paged out")
            self.disk_filled(False)
