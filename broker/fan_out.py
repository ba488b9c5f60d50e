"""Deliveries to very many queues: some of the queues in each turn of the event loop.

A message may reach more queues than a turn has time for. Such deliveries go on in the turns of an
actor, one after the other. Whoever publishes in order waits until its delivery is done: a channel
handles no more of its connection's input, and dead letters and delayed messages wait behind.

Promise: every queue that exists when its turn comes gets the messages, also if the publisher has
gone meanwhile.

Invariants:

F1  Deliveries are carried out in the order in which they began.
F2  The publisher is not told that a run is confirmed or refused before the last queue has it.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

from leveret.broker.pending import Answer
from leveret.broker.queues.queue_client import Publisher, QueueClient
from leveret.broker.turns import Turns
from leveret.storage.message import Message

QUEUES_AT_ONCE: Final = 500
"""A message for no more queues is given to all of them in one turn. A run that is held for all of
them costs a millisecond more, since its holders are in a list (channel/held_runs.py).
"""
CARE_WORK: Final = 30
"""The work of a message in a queue that checks a limit or a time to live (broker/turns.py)."""
QUEUE_WORK = 4
"""That of a run in a queue, beside that of its messages."""
_STEP_QUEUES = 100


class Delivery:
    """A run of messages on its way to very many queues. The `Publisher` that the queues see.

    done: given when the last queue has been given the run.
    """

    __slots__ = (
        "_body_bytes", "_first", "_holders", "_is_lost", "_messages", "_publisher", "_queues",
        "_refused", "_ttl_ms", "done",
    )  # fmt: skip

    def __init__(
        self,
        queues: Iterable[QueueClient],
        messages: list[Message],
        body_bytes: int,
        ttl_ms: int | None,
        publisher: Publisher | None,
        first: int,
    ) -> None:
        """See `QueueClient.publish`."""
        self._queues: Iterator[QueueClient] = iter(queues)
        self._messages = messages
        self._body_bytes = body_bytes
        self._ttl_ms = ttl_ms
        self._publisher = publisher
        self._first = first
        self._refused: set[int] = set()
        self._is_lost = False
        self._holders: set[object] = {self}
        self.done: Answer[None] = Answer()
        if publisher is not None:
            publisher.hold(first, len(messages), self)

    def go_on(self, turns: Turns) -> bool:
        """Give the messages to more queues; whether there are any left."""
        count = len(self._messages)
        publisher = None if self._publisher is None else self
        queue: QueueClient | None = None
        for queue in islice(self._queues, _STEP_QUEUES):
            if queue.is_deleted:
                continue
            turns.work_left -= QUEUE_WORK + count * (CARE_WORK if is_watched(queue) else 1)
            queue.publish(self._messages, self._body_bytes, self._ttl_ms, publisher, self._first)
        return queue is not None

    def end(self) -> None:
        """The last queue has been given the run."""
        self.confirm(self._first, self)
        self.done.give(None)

    # For the queues: see `Publisher`

    def hold(self, first: int, count: int, holder: object) -> None:
        """The holder will confirm the run later."""
        self._holders.add(holder)

    def refuse(self, number: int) -> None:
        """A queue refuses a message of the run."""
        self._refused.add(number)

    def confirm(self, first: int, holder: object) -> None:
        """The holder has the run safely. When all have, the publisher is told (F2)."""
        if holder not in self._holders:
            return
        self._holders.remove(holder)
        publisher = self._publisher
        if self._holders or publisher is None:
            return
        for number in sorted(self._refused):
            publisher.refuse(number)
        if self._is_lost:
            publisher.holder_died(self, False)
        else:
            publisher.confirm(self._first, self)

    def holder_died(self, holder: object, is_settled: bool) -> None:
        """The holder will confirm nothing more."""
        self._is_lost |= holder in self._holders and not is_settled
        self.confirm(self._first, holder)


class FanOuts:
    """The deliveries to very many queues in one virtual host. An actor (broker/turns.py)."""

    __slots__ = ("_deliveries", "_turns", "is_awake")

    def __init__(self, turns: Turns) -> None:
        self._turns = turns
        self._deliveries: deque[Delivery] = deque()
        self.is_awake = False

    def begin(self, delivery: Delivery) -> Answer[None]:
        """Carry out a delivery after all others (F1); the answer is given when it is done."""
        self._deliveries.append(delivery)
        self._turns.wake(self)
        return delivery.done

    def take_turn(self) -> None:
        """Go on with the first delivery, and with others if there is work left."""
        turns, deliveries = self._turns, self._deliveries
        try:
            while deliveries and turns.work_left > 0:
                if not deliveries[0].go_on(turns):
                    deliveries.popleft().end()
        finally:
            if deliveries:
                turns.wake(self)


def is_watched(queue: QueueClient) -> bool:
    """Whether the queue checks a limit or a time to live of each message."""
    return queue.options.has_limit or queue.options.message_ttl_ms is not None
