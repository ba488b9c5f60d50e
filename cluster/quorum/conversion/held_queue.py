"""Stands for a queue on one node while it is converted: keeps what clients publish and request.

It is released either to the queue that it stands for or to its successor, which then carries out
what was kept, in order. Afterwards it passes everything on to this queue: sessions refer to it as
long as they hold deliveries that they got, or asked for, before its release.

Invariants:
HE1. What is kept is done once, in order, by the queue that this object is released to.
HE2. A kept run is held for its publisher until that queue has it.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple

from leveret.broker.amqp.errors import Fault, not_found
from leveret.broker.declarations.requester import Requester
from leveret.broker.queues.contract.arguments import QueueOptions
from leveret.broker.queues.contract.demand import Demand
from leveret.broker.queues.contract.modifications import Modification, modify
from leveret.broker.queues.contract.publication import Publication
from leveret.broker.queues.contract.queue_client import Consumer, Got, QueueClient, QueueLength
from leveret.broker.queues.contract.queue_kind import QueueKind
from leveret.broker.queues.contract.status import QueueFigures
from leveret.broker.runtime.names import QUEUE, resource
from leveret.broker.runtime.pending import Answer
from leveret.storage.messages.message import Entry

HELD = "held"
"""The kind of held queues (held_factory.py), and their type in lists."""


class KeptRequest(NamedTuple):
    """A kept request. do: has a queue carry it out. give_up: no queue can."""

    do: Callable[[QueueClient], object]
    give_up: Callable[[], object]


class UntilRelease:
    """The `Hold` of a held queue: publishers of many messages wait."""

    is_wanted = True

    def __init__(self) -> None:
        self._waiting: list[Callable[[], object]] = []

    def begin(self, resume: Callable[[], object]) -> None:
        """A publisher waits."""
        self._waiting.append(resume)

    def release(self) -> None:
        """Publishers go on."""
        waiting, self._waiting = self._waiting, []
        for resume in waiting:
            resume()


class HeldQueue:
    """The `QueueClient` of a held queue.

    queue: the one that it stands for. consumers: those that are to be subscribed again.
    subscribes_later: by `subscribe_left`, not when it is released.
    """

    is_exchange: ClassVar[bool] = False
    is_down: ClassVar[bool] = False

    def __init__(
        self, vhost: str, queue: QueueClient, find_successor: Callable[[], QueueClient | None]
    ) -> None:
        """find_successor: called when the vhost has deleted the queue: finds that with its name."""
        self.queue = queue
        self.consumers: dict[Consumer, None] = {}
        self.vhost_name, self.name = vhost, queue.name
        self.durable, self.auto_delete = queue.durable, queue.auto_delete
        self.is_exclusive, self.owner_connection = queue.is_exclusive, queue.owner_connection
        self.arguments = queue.arguments
        self.declared, self.options = queue.declared, queue.options
        self.policy, self.operator_policy = queue.policy, queue.operator_policy
        self.bindings: dict[Any, Any] = {}
        self.storage_id, self.placement = queue.storage_id, queue.placement
        self.kind: QueueKind = replace(queue.kind, name=HELD)
        self.demand: Demand | None = queue.demand
        self.is_deleted = False
        self.publisher_hold = UntilRelease()
        self.subscribes_later = False
        self._find_successor = find_successor
        self._kept: list[KeptRequest] = []
        self._successor: QueueClient | None = None

    def __repr__(self) -> str:
        return f"held {resource(QUEUE, self.name, self.vhost_name)}"

    @property
    def gone(self) -> Exception:
        """The error for requests that no queue can carry out."""
        return not_found(f"no {resource(QUEUE, self.name, self.vhost_name)}")

    @property
    def may_redeliver(self) -> bool:
        """Whether some of its messages may have been delivered before."""
        return self._present.may_redeliver

    @property
    def figures(self) -> QueueFigures:
        """Those of the queue that it stands for, or was released to."""
        return self._present.figures

    @property
    def _present(self) -> QueueClient:
        return self.queue if self._successor is None else self._successor

    def _do(self, kept: KeptRequest) -> None:
        if self._successor is not None:
            kept.do(self._successor)
        elif self.is_deleted:
            kept.give_up()
        else:
            self._kept.append(kept)

    def _ask(self, answer: Answer[Any], ask: Callable[[QueueClient], object]) -> None:
        self._do(KeptRequest(ask, lambda: answer.refuse(self.gone)))

    # The end

    def release(self, queue: QueueClient) -> None:
        """Have a queue do what was kept, and pass everything on to it from now on."""
        assert self._successor is None, "HE1: it is released once"
        self._successor = queue
        if not self.subscribes_later:
            self.subscribe_left()
        kept, self._kept = self._kept, []
        for one in kept:
            one.do(queue)
        if queue.demand is not self.demand:
            queue.watch(self.demand)
        self.publisher_hold.release()

    def subscribe_left(self) -> None:
        """Subscribe the consumers at the queue that it was released to."""
        assert self._successor is not None, "HE1: it is released before"
        consumers, self.consumers = self.consumers, {}
        for consumer in consumers:
            subscribe_again(self._successor, consumer)

    def delete_now(self) -> Sequence[Consumer]:
        """The vhost has deleted the queue, or its successor has its name."""
        successor = self._find_successor()
        if successor is not None:
            self.release(successor)
            return ()
        self.queue.delete_now()
        return self._end()

    def close(self) -> Sequence[Consumer]:
        """The node stops."""
        self.queue.close()
        return self._end()

    def _end(self) -> Sequence[Consumer]:
        """No queue can do what was kept."""
        self.is_deleted = True
        consumers, self.consumers = list(self.consumers), {}
        kept, self._kept = self._kept, []
        for one in kept:
            one.give_up()
        self.publisher_hold.release()
        for consumer in consumers:
            consumer.queue_deleted()
        return consumers

    # Publishing and settling

    def publish(self, publication: Publication) -> None:
        """Keep messages."""
        publisher = publication.publisher
        if self._successor is not None:
            self._successor.publish(publication)
        elif publisher is None:
            self._do(KeptRequest(lambda queue: queue.publish(publication), _nothing))
        elif not self.is_deleted:
            first = publication.first
            publisher.hold(first, len(publication.messages), self)

            def publish(queue: QueueClient) -> None:
                queue.publish(publication)
                # HE2: that queue holds the run, if it has to be waited for.
                publisher.confirm(first, self)

            self._do(KeptRequest(publish, lambda: publisher.holder_died(self, False)))

    def ack(self, entries: Sequence[Entry]) -> None:
        """Acknowledge delivered messages."""
        self._do(KeptRequest(lambda queue: queue.ack(entries), _nothing))

    def requeue(self, entries: Sequence[Entry], is_failed: bool = False) -> None:
        """Put delivered messages back."""
        self._do(KeptRequest(lambda queue: queue.requeue(entries, is_failed), _nothing))

    def discard(self, entries: Sequence[Entry]) -> None:
        """Reject delivered messages."""
        self._do(KeptRequest(lambda queue: queue.discard(entries), _nothing))

    def modify(self, entries: Sequence[Entry], modification: Modification) -> None:
        """Take modified messages back."""
        self._do(KeptRequest(lambda queue: modify(queue, entries, modification), _nothing))

    # Questions

    def get(self, ack_required: bool, answer: Answer[Got | None]) -> None:
        """Take the first message."""
        self._ask(answer, lambda queue: queue.get(ack_required, answer))

    def length(self, answer: Answer[QueueLength]) -> None:
        """The numbers of messages and consumers."""
        self._ask(answer, lambda queue: queue.length(answer))

    def purge(self, answer: Answer[int]) -> None:
        """Drop all ready messages."""
        self._ask(answer, lambda queue: queue.purge(answer))

    def delete(
        self, if_unused: bool, if_empty: bool, requester: Requester, answer: Answer[int]
    ) -> None:
        """Delete the queue."""
        self._ask(answer, lambda queue: queue.delete(if_unused, if_empty, requester, answer))

    # Consumers

    def subscribe(self, consumer: Consumer, answer: Answer[None]) -> None:
        """Add a consumer."""

        def subscribe(queue: QueueClient) -> None:
            consumer.queue_replaced(queue)
            queue.subscribe(consumer, answer)

        self._ask(answer, subscribe)

    def cancel(
        self, consumer: Consumer, channel_ended: bool = False, answer: Answer[None] | None = None
    ) -> None:
        """Remove a consumer. One that was to be subscribed again is forgotten."""

        def told() -> None:
            if answer is not None:
                answer.give(None)

        if consumer in self.consumers:
            del self.consumers[consumer]
            told()
        else:
            self._do(KeptRequest(lambda queue: queue.cancel(consumer, channel_ended, answer), told))

    def credit(self, consumer: Consumer) -> None:
        """A consumer has room again. It is asked for its room when it is subscribed."""
        consumer.is_waiting = False
        if self._successor is not None:
            self._successor.credit(consumer)

    def watch(self, demand: Demand | None) -> None:
        """Keep a demand up to date."""
        self.demand = demand
        if self._successor is not None:
            self._successor.watch(demand)

    def apply(self, options: QueueOptions) -> None:
        """Policies have changed the options: those of the queue that it stands for change, too."""
        self.options = options
        queue = self.queue
        queue.policy, queue.operator_policy = self.policy, self.operator_policy
        queue.apply(options)


def subscribe_again(queue: QueueClient, consumer: Consumer) -> None:
    """Subscribe a consumer, which is told if that is refused."""
    consumer.queue_replaced(queue)
    subscribed: Answer[None] = Answer()

    def answered() -> None:
        try:
            subscribed.result()
        except Fault:
            consumer.queue_deleted()
            consumer.tell_cancelled()

    queue.subscribe(consumer, subscribed)
    subscribed.when_given(answered)


def _nothing() -> None:
    """No client waits for it."""
