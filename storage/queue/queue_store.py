"""The store of a node as a tiered queue needs it (tiered_queue.py, store.py)."""

from typing import Any, Protocol

from leveret.storage.log.log import Log
from leveret.storage.queue.queue_log import QueueLog
from leveret.storage.queue.segment_entries import MessageSource
from leveret.storage.queue.segment_slices import SegmentStore

Queue = Any
"""A tiered queue. Its class is not imported, since its module imports this one."""


class QueueStore(MessageSource, SegmentStore, Protocol):
    """The store. disk_writes: the number of messages written, of all queues."""

    log: Log
    queue_log: QueueLog[Any]
    disk_writes: int

    def note_memory(self, queue: Queue) -> None:
        """Note that the queue may have grown."""

    def note_shrunk(self, queue: Queue) -> None:
        """Note that messages of a queue with segments have gone."""

    def forget(self, queue: Queue) -> None:
        """Forget a deleted queue."""
