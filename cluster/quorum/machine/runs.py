"""A run: messages of a quorum queue that are alike and were published by one command, in order.

The queue knows a message by its place in the log: the index of the entry, and its place among the
messages of this entry. Its position names it to consumers: 1, 2, 3 and so on in the order of
publishing, for as long as it is in the queue.
"""

from typing import Final

from mypy_extensions import mypyc_attr

NEVER: Final = 0
"""The time at which messages expire that do not."""


@mypyc_attr(acyclic=True)
class Run:
    """Messages of consecutive positions and places. Not changed once an effect has it.

    position, place: those of the first one. size: of each body. returns: how often they were
    returned. delivery_count: the returns that count for the delivery limit. delivery: with a
    consumer, the number of the first one among the consumer's deliveries. time_ms: with a consumer,
    when they were delivered; of delayed ones, when they are ready.
    """

    __slots__ = (
        "count", "delivery", "delivery_count", "expires_at_ms", "index", "place", "position",
        "priority", "returns", "size", "time_ms",
    )  # fmt: skip

    def __init__(
        self, position: int, count: int, index: int, place: int, size: int, priority: int,
        expires_at_ms: int = NEVER, returns: int = 0, delivery_count: int = 0, delivery: int = 0,
        time_ms: int = 0,
    ) -> None:  # fmt: skip
        self.position = position
        self.count = count
        self.index = index
        self.place = place
        self.size = size
        self.priority = priority
        self.expires_at_ms = expires_at_ms
        self.returns = returns
        self.delivery_count = delivery_count
        self.delivery = delivery
        self.time_ms = time_ms

    @property
    def last(self) -> int:
        """The position of the last message."""
        return self.position + self.count - 1

    def part(self, skipped: int, count: int) -> "Run":
        """Some of its messages, after those that are skipped."""
        return Run(
            self.position + skipped, count, self.index, self.place + skipped, self.size,
            self.priority, self.expires_at_ms, self.returns, self.delivery_count,
            self.delivery + skipped if self.delivery else 0, self.time_ms,
        )  # fmt: skip
