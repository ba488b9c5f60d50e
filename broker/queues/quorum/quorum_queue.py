"""The quorum queue of a node on its own: a queue of one member, with RabbitMQ's rules.

It keeps messages as a classic queue does, and differs from one in these rules (RabbitMQ's
`rabbit_quorum_queue` and `rabbit_fifo`):

- Every message is persistent, whatever its delivery mode is.
- A message that is returned counts its returns (returned.py). If they exceed the delivery limit, it
  is dead-lettered with the reason `delivery_limit`. If there is a limit or its channel has ended, a
  message goes to the front, behind those that were returned before; otherwise it goes to the end.
- A full queue that refuses publishes takes one message more than the limit, and then none until
  a fifth of the limit is free.
- With the dead-letter strategy at-least-once, if its preconditions hold, a message that dies stays
  in the queue until all of its targets have confirmed it (retained.py).
- Consumers are never exclusive; the first one is the single active consumer; a consumer without a
  prefetch limit may hold 2,000 messages; basic.get needs competing consumers.
- The conditions of queue.delete are not supported. Only consumers and basic.get count as use.

Returned messages are published again in turns, each with as many as its budget of work allows
(broker/runtime/turns.py). Until then they count as unacknowledged.
"""

from collections import deque
from collections.abc import Sequence
from typing import ClassVar

from leveret.broker.amqp.content_header import ContentHeader
from leveret.broker.amqp.errors import not_implemented, resource_locked
from leveret.broker.declarations.requester import Requester
from leveret.broker.queues.classic.classic_queue import ClassicQueue
from leveret.broker.queues.contract.arguments import (
    DROP_HEAD,
    REJECT_PUBLISH_DLX,
    QueueOptions,
)
from leveret.broker.queues.contract.priority_levels import PriorityLevels
from leveret.broker.queues.contract.publication import Publication
from leveret.broker.queues.contract.queue_client import Consumer, Got, QueueLength
from leveret.broker.queues.contract.queue_kind import QueueKind
from leveret.broker.queues.contract.queue_owner import QueueOwner
from leveret.broker.queues.contract.specification import QueueSpecification
from leveret.broker.queues.dead_letters.header import DELIVERY_LIMIT
from leveret.broker.queues.dead_letters.retained import (
    NO_RETAINED_DEAD_LETTERS,
    RetainedDeadLetters,
)
from leveret.broker.queues.quorum.quorum_figures import QuorumFigures
from leveret.broker.queues.quorum.returned import (
    LEVELS,
    delivered,
    is_marked,
    original,
    return_count,
    returned,
    without_mark,
)
from leveret.broker.queues.quorum_kind import QUORUM_QUEUE
from leveret.broker.runtime.names import QUEUE, resource
from leveret.broker.runtime.pending import Answer
from leveret.storage.contract.backing_queue import BackingQueue
from leveret.storage.messages.message import Entry, Header, Message
from leveret.storage.messages.message_run import run_of

RETURN_WORK = 50
"""The work of returning a message, in the units of broker/runtime/turns.py."""
ROOM_AGAIN = 0.8
"""The share of a limit to which a queue must shrink before it takes messages again."""


class LogRequest:
    """A `Waiter` that only wants the log to be written."""

    def confirm(self, first: int, holder: object) -> None:
        """Do nothing."""


LOG_REQUEST = LogRequest()


class QuorumQueue(ClassicQueue):
    """A queue of one member whose messages are kept by this process."""

    __slots__ = ("_figures_without_letters", "_is_refusing", "_kept", "_letters", "_returning")

    kind: ClassVar[QueueKind] = QUORUM_QUEUE
    levels: ClassVar[PriorityLevels | None] = LEVELS
    elects_by_priority: ClassVar[bool] = False

    def __init__(
        self,
        owner: QueueOwner,
        specification: QueueSpecification,
        backing: BackingQueue | None = None,
    ) -> None:
        super().__init__(owner, specification, backing)
        self._returning: deque[tuple[Entry, bool]] = deque()
        self._is_refusing = False
        self._kept: tuple[Header, Header] | None = None
        self._letters = RetainedDeadLetters(self, self._owner)
        self._figures_without_letters = self.figures
        self._differ()

    def _differ(self) -> None:
        """Replace parts of a classic queue.

        In `__init__`, mypyc would not release the old values of the attributes, which would stay.
        """
        self.options = _supported(self.options)
        self._letters.set_wanted(self.options.keeps_dead_letters)
        self._deaths.keeper = self._letters
        self.figures = QuorumFigures(self.figures, self._letters)

    def __repr__(self) -> str:
        return f"<QuorumQueue {self.name!r}>"

    def apply(self, options: QueueOptions) -> None:
        """Policies have changed the options; they take effect at once."""
        options = _supported(options)
        self._letters.set_wanted(options.keeps_dead_letters)
        super().apply(options)

    # Publishing

    def publish(self, publication: Publication) -> None:
        """Take messages, all of which are kept on disk."""
        messages = publication.messages
        if not all(message.header.is_persistent for message in messages) or any(
            is_marked(message.header) for message in messages
        ):
            publication = publication.of([self._kept_message(message) for message in messages])
        super().publish(publication)

    def _kept_message(self, message: Message) -> Message:
        header = message.header
        if header.is_persistent and not is_marked(header):
            return message
        kept = self._keep(header)
        return Message(message.address, kept, message.body, message.stored, message.number)

    def _keep(self, header: Header) -> Header:
        """The properties to keep. Equal messages share one object."""
        if self._kept is None or self._kept[0] is not header:
            assert isinstance(header, ContentHeader)
            cleaned = without_mark(header) if is_marked(header) else header
            self._kept = (header, cleaned.as_persistent())
        return self._kept[1]

    def _would_overflow(self, message: Message) -> bool:
        options, backing = self.options, self.backing
        ready_count = backing.ready_count + self._letters.count
        ready_bytes = backing.ready_bytes + self._letters.body_bytes
        if options.is_exceeded(ready_count, ready_bytes):
            self._is_refusing = True
        elif self._is_refusing:
            self._is_refusing = not _has_room(options.max_length, ready_count) or not _has_room(
                options.max_length_bytes, ready_bytes
            )
        return self._is_refusing

    # Delivering

    def _hand_over(self, entries: list[Entry], consumer: Consumer) -> None:
        self._write_deliveries(not consumer.no_ack)
        super()._hand_over([delivered(entry, shows_zero=False) for entry in entries], consumer)

    def get(self, ack_required: bool, answer: Answer[Got | None]) -> None:
        """Take the first message. Refused with 405 if there is a single active consumer."""
        if self.ring.is_single_active:
            what = resource(QUEUE, self.name, self.vhost_name)
            answer.refuse(
                resource_locked(
                    f"cannot obtain access to locked {what}. basic.get operations are not "
                    "supported by quorum queues with single active consumer"
                )
            )
            return
        taken: Answer[Got | None] = Answer()
        super().get(ack_required, taken)
        taken.when_given(lambda: self._give(taken.result(), ack_required, answer))

    def _write_deliveries(self, ack_required: bool) -> None:
        """With a limit, have the log written in this round: deliveries count, also after a kill."""
        if ack_required and self.options.delivery_limit is not None:
            self.backing.when_safe(LOG_REQUEST, 0, self)

    def _give(self, got: Got | None, ack_required: bool, answer: Answer[Got | None]) -> None:
        if got is not None:
            self._write_deliveries(ack_required)
            entry = delivered(got.entry, shows_zero=True)
            self.counts.redelivered += entry.redelivered and entry is not got.entry
            got = got._replace(entry=entry)
        answer.give(got)

    # Settling

    def requeue(self, entries: Sequence[Entry], is_failed: bool = False) -> None:
        """Return delivered messages to the queue."""
        if self.is_deleted:
            super().requeue(entries)
            return
        self.may_redeliver = True
        is_first = is_failed or self.options.delivery_limit is not None
        self._returning.extend((entry, is_first) for entry in entries)
        self._return_some()

    def _return_some(self) -> None:
        """Publish returned messages again, up to the work of one turn."""
        limit = self.options.delivery_limit
        while self._returning and self._turns.work_left > 0:
            self._turns.work_left -= RETURN_WORK
            entry, is_first = self._returning.popleft()
            message, count = entry.message, return_count(entry.message) + 1
            if limit is not None and count > limit:
                self._deaths.dead_letter(message, DELIVERY_LIMIT)
            else:
                again = run_of([returned(message, count, is_first)])
                self.backing.publish(again, entry.expires_at_ms)
            self.backing.ack([entry])
        self._deaths.drop_expired()
        self._deaths.enforce_limits()
        if self._returning or (self.backing.ready_count and self.ring.has_candidates):
            self._turns.wake(self)

    def take_turn(self) -> None:
        """Take back returned messages, and deliver to consumers."""
        if self._returning:
            self._return_some()
        super().take_turn()

    def as_published(self, message: Message) -> Message:
        """A message of the queue as it is dead-lettered: without its delivery count."""
        return original(message)

    # Consumers

    def subscribe(self, consumer: Consumer, answer: Answer[None]) -> None:
        """Add a consumer, whether or not it asks to be the only one."""
        self._add_consumer(consumer, answer)

    # The queue as a whole

    def length(self, answer: Answer[QueueLength]) -> None:
        """The numbers of messages and consumers. Does not count as use of the queue."""
        self.settle_deliveries()
        answer.give(QueueLength(self.backing.ready_count, len(self.ring.consumers)))

    def delete(
        self, if_unused: bool, if_empty: bool, requester: Requester, answer: Answer[int]
    ) -> None:
        """Delete the queue. Refused with 540 if a condition is set."""
        for is_set, flag in ((if_unused, "if-unused"), (if_empty, "if-empty")):
            if is_set:
                what = resource(QUEUE, self.name, self.vhost_name)
                answer.refuse(
                    not_implemented(
                        f"cannot delete {what}. queue.delete operations with {flag} flag set are "
                        "not supported by quorum queues"
                    )
                )
                return
        super().delete(False, False, requester, answer)

    def delete_now(self) -> Sequence[Consumer]:
        """The virtual host has deleted the queue: free everything; return its consumers."""
        letters = self._letters
        self._returning.clear()
        consumers = super().delete_now()
        letters.delete()
        return consumers

    def close(self) -> Sequence[Consumer]:
        """The node stops, or the queue is deleted: data on disk stays there."""
        # Without these cycles a queue is freed at once, not by a full collection of garbage.
        letters, self._letters = self._letters, NO_RETAINED_DEAD_LETTERS
        self.figures = self._figures_without_letters
        letters.close()
        return super().close()


def _supported(options: QueueOptions) -> QueueOptions:
    """The options without those that quorum queues do not have."""
    if options.overflow == REJECT_PUBLISH_DLX:
        return options._replace(overflow=DROP_HEAD)
    return options


def _has_room(limit: int | None, number: int) -> bool:
    return limit is None or number <= int(limit * ROOM_AGAIN)
