"""Deliveries to very many queues, to some of them in each turn of the event loop.

A message may reach more queues than a turn has time for, and finding them may also take longer
(exchanges/router.py). Such deliveries continue in the turns of an actor, one after the other. A
publisher that has to keep an order waits until its delivery is done: a channel handles no more of
its connection's input, and later dead letters and delayed messages wait.

Memory is bounded even if the disk stalls: while the store is behind, no queue gets persistent
messages, and while messages take too much memory, none gets any (`FlowControl`). Waiting runs count
towards the limit above which publishers are held.

Promise: every queue that exists when its turn comes gets the messages, even if the publisher has
ended by then.

Invariants:

F1  Deliveries are carried out in the order in which they began.
F2  The publisher is not told that a run is confirmed or refused before the last queue has it.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Final

from leveret.broker.queues.contract.publication import Publication
from leveret.broker.queues.contract.queue_client import QueueClient
from leveret.broker.resources.flow import FlowControl
from leveret.broker.runtime.pending import Answer
from leveret.broker.runtime.turns import Actor, Turns

QUEUES_AT_ONCE: Final = 500
"""A message for at most this many queues is given to all of them in one turn. A run that all of
them hold costs a millisecond more, since its holders are in a list (sessions/held_runs.py).
"""
CARE_WORK: Final = 30
"""The work of a message in a queue with a limit or time to live (broker/runtime/turns.py)."""
QUEUE_WORK = 7
"""The work of a run in a queue, beside that of its messages."""
ROUTE_STEP_WORK: Final = 1000
"""The work of a step of finding queues."""
QUEUE_BYTES = 8
"""The memory of a queue in a list."""
_STEP_QUEUES = 100


class Delivery:
    """A run of messages on its way to very many queues. The `Publisher` that the queues see.

    waiting_bytes: approximate memory that it takes while it waits. done: given when the last queue
    has been given the run.
    """

    __slots__ = (
        "_holders", "_is_lost", "_publication", "_queues", "_refused", "done", "waiting_bytes",
    )  # fmt: skip

    def __init__(
        self,
        queues: Iterable[QueueClient | None],
        publication: Publication,
    ) -> None:
        """queues: None among them stands for a step of finding them, or of making the messages,
        which exist by the first queue.
        """
        self._queues: Iterator[QueueClient | None] = iter(queues)
        self._publication = publication
        self._refused: set[int] = set()
        self._is_lost = False
        self._holders: set[object] = {self}
        self.waiting_bytes = publication.body_bytes
        if isinstance(queues, Sequence):
            self.waiting_bytes += QUEUE_BYTES * len(queues)
        self.done: Answer[None] = Answer()
        if publication.publisher is not None:
            publication.publisher.hold(publication.first, len(publication.messages), self)

    @property
    def is_persistent(self) -> bool:
        """Whether its messages are persistent. Those that are still being made are not."""
        messages = self._publication.messages
        return bool(messages) and messages[0].header.is_persistent

    def go_on(self, turns: Turns) -> bool:
        """Give the messages to more queues, or take a step to find them; return whether any were
        left.
        """
        publication = self._publication
        count = len(publication.messages)
        if publication.publisher is not None:
            publication = publication.by(self)
        were_left = False
        for queue in islice(self._queues, _STEP_QUEUES):
            were_left = True
            if queue is None:
                turns.work_left -= ROUTE_STEP_WORK
                break
            if queue.is_deleted:
                continue
            turns.work_left -= QUEUE_WORK + count * (CARE_WORK if is_watched(queue) else 1)
            queue.publish(publication)
        return were_left

    def end(self) -> None:
        """The last queue has been given the run."""
        self.confirm(self._publication.first, self)
        self.done.give(None)

    # For the queues: see `Publisher`

    def hold(self, first: int, count: int, holder: object) -> None:
        """The holder will confirm the run later."""
        self._holders.add(holder)

    def refuse(self, number: int) -> None:
        """A queue refuses a message of the run."""
        self._refused.add(number)

    def confirm(self, first: int, holder: object) -> None:
        """The holder has the run safely. When all holders have, the publisher is told (F2)."""
        if holder not in self._holders:
            return
        self._holders.remove(holder)
        publisher = self._publication.publisher
        if self._holders or publisher is None:
            return
        for number in sorted(self._refused):
            publisher.refuse(number)
        if self._is_lost:
            publisher.holder_died(self, False)
        else:
            publisher.confirm(self._publication.first, self)

    def holder_died(self, holder: object, is_settled: bool) -> None:
        """The holder will confirm nothing more."""
        self._is_lost |= holder in self._holders and not is_settled
        self.confirm(self._publication.first, holder)


class FanOuts(Actor):
    """The deliveries to very many queues in one virtual host."""

    __slots__ = ("_deliveries", "_flow", "_is_waiting", "_turns")

    def __init__(self, turns: Turns, flow: FlowControl) -> None:
        super().__init__()
        self._turns = turns
        self._flow = flow
        self._deliveries: deque[Delivery] = deque()
        self._is_waiting = False

    def begin(self, delivery: Delivery) -> Answer[None]:
        """Carry out a delivery after all others (F1); the answer is given when it is done."""
        self._deliveries.append(delivery)
        self._flow.deliveries_wait(delivery.waiting_bytes)
        if not self._is_waiting:
            self._turns.wake(self)
        return delivery.done

    @property
    def is_idle(self) -> bool:
        """Whether no delivery is under way."""
        return not self._deliveries

    def take_turn(self) -> None:
        """Continue the first delivery, and others if there is work left."""
        turns, deliveries = self._turns, self._deliveries
        try:
            while deliveries and turns.work_left > 0 and not self._is_store_behind:
                if not deliveries[0].go_on(turns):
                    self._end(deliveries.popleft())
        finally:
            if deliveries:
                self._go_on_later()

    @property
    def _is_store_behind(self) -> bool:
        """Whether the first delivery has to wait for the store."""
        return self._flow.is_store_behind_with(self._deliveries[0].is_persistent)

    def _go_on_later(self) -> None:
        if self._is_store_behind:
            self._is_waiting = True
            self._flow.when_changed(self._flow_changed)
        else:
            self._turns.wake(self)

    def _flow_changed(self) -> None:
        self._is_waiting = False
        self._turns.wake(self)

    def _end(self, delivery: Delivery) -> None:
        self._flow.deliveries_wait(-delivery.waiting_bytes)
        delivery.end()


def is_watched(queue: QueueClient) -> bool:
    """Whether the queue checks a limit or a time to live of each message."""
    return queue.options.has_limit or queue.options.message_ttl_ms is not None
