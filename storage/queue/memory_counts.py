"""The bytes of memory that the messages of all queues take, counted in short turns of the loop.

Queues report growth, but not shrinkage. So all of them are counted again from time to time, in
slices between which the event loop runs: 10,000 queues in one turn took 15 ms. The sums are
therefore up to date for queues that have grown, and as old as the last count for queues that have
shrunk.

Invariants:

PG3  `held_bytes` and `unpageable_bytes` are the sums of the figures noted of each queue.
"""

import asyncio

from leveret.storage.queue.tiered_queue import TieredQueue

COUNTED_AT_ONCE = 250
"""Queues that are counted in one turn of the loop: a quarter of a millisecond."""


class MemoryCounts:
    """The counts of a node. held_bytes: of messages that could be on disk only.

    queues: by their numbers in the log. unpageable_bytes: of unacked messages.
    """

    __slots__ = ("held_bytes", "queues", "unpageable_bytes")

    def __init__(self) -> None:
        self.queues: dict[int, TieredQueue] = {}
        self.held_bytes = self.unpageable_bytes = 0

    def note(self, queue: TieredQueue) -> int:
        """Count a queue again. Returns the bytes of its messages that could be on disk only."""
        held, unpageable = queue.pageable_bytes, queue.unpageable_bytes
        self.held_bytes += held - queue.noted_bytes
        self.unpageable_bytes += unpageable - queue.noted_unpageable_bytes
        queue.noted_bytes, queue.noted_unpageable_bytes = held, unpageable
        return held

    def forget(self, queue: TieredQueue) -> None:
        """Forget a deleted queue."""
        self.queues.pop(queue.key, None)
        self.held_bytes -= queue.noted_bytes
        self.unpageable_bytes -= queue.noted_unpageable_bytes
        queue.noted_bytes = queue.noted_unpageable_bytes = 0
        assert min(self.held_bytes, self.unpageable_bytes) >= 0, "PG3"

    async def count_all(self) -> None:
        """Count all queues again, in slices."""
        for number, (key, queue) in enumerate(tuple(self.queues.items()), 1):
            holds = queue.ready_count or queue.unacked_count
            noted = queue.noted_bytes or queue.noted_unpageable_bytes
            if (holds or noted) and key in self.queues:
                self.note(queue)
            if number % COUNTED_AT_ONCE == 0:
                await asyncio.sleep(0)
