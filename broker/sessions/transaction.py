"""A transaction: the publishes and settlements of a session since the last commit or rollback.

Nothing takes effect before the commit, which publishes first and then settles. Until then the
delivery tags of settled messages cannot be used again, and the messages are still held; a rollback
makes the tags valid again. Source: RabbitMQ's `rabbit_channel`, and its documentation on
"Transactions".
"""

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from leveret.broker.runtime.pending import Answer
from leveret.broker.sessions.held_runs import HeldRuns
from leveret.broker.sessions.unacked_record import Unacked

ACK, REQUEUE, DISCARD = "ack", "requeue", "discard"
FAIL = "fail"
"""Requeue what counts as a failed delivery: since RabbitMQ 4.3, what basic.reject requeues."""
REJECT = "reject"
"""Requeue with basic.reject before 4.3: failed only in queues that delay retries."""
DROPPED_AT_ONCE, DROP_WORK = 500, 2
"""The items that are dropped in one step, and the work of each (broker/runtime/turns.py)."""


class Settling(NamedTuple):
    """Deliveries, and the action to take on them at the commit."""

    action: str
    taken: list[tuple[int, Unacked]]


class Transaction:
    """A transaction of a transactional session: the `Publisher` that its queues see.

    publishes: the calls of the commit, in order; each returns the result of `routing.deliver`.
    has_failed: a queue, or the holder of a run, refused one of its messages. publish_count: the
    number of its messages, which are numbered from 1. settled_count: the number of deliveries to be
    settled. settled: called when the last of its runs was confirmed.
    """

    __slots__ = (
        "_held", "has_failed", "publish_count", "publishes", "refused_count", "settled",
        "settled_count", "settlings",
    )  # fmt: skip

    def __init__(self, settled: Callable[[], object] = lambda: None) -> None:
        self.publishes: deque[Callable[[], Answer[None] | None]] = deque()
        self.settled_count = 0
        self.settlings: deque[Settling] = deque()
        self.settled = settled
        self.has_failed = False
        self.publish_count = 0
        self.refused_count = 0
        self._held = HeldRuns()

    def next_number(self, count: int) -> int:
        """The number of the first of the next `count` messages to be published."""
        self.publish_count += count
        return self.publish_count - count + 1

    def settle(self, action: str, taken: list[tuple[int, Unacked]]) -> None:
        """Deliveries to be settled when the transaction is committed."""
        self.settlings.append(Settling(action, taken))
        self.settled_count += len(taken)

    def next_settling(self, count: int) -> Settling | None:
        """Remove and return deliveries that are settled in the same way, in the order in which the
        client settled them, `count` at most; None if there are none.
        """
        if not self.settlings:
            return None
        action, taken = self.settlings[0]
        if len(taken) <= count:
            self.settled_count -= len(taken)
            return self.settlings.popleft()
        self.settled_count -= count
        first = taken[:count]
        del taken[:count]
        return Settling(action, first)

    def taken(self) -> Iterator[tuple[int, Unacked]]:
        """Every delivery that would have been settled."""
        return (record for settling in self.settlings for record in settling.taken)

    def hand_over(self) -> Iterator[tuple[int, Unacked]]:
        """Every delivery that would have been settled; the caller owns them afterwards."""
        while self.settlings:
            yield from self.settlings.popleft().taken

    def dropping_publishes(self) -> Iterator[int]:
        """The steps of dropping uncommitted publishes (broker/runtime/long_work.py).

        A publish refers to its transaction: without this cycle the transaction is freed at once.
        """
        return _emptying(self.publishes)

    def dropping(self) -> Iterator[int]:
        """The steps of dropping everything that was not committed."""
        yield from self.dropping_publishes()
        yield from _emptying(self.settlings)

    @property
    def is_held(self) -> bool:
        """A holder has not confirmed a run yet."""
        return bool(self._held)

    def hold(self, first: int, count: int, holder: object) -> None:
        """The holder will confirm a run later."""
        self._held.hold(first, count, holder)

    def confirm(self, first: int, holder: object) -> None:
        """A holder confirms a run that it held."""
        if self._held.confirm(first, holder) is not None and not self._held:
            self.settled()

    def refuse(self, number: int) -> None:
        """A queue refuses a message: the commit fails."""
        self.has_failed = True
        self.refused_count += 1

    def holder_died(self, holder: object, is_settled: bool) -> None:
        """The holder will confirm nothing more."""
        for first, end in self._held.of_holder(holder):
            if not is_settled:
                self.has_failed = True
                self.refused_count += end - first
            self.confirm(first, holder)


def _emptying(items: deque[Any]) -> Iterator[int]:
    while items:
        count = min(len(items), DROPPED_AT_ONCE)
        for _ in range(count):
            items.popleft()
        yield DROP_WORK * count
