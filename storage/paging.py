"""Which queue may keep how much in memory. Pure: figures in, targets out.

While all queues together are within the budget each may keep everything. Past that memory goes
where it is of use: a queue that is delivered from wants its next messages in memory, as many as it
will need in a while, and one that nobody takes from wants none. So each queue has a demand, its
rate for some seconds, and what the demands leave over is shared out by what queues hold. Facts:
RabbitMQ's `rabbit_memory_monitor` gives all queues the same duration in memory.
"""

from typing import NamedTuple

DURATION_SECONDS = 10.0
"""What a queue delivers in this time it should have in memory."""


class Figures(NamedTuple):
    """What counts of one queue. pageable_bytes: in memory and could be on disk. rate: bytes a
    second that consumers took of late. is_lazy: it wants to be on disk.
    """

    pageable_bytes: int
    rate: float
    is_lazy: bool


def targets(queues: list[Figures], budget_bytes: int) -> list[int] | None:
    """For each queue the bytes it may keep; None if all may keep everything.

    The targets of queues that are not lazy add up to the budget, or what they hold if that is less.
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
