"""The pager: keeps the messages of a node within its memory, without ever stalling it.

Queues report as they grow. When together they hold more than the budget, each gets a target
(paging.py), and what is above it goes to disk, a slice at a time: written by a worker's thread
where it is not on disk already, then dropped from memory. Between slices everybody else has a
turn. A lazy queue has a target of 0 at any time.

The same slices move messages out of a log file that is to go (`move_out`). Slices are written one
after the other, so that a message's place in its segment is known before it is written.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from time import monotonic

from storage.disk import Disk, DiskFull
from storage.paging import Figures, targets
from storage.parts import Part, write_parts
from storage.tiers import EVERYTHING, Slice, Tiers
from storage.worker import Worker

SLICE_BYTES = 1024 * 1024
"""Planned in a millisecond or so."""
OVERFULL, NO_LONGER_OVERFULL = 1.1, 1.02
"""Publishers are held back while messages take so much more than the budget: they are faster than
the disk."""
LAZY_BYTES, LAZY_BYTES_HIGH = 64 * 1024, 8 * 1024 * 1024
"""What a lazy queue may have in memory for a moment, and where its publishers have to wait."""
PAGEABLE_SHARE = 10
"""However much unacked messages take, a tenth of the budget is for the others."""
TARGETS_SECONDS = 0.1
RATES_SECONDS = 2.0
RETRY_SECONDS = 0.5

logger = logging.getLogger("leveret.store")


class Pager:
    """Keeps queues within the budget. All methods are for the event loop's thread.

    budget_bytes: what all messages in memory may take. held_bytes: what those take that could be on
    disk only, as last reported. unpageable_bytes: what unacked ones take.
    """

    def __init__(
        self,
        disk: Disk,
        worker: Worker,
        sync_log: Callable[[], Awaitable[None]],
        failed: Callable[[Exception], object],
    ) -> None:
        self._disk = disk
        self._worker = worker
        self._sync_log = sync_log
        self._failed = failed
        self.queues: dict[int, Tiers] = {}
        self.budget_bytes = EVERYTHING
        self.held_bytes = self.unpageable_bytes = 0
        self.unsynced: set[Path] = set()
        self.is_overfull = False
        self._is_stuck = False
        self.overfull_changed: Callable[[], object] = lambda: None
        self.disk_filled: Callable[[bool], object] = lambda is_full: None
        self.lock = asyncio.Lock()
        self._wanted = asyncio.Event()
        self._lazy: set[Tiers] = set()
        self._behind: set[Tiers] = set()
        self._rates: dict[int, tuple[int, float]] = {}
        self._rates_at = 0.0
        self.task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to watch, and to page out what a restart brought back into lazy queues."""
        for queue in tuple(self.queues.values()):
            self.note(queue)
        self.task = asyncio.get_running_loop().create_task(self._run())

    # Watching

    @property
    def memory_bytes(self) -> int:
        """What all messages in memory take."""
        return self.held_bytes + self.unpageable_bytes

    @property
    def allowed_bytes(self) -> int:
        """What messages that could be on disk only may take."""
        return max(self.budget_bytes // PAGEABLE_SHARE, self.budget_bytes - self.unpageable_bytes)

    def note(self, queue: Tiers) -> None:
        """A queue may have grown."""
        held = queue.pageable_bytes
        self.held_bytes += held - queue.noted_bytes
        queue.noted_bytes = held
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

    def note_all(self) -> None:
        """Look at all queues: they do not report that they shrink."""
        self._is_stuck = False
        self._count_all()
        if self.held_bytes > self.allowed_bytes:
            self._wanted.set()
        else:
            self._forget_targets()

    def _count_all(self) -> None:
        in_memory = 0
        for queue in self.queues.values():
            in_memory += queue.memory_bytes
            queue.noted_bytes = queue.pageable_bytes
        self.held_bytes = sum(queue.noted_bytes for queue in self.queues.values())
        self.unpageable_bytes = in_memory - self.held_bytes
        self._watch_fullness()

    def set_budget(self, budget_bytes: int) -> None:
        """What messages in memory may take from now on."""
        self.budget_bytes = budget_bytes
        self._watch_fullness()
        if self.held_bytes > self.allowed_bytes:
            self._wanted.set()

    def _forget_targets(self) -> None:
        for queue in self.queues.values():
            queue.target_bytes = EVERYTHING

    async def _run(self) -> None:
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            try:
                await self._page_lazy()
                while self.held_bytes > self.allowed_bytes and await self._page_all():
                    await asyncio.sleep(0)
                # If nothing can be done about it, publishers need not wait for it.
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
            # If it could not be brought down, publishers need not wait for that.
            self._behind.discard(queue)
            self._watch_fullness()

    def forget(self, queue: Tiers) -> None:
        """The queue is deleted."""
        self.queues.pop(queue.key, None)
        self._lazy.discard(queue)
        self._behind.discard(queue)
        self.held_bytes -= queue.noted_bytes
        self._watch_fullness()

    async def _page_all(self) -> bool:
        """Bring every queue to its target; whether there was anything to do."""
        self._count_all()
        queues = [queue for queue in self.queues.values() if queue.pageable_bytes > LAZY_BYTES]
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
        started_at = monotonic()
        for queue, target in sorted(
            zip(queues, found, strict=True), key=lambda pair: pair[1] - pair[0].pageable_bytes
        ):
            queue.target_bytes = target
            if queue.pageable_bytes > target:
                has_paged |= await self._page(queue, target)
            if monotonic() - started_at > TARGETS_SECONDS:
                break
        return has_paged

    def _measure_rates(self, queues: list[Tiers]) -> None:
        """How many bytes a second each queue is delivered from, by how far it has come."""
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

    async def _page(self, queue: Tiers, target_bytes: int) -> bool:
        """Have a queue drop messages from memory until it is at its target; whether it could."""
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

    async def _write_slice_of(self, queue: Tiers) -> bool:
        async with self.lock:
            written = queue.plan_slice(SLICE_BYTES, EVERYTHING)
            if written is None and queue.waits_for_log:
                await self._sync_log()
                written = queue.plan_slice(SLICE_BYTES, EVERYTHING)
            if written is None:
                return False
            await self._write([(queue, written)])
            return True

    async def move_out(self, wanted: list[tuple[Tiers, int]]) -> None:
        """Have in segments what each queue has below a position. Messages stay in memory."""
        waiting = list(reversed(wanted))
        while waiting:
            async with self.lock:
                slices, size = [], 0
                while waiting and size < SLICE_BYTES:
                    queue, end = waiting[-1]
                    written = queue.plan_slice(SLICE_BYTES - size, end)
                    if written is None:
                        waiting.pop()
                        continue
                    slices.append((queue, written))
                    size += written.size + 1
                    if written.end < end:
                        break
                    waiting.pop()
                if slices:
                    await self._write(slices)
            await asyncio.sleep(0)

    async def _write(self, slices: list[tuple[Tiers, Slice]]) -> None:
        parts = [part for _, written in slices for part in written.parts]
        await self.until_there_is_room(lambda: self._write_parts(parts))
        self.unsynced.update(part.path for part in parts)
        for queue, written in slices:
            if not queue.is_deleted:
                queue.slice_written(written)

    def _write_parts(self, parts: list[Part]) -> Awaitable[None]:
        return self._worker.run(lambda: write_parts(self._disk, parts))

    async def until_there_is_room(self, attempt: Callable[[], Awaitable[None]]) -> None:
        """Do something that writes, again and again while the disk is full."""
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
