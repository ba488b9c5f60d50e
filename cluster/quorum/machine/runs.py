"""A run: consecutive messages that are alike and were published by one command.

The queue knows where each message is in the log: the index of the entry, and the place among the
messages of this entry. For consumers a message is identified by its position: 1, 2, 3 and so on in
the order of publishing. It keeps this position as long as it is in the queue.
"""

from typing import Final, TypeAlias

from mypy_extensions import mypyc_attr

from leveret.cluster.quorum.machine.own_times import OwnTimes

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
    that consumers have added (`Modify`); None without any. times: when each message expires; None
    if all expire at `expires_at_ms`. With times, none of them expires before `expires_at_ms`.
    """

    __slots__ = (
        "annotations", "count", "delivery", "delivery_count", "expires_at_ms", "index", "place",
        "position", "priority", "returns", "size", "time_ms", "times",
    )  # fmt: skip

    def __init__(
        self, position: int, count: int, index: int, place: int, size: int, priority: int,
        expires_at_ms: int = NEVER, returns: int = 0, delivery_count: int = 0, delivery: int = 0,
        time_ms: int = 0, annotations: Annotations | None = None, times: OwnTimes | None = None,
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
        self.times = times

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
            self.times,
        )  # fmt: skip

    def expiry_of(self, number: int) -> int:
        """When one of the messages expires, counted from 0; `NEVER` if it does not."""
        times = self.times
        return self.expires_at_ms if times is None else times.at(self.place + number)

    def expired(self, now_ms: int) -> int:
        """How many messages have expired, up to the first that has not."""
        if not NEVER < self.expires_at_ms <= now_ms:
            return 0
        times = self.times
        return self.count if times is None else times.expired(self.place, self.count, now_ms)

    def unexpired(self, count_max: int, now_ms: int) -> int:
        """How many of the first messages have not expired, up to the first that has.

        Without times of their own, they expire together, so none has if the first has not.
        """
        times = self.times
        if times is None or self.expires_at_ms > now_ms:
            return count_max
        return times.unexpired(self.place, min(count_max, self.count), now_ms)

    def without_expired(self, now_ms: int, expired: list["Run"]) -> list["Run"]:
        """The parts that have not expired. The other messages are added to `expired`, one by one
        if they have times of their own.
        """
        times = self.times
        if not NEVER < self.expires_at_ms <= now_ms:
            return [self]
        if times is None:
            expired.append(self)
            return []
        kept: list[Run] = []
        start = 0
        for number in times.due(self.place, self.count, now_ms):
            if number > start:
                kept.append(self._expiring_part(start, number - start))
            expired.append(self._expiring_part(number, 1))
            start = number + 1
        if start < self.count:
            kept.append(self._expiring_part(start, self.count - start))
        return kept

    def delayed_until_expiry(self) -> list["Run"]:
        """The messages, delayed until they expire at the latest: the run, or a run of each."""
        parts = [self]
        if self.times is not None:
            parts = [self._expiring_part(number, 1) for number in range(self.count)]
        for part in parts:
            part.time_ms = min(part.time_ms, part.expires_at_ms)
        return parts

    def _expiring_part(self, skipped: int, count: int) -> "Run":
        """A part with the time when the first of its messages expires. A message that is alone
        needs no times.
        """
        part, times = self.part(skipped, count), self.times
        if times is not None:
            part.expires_at_ms = times.earliest(part.place, count)
            if count == 1:
                part.times = None
        return part
