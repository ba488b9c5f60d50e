"""A run: consecutive messages that are alike and were published by one command.

The queue knows where each message is in the log: the index of the entry, and the place among the
messages of this entry. For consumers a message is identified by its position: 1, 2, 3 and so on in
the order of publishing. It keeps this position as long as it is in the queue.
"""

from typing import Final, TypeAlias

from mypy_extensions import mypyc_attr

MESSAGE_BYTES: Final = 100
"""About what a message takes beside its body."""
RUN_BYTES: Final = 200
"""About what a run takes in memory, with its place in a list."""
Annotations: TypeAlias = dict[str, bytes]
"""Values of AMQP 1.0, encoded, by their names. Not changed once a run refers to them."""
NEVER: Final = 0
"""The expiry time of messages that do not expire."""


@mypyc_attr(acyclic=True)
class Run:
    """Messages with consecutive positions and places. Not changed once an effect refers to it.

    position, place: of the first message. size: of each body. returns: how often they were
    returned. delivery_count: the returns that count for the delivery limit. delivery: if a consumer
    holds them, the first one's number among the consumer's deliveries. time_ms: if a consumer holds
    them, when they were delivered; if they are delayed, when they become ready. annotations: those
    that consumers have added (`Modify`); None without any.
    """

    __slots__ = (
        "annotations", "count", "delivery", "delivery_count", "expires_at_ms", "index", "place",
        "position", "priority", "returns", "size", "time_ms",
    )  # fmt: skip

    def __init__(
        self, position: int, count: int, index: int, place: int, size: int, priority: int,
        expires_at_ms: int = NEVER, returns: int = 0, delivery_count: int = 0, delivery: int = 0,
        time_ms: int = 0, annotations: Annotations | None = None,
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
        self.annotations = annotations

    @property
    def last(self) -> int:
        """The position of the last message."""
        return self.position + self.count - 1

    @property
    def octets(self) -> int:
        """About what all of its messages take in memory."""
        return self.count * (self.size + MESSAGE_BYTES)

    def part(self, skipped: int, count: int) -> "Run":
        """A run of some of the messages. skipped: how many are before them."""
        return Run(
            self.position + skipped, count, self.index, self.place + skipped, self.size,
            self.priority, self.expires_at_ms, self.returns, self.delivery_count,
            self.delivery + skipped if self.delivery else 0, self.time_ms, self.annotations,
        )  # fmt: skip
