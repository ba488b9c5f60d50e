"""The number of bytes that each queue may keep in memory. Pure: figures in, targets out.

While all queues together are within the budget each may keep everything. Above it, a queue that
delivers needs its next messages in memory, and a queue without deliveries needs none. So each queue
has a demand, the bytes that it delivers in some seconds, and the rest of the budget is divided in
proportion to the bytes that the queues hold. (RabbitMQ's `rabbit_memory_monitor` gives all queues
the same duration in memory instead.)
"""

from typing import NamedTuple

NO_TARGET = 1 << 62
"""A queue with this target may have everything in memory."""
DURATION_SECONDS = 10.0
"""A queue's demand is the bytes that it delivers in this time."""


class Figures(NamedTuple):
    """The figures of one queue. pageable_bytes: in memory, and could be on disk only. rate: bytes a
    second delivered recently. is_lazy: its messages should be on disk.
    """

    pageable_bytes: int
    rate: float
    is_lazy: bool


def targets(queues: list[Figures], budget_bytes: int) -> list[int] | None:
    """For each queue the bytes it may keep; None if all may keep everything.

    The targets of queues that are not lazy add up to the budget, or to their bytes if less.
    """
    held = [0 if queue.is_lazy else queue.pageable_bytes for queue in queues]
    total = sum(held)
    if total <= budget_bytes:
        return None
    budget = max(0, budget_bytes)
    demands = [
        min(size, int(queue.rate * DURATION_SECONDS))
        for queue, size in zip(queues, held, strict=True)
    ]
    demanded = sum(demands)
    if demanded >= budget:
        return [demand * budget // max(1, demanded) for demand in demands]
    spare = budget - demanded
    wanted = total - demanded
    return [
        demand + (size - demand) * spare // wanted
        for size, demand in zip(held, demands, strict=True)
    ]
