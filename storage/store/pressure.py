"""Whether publishers should be held back, and whether the disk is full, from the log, the pager,
the streams, the number of log files and the reserve. A callback reports each change.

The disk counts as full from a write that found no room, or from less than `FULL_BYTES` of free
space, until the reserve (reserve.py) is held again. The reserve is given up at once, for acks and
deletions.
"""

import logging
from collections.abc import Callable
from functools import partial

from leveret.storage.disk.disk import StoreError
from leveret.storage.disk.reserve import FULL_BYTES, Reserve
from leveret.storage.disk.worker import Worker
from leveret.storage.log.log import Log
from leveret.storage.log.log_files import LogFiles
from leveret.storage.queue.pager import Pager
from leveret.storage.stream_log.stream_store import StreamStore

FILES_HIGH = 10
"""Publishers are held back when more log files than this wait to be retired."""

logger = logging.getLogger("leveret.store")


class Pressure:
    """The state of one store.

    reserve: None if none is kept. is_congested: publishers of persistent messages should be held
    back; is_memory_short: all publishers. `congestion_changed` is called when one of them changes.
    disk_filled: called with True when the disk is full, with False when there is room again.
    """

    def __init__(
        self, log: Log, files: LogFiles, pager: Pager, streams: StreamStore,
        reserve: Reserve | None = None,
    ) -> None:  # fmt: skip
        self._log = log
        self._files = files
        self._pager = pager
        self._reserve = reserve
        self.is_congested = self.is_memory_short = False
        self.congestion_changed: Callable[[], object] = lambda: None
        self.disk_filled: Callable[[bool], object] = lambda is_full: None
        self._without_room: set[str] = set()
        self._is_reserve_missing = False
        log.congestion_changed = pager.overfull_changed = self.look
        log.disk_filled = partial(self._filled, "log")
        pager.disk_filled = partial(self._filled, "pager")
        streams.disk_filled = partial(self._filled, "streams")

    def look(self) -> None:
        """Decide again whether to hold back publishers, and report a change."""
        before = self.is_congested, self.is_memory_short
        self.is_memory_short = self._pager.is_overfull
        is_disk_behind = self._log.is_congested or len(self._files.files) > FILES_HIGH
        self.is_congested = is_disk_behind or self.is_memory_short
        if before != (self.is_congested, self.is_memory_short):
            self.congestion_changed()

    # A full disk

    @property
    def _is_full(self) -> bool:
        return bool(self._without_room) or self._is_reserve_missing

    def _filled(self, writer: str, is_full: bool) -> None:
        before = self._is_full
        if is_full:
            self._without_room.add(writer)
        else:
            self._without_room.discard(writer)
        self._change(before, gives_up=is_full)

    def note_free_bytes(self, free_bytes: int) -> None:
        """Note the free space as measured."""
        if free_bytes < FULL_BYTES:
            self.note_full()

    def note_full(self) -> None:
        """Note that a write found no room."""
        self._change(self._is_full, gives_up=True)

    def _change(self, before: bool, gives_up: bool) -> None:
        if gives_up and self._reserve is not None and not self._is_reserve_missing:
            self._is_reserve_missing = True
            self._give_up(self._reserve)
        if self._is_full != before:
            self._pager.is_disk_full = not before
            self.disk_filled(not before)

    @staticmethod
    def _give_up(reserve: Reserve) -> None:
        try:
            if not reserve.give_up():
                return
        except StoreError as error:
            logger.error("the reserve of disk space cannot be used: %s", error)
            return
        logger.critical(
            "the disk is full: the reserve of disk space is given up, so that messages can be "
            "consumed and queues deleted; publishers are blocked until there is room for it again"
        )

    # The reserve

    async def take_reserve(self, worker: Worker) -> None:
        """Take the reserve, unless it is held or there is no room."""
        reserve = self._reserve
        if reserve is None or reserve.is_held:
            return
        before = self._is_full
        try:
            is_held = await worker.run(reserve.take)
        except StoreError as error:
            logger.error("no reserve of disk space is kept: %s", error)
            self._reserve, is_held = None, True
        if is_held and self._is_reserve_missing:
            logger.warning("the disk has room again: the reserve of disk space is kept again")
        elif not is_held and not self._is_reserve_missing:
            logger.warning(
                "the disk has no room for the reserve of disk space: publishers are blocked until "
                "there is room"
            )
        self._is_reserve_missing = not is_held
        self._change(before, gives_up=False)
