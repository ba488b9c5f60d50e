"""What a tiered queue needs of the store of its node (tiered_queue.py, store.py)."""

from typing import Any, Protocol

from leveret.storage.log import Log
from leveret.storage.queue_log import QueueLog
from leveret.storage.segment_entries import MessageSource
from leveret.storage.segment_slices import SegmentStore

Queue = Any
"""A tiered queue: the module of its class uses this one."""


class QueueStore(MessageSource, SegmentStore, Protocol):
    """The store. disk_writes: messages of all queues."""

    log: Log
    queue_log: QueueLog[Any]
    disk_writes: int

    def note_memory(self, queue: Queue) -> None:
        """The queue may have grown."""

    def note_shrunk(self, queue: Queue) -> None:
        """Messages of the queue have gone, which has segments."""

    def forget(self, queue: Queue) -> None:
        """The queue is deleted."""
