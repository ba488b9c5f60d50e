"""The sweeper: finds the large bodies that are still needed and frees the space of all others.

Only segments refer to bodies. So the sweeper reads the segments of all queues, in a worker's
thread, and leaves out the positions that are gone.

Invariant W1: a body is freed only after the sync of the log that records its last position as gone.
Otherwise a restart could bring back a message without its body. So the set of gone positions is
copied first, then the log is synced, then bodies are freed.
"""

import logging
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from leveret.storage.bodies.message_store import GARBAGE_BYTES_MIN, GARBAGE_SHARE, MessageStore
from leveret.storage.disk.disk import Disk, StoreError
from leveret.storage.disk.unsynced_files import UnsyncedFiles
from leveret.storage.disk.worker import Worker
from leveret.storage.log.log import Log
from leveret.storage.messages.formats import (
    FILE_HEADER_BYTES,
    RUN,
    SEGMENT_MAGIC,
    STORED,
    FormatError,
    ScannedRecord,
    decode_file_header,
    decode_run,
    read_records,
)
from leveret.storage.messages.intervals import Intervals
from leveret.storage.queue.pager import Pager
from leveret.storage.queue.tiered_queue import TieredQueue

logger = logging.getLogger("leveret.store")


class Searched(NamedTuple):
    """Segments of a queue, and the positions in them that are gone, in several sets."""

    paths: list[Path]
    gone: list[Intervals]


class Sweeper:
    """Sweeps the message store when half of it is garbage.

    is_allowed: False while segments of queues that are not declared are kept for a repair: the
    bodies that they refer to would be freed.
    """

    def __init__(
        self,
        files: UnsyncedFiles,
        bodies: MessageStore,
        log: Log,
        pager: Pager,
        worker: Worker,
    ) -> None:
        self._files = files
        self._bodies = bodies
        self._log = log
        self._pager = pager
        self._worker = worker
        self.is_allowed = True

    async def sweep_if_wanted(
        self, bytes_min: int = GARBAGE_BYTES_MIN, share: float = GARBAGE_SHARE
    ) -> None:
        """Sweep if enough of the store is garbage, in bytes and as a share of it.

        Errors of the log are raised.
        """
        if self.is_allowed and self._bodies.wants_sweep(bytes_min, share):
            await self.sweep()

    async def sweep(self) -> None:
        """Free every body that no segment refers to. Ends early if a segment cannot be read."""
        # This records the positions that are gone.
        await self._log.sync()
        async with self._pager.lock:
            below = self._bodies.begin_sweep()
            searched = [
                Searched([queue.writer.path(number) for number in queue.writer.numbers], gone)
                for queue, gone in self._gone_of_all()
            ]
        await self._log.sync()
        assert self._log.failure is None, "W1: the removal of gone messages is on disk"
        try:
            needed = await self._worker.run(lambda: find_needed(self._files.disk, searched))
            kept = await self._worker.run(lambda: self._free(below, needed))
        except (StoreError, FormatError) as error:
            logger.error("the sweep of the message store ended without freeing anything: %s", error)
            return
        finally:
            self._bodies.close_files()
        logger.info("the message store was swept: %d bytes are still needed", kept)
        self._bodies.total_bytes = kept

    def _free(self, below: int, needed: dict[int, Intervals]) -> int:
        kept_bytes = self._bodies.sweep(below, needed)
        self._files.give_up_removed()
        return kept_bytes

    def _gone_of_all(self) -> Iterable[tuple[TieredQueue, list[Intervals]]]:
        for queue in self._pager.queues.values():
            if queue.writer.numbers:
                # Fresh positions may be recorded later than with the next sync.
                yield queue, queue.ledger.recorded()


def find_needed(disk: Disk, searched: Iterable[Searched]) -> dict[int, Intervals]:
    """For each file of the message store, by its number, the byte ranges that are referred to."""
    needed: dict[int, Intervals] = {}
    for paths, (gone, *others) in searched:
        for other in others:
            gone.update(other)
        for path in sorted(paths):
            if path.exists():
                _find_in_segment(disk, path, gone, needed)
    return needed


def _find_in_segment(disk: Disk, path: Path, gone: Intervals, needed: dict[int, Intervals]) -> None:
    data = disk.read_all(path)
    decode_file_header(data, SEGMENT_MAGIC)
    for record in read_records(data, FILE_HEADER_BYTES):
        if not isinstance(record, ScannedRecord) or record.kind != RUN:
            continue
        run = decode_run(record.head)
        if not run.flags & STORED:
            continue
        first = run.targets[0][1]
        for place, size in enumerate(run.sizes):
            if first + place not in gone:
                number, offset = run.stored[2 * place : 2 * place + 2]
                needed.setdefault(number, Intervals()).add_range(offset, offset + size)
