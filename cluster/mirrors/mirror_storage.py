"""The backing queue of a mirror, with a head where it lacks messages (chained_queue.py)."""

from collections.abc import Callable, Iterable

from leveret.broker.queues.classic.priority import PriorityQueue
from leveret.broker.queues.contract.priority_levels import PriorityLevels
from leveret.storage.contract.backing_queue import BackingQueue
from leveret.storage.queue.chained_queue import ChainedQueue

MakePart = Callable[[int, bool], BackingQueue]
"""Makes the queue of a level: of its head, if the flag is set, else of its tail."""


def make_mirror_queue(
    lacked: Iterable[tuple[int, int]], levels: PriorityLevels | None, make_part: MakePart
) -> BackingQueue:
    """The backing queue of a mirror that lacks these positions.

    levels: those of a queue with priorities. A level that lacks nothing has no head.
    """
    boundaries = dict(lacked)

    def make_level(level: int, first: int) -> BackingQueue:
        boundary = boundaries.get(first, first) - first
        tail = make_part(level, False)
        return ChainedQueue(make_part(level, True), tail, boundary) if boundary else tail

    if levels is None:
        return make_level(0, 0)
    queue = PriorityQueue(levels, lambda level: make_level(level, queue.first_position(level)))
    for end in boundaries.values():
        # The level is made: the positions before its end are not given again.
        queue.go_on_at(end)
    return queue
