"""The sweeper: finds out which large bodies are still needed, and has the others' space freed.

It reads the segments of all queues in a worker's thread, since they alone say which bodies are
referred to, and leaves out what is gone. What is gone must be on disk as such before the bodies are
freed, or else a restart could bring back a message without its body.
"""

import logging
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from storage.disk import Disk, StoreError
from storage.formats import (
    FILE_HEADER_BYTES,
    RUN,
    SEGMENT_MAGIC,
    STORED,
    FormatError,
    Record,
    decode_file_header,
    decode_run,
    read_records,
)
from storage.intervals import Intervals
from storage.log import Log
from storage.message_store import MessageStore
from storage.pager import Pager
from storage.tiers import Tiers
from storage.worker import Worker

logger = logging.getLogger("leveret.store")


class Searched(NamedTuple):
    """Segments of a queue, and which positions in them do not count."""

    paths: list[Path]
    gone: Intervals


class Sweeper:
    """Sweeps when enough is garbage."""

    def __init__(
        self, disk: Disk, bodies: MessageStore, log: Log, pager: Pager, worker: Worker
    ) -> None:
        self._disk = disk
        self._bodies = bodies
        self._log = log
        self._pager = pager
        self._worker = worker

    async def sweep_if_wanted(self) -> None:
        """Sweep, if half of the message store is garbage. Raises what the log raises."""
        if self._bodies.wants_sweep:
            await self.sweep()

    async def sweep(self) -> None:
        """Free what nothing refers to."""
        async with self._pager.lock:
            below = self._bodies.begin_sweep()
            searched = [
                Searched([queue.writer.path(number) for number in queue.writer.numbers], gone)
                for queue, gone in self._gone_of_all()
            ]
        await self._log.sync()
        try:
            needed = await self._worker.run(lambda: find_needed(self._disk, searched))
            kept = await self._worker.run(lambda: self._bodies.sweep(below, needed))
        except (StoreError, FormatError) as error:
            logger.error("the message store is not swept: %s", error)
            return
        logger.info("the message store was swept: %d bytes are needed", kept)
        self._bodies.total_bytes = kept

    def _gone_of_all(self) -> Iterable[tuple[Tiers, Intervals]]:
        for queue in self._pager.queues.values():
            if queue.writer.numbers:
                gone = queue.ledger.gone.copy()
                gone.update(queue.ledger.fresh)
                yield queue, gone


def find_needed(disk: Disk, searched: Iterable[Searched]) -> dict[int, Intervals]:
    """For each file of the message store, the parts that segments refer to."""
    needed: dict[int, Intervals] = {}
    for paths, gone in searched:
        for path in sorted(paths):
            if path.exists():
                _find_in_segment(disk, path, gone, needed)
    return needed


def _find_in_segment(disk: Disk, path: Path, gone: Intervals, needed: dict[int, Intervals]) -> None:
    data = disk.read_all(path)
    decode_file_header(data, SEGMENT_MAGIC)
    for record in read_records(data, FILE_HEADER_BYTES):
        if not isinstance(record, Record) or record.kind != RUN:
            continue
        run = decode_run(record.head)
        if not run.flags & STORED:
            continue
        first = run.targets[0][1]
        for place, size in enumerate(run.sizes):
            if first + place not in gone:
                number, offset = run.stored[2 * place : 2 * place + 2]
                needed.setdefault(number, Intervals()).add_range(offset, offset + size)
