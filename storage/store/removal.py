"""Removing segments that are not needed, and the directories of deleted queues.

The pager's thread removes both, after all slices planned earlier. The record that makes them
unneeded is on disk first: otherwise a power cut could restore a queue without its messages.

Invariants:

RM1  A segment of a durable queue is removed only after the sync of the PROGRESS or STATE that says
     that all of its positions are gone.
RM2  The directory of a deleted queue is removed only after the sync of the metadata, which no
     longer declare the queue.
"""

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path

from leveret.storage.disk.unsynced_files import UnsyncedFiles
from leveret.storage.disk.worker import Worker
from leveret.storage.log.log import Log
from leveret.storage.metadata.metadata import Metadata

logger = logging.getLogger("leveret.store")


class Removal:
    """Removes files of queues. worker: the pager's."""

    def __init__(
        self,
        files: UnsyncedFiles,
        worker: Worker,
        log: Log,
        metadata: Metadata,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._files = files
        self._disk = files.disk
        self._worker = worker
        self._log = log
        self._metadata = metadata
        self._loop = loop
        self._directories: list[Path] = []

    def remove_segments(
        self, paths: list[Path], is_logged: bool, removed: Callable[[], object]
    ) -> None:
        """Remove segments of a queue in which no position is needed (RM1).

        is_logged: the queue is durable. removed: called when they are removed, or removing failed.
        """

        def done(_: object, error: Exception | None) -> None:
            removed()
            _report(_, error)

        def remove() -> None:
            self._worker.submit(lambda: self._remove_files(paths), done)

        if is_logged:
            self._log.after_sync(remove)
        else:
            remove()

    def _remove_files(self, paths: list[Path]) -> None:
        for path in paths:
            self._disk.remove(path)
            self._disk.passed("segment.removed")
        self._files.give_up_removed()
        directory = paths[0].parent
        if directory.exists():
            self._disk.sync_directory(directory)

    def remove_directory(self, directory: Path) -> None:
        """Remove the files of a deleted queue (RM2). Many queues share one sync."""
        if not self._directories:
            self._loop.call_soon(self._remove_directories)
        self._directories.append(directory)

    def _remove_directories(self) -> None:
        directories, self._directories = self._directories, []

        def remove() -> None:
            self._metadata.sync()
            for directory in directories:
                self._disk.remove_tree(directory)
            self._files.give_up_removed()

        self._worker.submit(remove, _report)


def _report(_: object, error: Exception | None) -> None:
    if error is not None:
        logger.error("failed to remove an unneeded file: %s", error)
