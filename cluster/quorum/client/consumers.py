"""The consumers of a quorum queue on this node, and the requests for one message (basic.get).

The group gives a consumer as many messages as its prefetch limit allows. If the consumer has no
room for them, because its client does not read, they wait here and are not decoded. The leader
sends a window of bytes at most (delivery_windows.py): this node reports what it hands over.
"""

from collections import deque
from typing import Final, Protocol

from mypy_extensions import i64

from leveret.broker.amqp.errors import internal_error
from leveret.broker.amqp.json_form import text
from leveret.broker.queues.contract.queue_client import Consumer, Got
from leveret.broker.queues.contract.status import UP, ConsumerFigures
from leveret.broker.runtime.counts import MessageCounts
from leveret.cluster.quorum.client.consuming_client import ConsumerCommand
from leveret.cluster.quorum.client.delivered_run import DeliveredRun
from leveret.cluster.quorum.client.delivery_reader import DeliveryReader
from leveret.cluster.quorum.client.holders import POSITION_BITS, Holder
from leveret.cluster.quorum.machine.commands import NO_LIMIT, Checkout, Get, encode_command
from leveret.cluster.quorum.machine.effects import Outcome, Result
from leveret.cluster.quorum.machine.runs import MESSAGE_BYTES
from leveret.cluster.remote_queues import queue_frames
from leveret.cluster.remote_queues.message_runs import RunError
from leveret.cluster.replicated_queues.client.timed_request import TimedRequest
from leveret.storage.messages.message import Entry

CREDIT_MAX: Final = 2000
"""How many messages a consumer without a prefetch limit can hold, as in RabbitMQ."""
PRIORITY_MAX: Final = (1 << 31) - 1
"""Clients can ask for priorities of 64 bits. All above this one count as this one."""
DELIVERY_BYTES_MAX: Final = 512 * 1024
"""Roughly the most bytes given to one consumer at a time, so that large bodies do not pile up."""


TOOK_BYTES: Final = 1024 * 1024
"""The leader is told each time this many bytes were handed over: a quarter of its window."""


class ConsumedQueue(Protocol):
    """The queue that is consumed (quorum_queue_client.py). reader: decodes deliveries.

    given: counts what clients of this node got.
    """

    reader: DeliveryReader
    given: MessageCounts
    may_redeliver: bool

    @property
    def shows_zero(self) -> bool:
        """Whether basic.get shows a delivery count of 0."""

    def settle_taken(self, first: int, count: int) -> None:
        """Settle deliveries that need no ack, once handed over. first: the first entry's number."""

    def took(self, subscription: ConsumerCommand, octets: int) -> None:
        """Deliveries of this size were handed over: the leader sends more."""

    def give_back(self, first: int, count: int) -> None:
        """Return deliveries that were not handed over. first: the number of the first entry."""

    def reject_unreadable(self, first: int, count: int, error: Exception) -> None:
        """Reject deliveries that cannot be read. first: the number of the first entry."""

    def forget(self, subscription: ConsumerCommand) -> None:
        """The subscription gets no more messages."""

    def take_again(self, taken: "TakenMessage") -> None:
        """Take another message, because this one was returned before it was taken."""


class ClientConsumer(ConsumerCommand):
    """A consumer on this node. request: is answered when it is subscribed."""

    __slots__ = (
        "_credit",
        "_details",
        "_is_cancelled",
        "_is_timed_out",
        "_is_told",
        "_priority",
        "_queue",
        "_request",
        "_taken_bytes",
        "_waiting",
        "_withheld",
        "consumer",
    )

    def __init__(self, queue: ConsumedQueue, consumer: Consumer, request: TimedRequest) -> None:
        super().__init__()
        self._queue = queue
        self.consumer = consumer
        self._request = request
        figures: ConsumerFigures = consumer.figures(UP)
        prefetch_count = 0 if consumer.no_ack else figures.prefetch_count
        self._credit = prefetch_count or CREDIT_MAX
        self._details = queue_frames.encode(figures)
        self._priority = max(-PRIORITY_MAX, min(consumer.priority, PRIORITY_MAX))
        self._is_cancelled = self._is_told = self._is_timed_out = False
        self._taken_bytes: i64 = 0
        self._withheld: list[DeliveredRun] = []
        self._waiting: deque[DeliveredRun] = deque()

    def __repr__(self) -> str:
        return f"<ClientConsumer {self.consumer!r}>"

    def encode(self, sender: int, seen: int) -> bytes:
        """Encode the command."""
        consumer = self.consumer
        command = Checkout(
            sender, self.number, seen, text(consumer.tag), self._credit, self._priority,
            consumer.no_ack, NO_LIMIT if consumer.timeout_ms is None else consumer.timeout_ms,
            self._details,
        )  # fmt: skip
        return encode_command(command)

    def applied(self, result: object) -> None:
        """From now on the consumer gets messages. This is called again with each new sender."""
        if not self._is_told:
            self._is_told = True
            self._request.give(None)
            self.hand_over()

    def queue_ended(self, error: Exception, is_deleted: bool) -> None:
        """Answer with an error."""
        self._request.refuse(error)

    # Deliveries

    def arrived(self, runs: list[DeliveredRun]) -> None:
        """Take deliveries that have arrived."""
        if not self._is_cancelled:
            self._waiting += runs
            # The answer to its subscription goes before the first delivery.
            if self._is_told:
                self.hand_over()

    def hand_over(self) -> None:
        """Give the consumer as many messages as it has room for."""
        waiting, consumer = self._waiting, self.consumer
        while waiting and not self._is_timed_out:
            room = consumer.room()
            if room <= 0:
                consumer.is_waiting = True
                return
            consumer.is_waiting = False
            entries = self._take(room)
            if entries:
                consumer.deliver(entries)

    def _take(self, room: int) -> list[Entry]:
        """The next entries of one run. None of them if they cannot be read."""
        delivered = self._waiting[0]
        run = delivered.run
        count: i64 = min(room, run.count)
        if run.size:
            count = min(count, 1 + DELIVERY_BYTES_MAX // run.size)
        if count == run.count:
            self._waiting.popleft()
        else:
            self._waiting[0] = delivered.after(count)
        queue, holder = self._queue, self.holder
        first = number_of(holder, run.position)
        if run.returns:
            queue.may_redeliver = True
        holder.unsettled += count
        self._taken_bytes += count * (run.size + MESSAGE_BYTES)
        if self._taken_bytes >= TOOK_BYTES:
            queue.took(self, self._taken_bytes)
            self._taken_bytes = 0
        try:
            entries = queue.reader.read(delivered, count, first)
        except RunError as error:
            queue.reject_unreadable(first, count, error)
            return []
        given = queue.given
        if run.returns:
            given.redelivered += count
        if self.consumer.no_ack:
            given.delivered_no_ack += count
            queue.settle_taken(first, count)
        else:
            given.delivered += count
        return entries

    def active_changed(self, is_active: bool) -> None:
        """It has become the queue's single active consumer, or no longer is."""
        self.consumer.active_changed(is_active)

    # Its end

    def timed_out(self, positions: list[int]) -> None:
        """End the consumer or its channel, which cancels the consumer, unless it goes on. Waiting
        deliveries are not handed over, as another consumer may have got them; if the consumer ends,
        the others go back then.
        """
        if self._is_cancelled or self._is_timed_out:
            return
        numbers: set[int] = set()
        for at in range(0, len(positions), 2):
            first = number_of(self.holder, positions[at])
            numbers.update(range(first, first + positions[at + 1] - positions[at] + 1))
        if self.consumer.released(numbers):
            self._give_back(numbers)
        else:
            self._is_timed_out = True
            self.consumer.timed_out()

    def _give_back(self, numbers: set[int]) -> None:
        """Settle the waiting deliveries that the group has taken back. All of a run have been held
        for the same time.
        """
        waiting, self._waiting = self._waiting, deque()
        for delivered in waiting:
            first, count = number_of(self.holder, delivered.run.position), delivered.run.count
            if first in numbers:
                self.holder.unsettled += count
                self._queue.give_back(first, count)
            else:
                self._waiting.append(delivered)

    def cancel(self, channel_ended: bool) -> None:
        """Prepare to cancel the consumer. If its channel has ended, it gets no more messages, and
        the group takes back those that it holds.
        """
        if channel_ended:
            self._is_cancelled = self.holder.has_ended = True
            self.consumer.is_waiting = False
            self._waiting.clear()

    def cancelled(self) -> None:
        """Return the waiting messages, after the group has cancelled the consumer."""
        self._is_cancelled = True
        self.consumer.is_waiting = False
        waiting, self._waiting = self._waiting, deque()
        holder = self.holder
        for delivered in [*waiting, *self._withheld]:
            run = delivered.run
            holder.unsettled += run.count
            self._queue.give_back(number_of(holder, run.position), run.count)
        self._queue.forget(self)

    def withheld(self, runs: list[DeliveredRun]) -> None:
        """It was cancelled, and holds messages that are not sent to it: they go back with those
        that wait.
        """
        self._withheld += runs

    def holder_ended(self) -> None:
        """Drop the waiting deliveries, which the group has taken back."""
        self._waiting.clear()
        self._withheld.clear()


class TakenMessage(ConsumerCommand):
    """Takes one message. request: is answered with it."""

    __slots__ = (
        "_delivered", "_has_timed_out", "_left", "_queue", "ack_required", "request",
    )  # fmt: skip

    def __init__(self, queue: ConsumedQueue, ack_required: bool, request: TimedRequest) -> None:
        super().__init__()
        self._queue = queue
        self.ack_required = ack_required
        self.request = request
        self._has_timed_out = False
        self._delivered: DeliveredRun | None = None
        self._left = -1

    def encode(self, sender: int, seen: int) -> bytes:
        """Encode the command."""
        return encode_command(Get(sender, self.number, seen, not self.ack_required))

    def applied(self, result: object) -> None:
        """The result says whether there is a message. It is delivered before this or after it."""
        if self._has_timed_out:
            return
        if isinstance(result, Result) and result.outcome == Outcome.GOT:
            self._left = result.value
            self._give()
        else:
            self._queue.forget(self)
            self._queue.given.got_empty += 1
            self.request.give(None)

    def arrived(self, runs: list[DeliveredRun]) -> None:
        """Take the message that has arrived."""
        self._delivered = runs[0]
        self._give()

    def _give(self) -> None:
        delivered, queue, holder = self._delivered, self._queue, self.holder
        if delivered is None or self._left < 0:
            return
        first = number_of(holder, delivered.run.position)
        holder.unsettled += 1
        queue.forget(self)
        try:
            (entry,) = queue.reader.read(delivered, 1, first, queue.shows_zero)
        except RunError as error:
            queue.reject_unreadable(first, 1, error)
            self.request.refuse(internal_error("the message cannot be read"))
            return
        given = queue.given
        if delivered.run.returns:
            given.redelivered += 1
        if self.ack_required:
            given.got += 1
        else:
            given.got_no_ack += 1
            queue.settle_taken(first, 1)
        self.request.give(Got(entry, self._left))

    def withheld(self, runs: list[DeliveredRun]) -> None:
        """A single message always goes."""

    def timed_out(self, positions: list[int]) -> None:
        """Take another message, because this one was returned before its result arrived."""
        self._has_timed_out = True
        self._queue.take_again(self)

    def sender_ended(self) -> bool:
        """Take another message, because the group has taken back this one, if there was one."""
        return not self._has_timed_out

    def holder_ended(self) -> None:
        """Drop the message, which the group has taken back, if there was one."""
        self._delivered, self._left = None, -1

    def queue_ended(self, error: Exception, is_deleted: bool) -> None:
        """Answer with an error."""
        self.request.refuse(error)


def number_of(holder: Holder, position: int) -> int:
    """The number of the entry at a position in the queue (holders.py)."""
    return holder.key << POSITION_BITS | position
