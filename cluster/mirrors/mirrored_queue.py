"""A queue that may be mirrored: the `QueueClient` for clients of this node.

It is the same object through all changes of the leader, so that bindings, channels and consumers
can refer to it. Behind it is the leader: a classic queue if this node leads, otherwise a remote
queue. Publishing bypasses the leader, since messages go to all members (publishing.py).

While no node leads, requests and consumers wait for the next leader, and messages are still routed
to the queue. A queue that waits for a node to return is down: requests are refused with RabbitMQ's
404.

Unsettled deliveries of an earlier leader are stale: the next one has requeued the messages, so
settling them has no effect. Deliveries of other nodes have positions from `REMOTE_TAGS` on, above
all positions of a queue, and grow over all leaders; a queue of this node that stops leading marks
its deliveries with `STALE` (leader_session.py).

Invariants:
MC1. Each request is answered once (Q3): by a leader, or when the queue is deleted or down.
MC2. A consumer is subscribed at the leader, waits for the next one, or is told that the queue is
     gone.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import msgspec

from leveret.broker.amqp.errors import Fault
from leveret.broker.declarations.requester import Requester
from leveret.broker.queues.contract.arguments import QueueOptions
from leveret.broker.queues.contract.demand import Demand
from leveret.broker.queues.contract.publication import Publication
from leveret.broker.queues.contract.queue_client import (
    Consumer,
    Got,
    Hold,
    QueueClient,
    QueueLength,
    TimedQueue,
)
from leveret.broker.queues.contract.specification import QueueSpecification
from leveret.broker.queues.contract.status import (
    AgeFigures,
    CoarseCounts,
    ConsumerFigures,
    QueueFigures,
    QueueStatus,
)
from leveret.broker.runtime.names import QUEUE, resource
from leveret.broker.runtime.pending import Answer
from leveret.cluster.mirrors.publishing import MirroredPublishing
from leveret.cluster.remote_queues.clustered_queue import ClusteredQueue
from leveret.cluster.remote_queues.queue_frames import REMOTE_TAGS
from leveret.cluster.remote_queues.remote_figures import DOWN, NO_AGES, NOTHING_KNOWN
from leveret.storage.messages.message import Entry

NO_COUNTS = CoarseCounts()
NO_STATUS = msgspec.structs.replace(NOTHING_KNOWN.status, state=DOWN)


class NoFigures:
    """The `QueueFigures` of a queue without a leader."""

    def refresh(self, answer: Answer[None]) -> None:
        """There is nothing newer."""
        answer.give(None)

    def counts(self) -> CoarseCounts:
        """No messages are known."""
        return NO_COUNTS

    def ages(self) -> AgeFigures:
        """No messages are known."""
        return NO_AGES

    def consumers(self) -> list[ConsumerFigures]:
        """Consumers wait for the next leader."""
        return []

    def status(self) -> QueueStatus:
        """The queue is down."""
        return NO_STATUS

    def backing_queue_status(self) -> dict[str, Any]:
        """No messages are known."""
        return {}


NO_FIGURES: Final = NoFigures()


Ask = Callable[[QueueClient, Answer[Any]], object]
"""Asks a queue for an answer."""


class LeaderQuestion:
    """A request to a leader on another node, which is repeated to the next one.

    consumer: the one to be added; None for all other requests.
    """

    __slots__ = ("answer", "ask", "consumer")

    def __init__(self, ask: Ask, answer: Answer[Any], consumer: Consumer | None) -> None:
        self.ask = ask
        self.answer = answer
        self.consumer = consumer


class MirroredQueue(ClusteredQueue, TimedQueue):
    """The `QueueClient` of a queue that may be mirrored. It is never exclusive.

    leader: the queue that takes the calls; None while no node leads. is_down: it waits for a node.
    ended: called when the queue is deleted (True), or the node stops (False); may be replaced.
    """

    __slots__ = (
        "_cancelling", "_consumers", "_has_stale", "_leads_here", "_publishing", "_questions",
        "ended", "is_down", "leader",
    )  # fmt: skip

    def __init__(self, specification: QueueSpecification, publishing: MirroredPublishing) -> None:
        super().__init__(specification)
        self.is_down = False
        self.leader: QueueClient | None = None
        self.ended: Callable[[bool], object] = lambda is_deleted: None
        self._leads_here = self._has_stale = False
        self._publishing = publishing
        # Unanswered requests to a leader on another node, or to the next one; consumers that it was
        # asked to remove; consumers that wait for the next leader.
        self._questions: dict[LeaderQuestion, None] = {}
        self._cancelling: dict[Consumer, None] = {}
        self._consumers: dict[Consumer, None] = {}

    def __repr__(self) -> str:
        return f"mirrored {resource(QUEUE, self.name, self.vhost_name)}"

    # The leader

    def led_by(self, leader: QueueClient, *, is_here: bool) -> None:
        """Another queue leads. is_here: it is on this node, and not a remote queue."""
        assert self.leader is None, "a leader ends before the next one begins"
        self.leader = leader
        self._leads_here, self.is_down = is_here, False
        self.apply(self.options)
        if self.demand is not None:
            leader.watch(self.demand)
        questions, self._questions = self._questions, {}
        consumers, self._consumers = self._consumers, {}
        for consumer in consumers:
            if consumer.cancels_on_failover:
                _tell(consumer)
            else:
                self._subscribe_again(consumer)
        for question in questions:
            self._ask(question.ask, question.answer, question.consumer)

    def leads_again(self, leader: QueueClient) -> None:
        """A leader on another node has forgotten its requests: repeat them."""
        self.led_by(leader, is_here=False)

    def leader_lost(self, consumers: Iterable[Consumer]) -> None:
        """No node leads. consumers: those that the leader had."""
        self.leader = None
        if self.demand is not None:
            self.demand.end()
        self._has_stale = True
        asked = {question.consumer for question in self._questions}
        for consumer in consumers:
            if consumer not in asked and consumer not in self._cancelling:
                self._consumers[consumer] = None
        self._cancelling.clear()

    def awaits(self) -> None:
        """The queue is down until a node returns (`ha-promote-on-failure`)."""
        assert self.leader is None, "a queue with a leader is not down"
        self.is_down = True
        for consumer in self._end_waiting():
            consumer.tell_cancelled()

    def _end_waiting(self) -> list[Consumer]:
        """Refuse waiting requests (MC1, MC2); returns the consumers that waited."""
        questions, self._questions = self._questions, {}
        consumers, self._consumers = list(self._consumers), {}
        for question in questions:
            question.answer.refuse(self.gone)
        for consumer in consumers:
            consumer.queue_deleted()
        return consumers

    def _subscribe_again(self, consumer: Consumer) -> None:
        subscribed: Answer[None] = Answer()
        self.subscribe(consumer, subscribed)
        subscribed.when_given(lambda: self._subscribed_again(consumer, subscribed))

    def _subscribed_again(self, consumer: Consumer, subscribed: Answer[None]) -> None:
        try:
            subscribed.result()
        except Fault:
            # Another consumer was faster, and has the queue in exclusive use.
            _tell(consumer)

    # Publishing

    def publish(self, publication: Publication) -> None:
        """Send messages to all members."""
        self._publishing.publish(publication)

    def publish_each(self, publication: Publication) -> None:
        """Send messages, each with its own time to live, to all members."""
        self._publishing.publish_each(publication)

    @property
    def publisher_hold(self) -> Hold:
        """The hold for publishers of many messages at a time."""
        return self._publishing.hold

    # Settling

    def ack(self, entries: Sequence[Entry]) -> None:
        """Acknowledge delivered messages."""
        if (leader := self.leader) is not None and (current := self._current(entries)):
            leader.ack(current)

    def requeue(self, entries: Sequence[Entry], is_failed: bool = False) -> None:
        """Put delivered messages back."""
        if (leader := self.leader) is not None and (current := self._current(entries)):
            leader.requeue(current, is_failed)

    def discard(self, entries: Sequence[Entry]) -> None:
        """Reject delivered messages."""
        if (leader := self.leader) is not None and (current := self._current(entries)):
            leader.discard(current)

    def _current(self, entries: Sequence[Entry]) -> Sequence[Entry]:
        """The entries that the present leader has delivered. A remote queue knows its own."""
        if not self._has_stale:
            return entries
        if self._leads_here:
            return [entry for entry in entries if 0 <= entry.position < REMOTE_TAGS]
        return [entry for entry in entries if entry.position >= REMOTE_TAGS]

    @property
    def may_redeliver(self) -> bool:
        """Whether some of its messages may have been delivered before."""
        leader = self.leader
        return self._has_stale or (leader is not None and leader.may_redeliver)

    # Requests

    def _ask(self, ask: Ask, answer: Answer[Any], consumer: Consumer | None = None) -> None:
        leader = self.leader
        if self.is_down or self.is_deleted:
            answer.refuse(self.gone)
            return
        if leader is not None and self._leads_here:
            ask(leader, answer)
            return
        question = LeaderQuestion(ask, answer, consumer)
        self._questions[question] = None
        if leader is not None:
            attempt: Answer[Any] = Answer()
            ask(leader, attempt)
            attempt.when_given(lambda: self._answered(question, attempt, leader))

    def _answered(self, question: LeaderQuestion, attempt: Answer[Any], asked: QueueClient) -> None:
        is_lost = asked is not self.leader or asked.is_down
        if question not in self._questions or (is_lost and not self.is_deleted):
            # The request goes to the next leader, or has been answered.
            return
        del self._questions[question]
        attempt.pass_on(question.answer)

    def get(self, ack_required: bool, answer: Answer[Got | None]) -> None:
        """Take the first message, as basic.get does; None if there is none."""
        self._ask(lambda leader, attempt: leader.get(ack_required, attempt), answer)

    def length(self, answer: Answer[QueueLength]) -> None:
        """The numbers of messages and consumers."""
        self._ask(lambda leader, attempt: leader.length(attempt), answer)

    def purge(self, answer: Answer[int]) -> None:
        """Drop all ready messages; answers with their number."""
        self._ask(lambda leader, attempt: leader.purge(attempt), answer)

    def delete(
        self, if_unused: bool, if_empty: bool, requester: Requester, answer: Answer[int]
    ) -> None:
        """Delete the queue; answers with the number of its ready messages."""
        self._ask(
            lambda leader, attempt: leader.delete(if_unused, if_empty, requester, attempt), answer
        )

    # Consumers

    def subscribe(self, consumer: Consumer, answer: Answer[None]) -> None:
        """Add a consumer. Refused with 403 if the queue is in exclusive use."""
        self._ask(lambda leader, attempt: leader.subscribe(consumer, attempt), answer, consumer)

    def cancel(
        self, consumer: Consumer, channel_ended: bool = False, answer: Answer[None] | None = None
    ) -> None:
        """Remove a consumer. Until the leader answers, it gets messages that were sent before."""
        self._consumers.pop(consumer, None)
        for question in [one for one in self._questions if one.consumer is consumer]:
            del self._questions[question]
        if self.leader is None:
            if answer is not None:
                answer.give(None)
            return
        if self._leads_here:
            self.leader.cancel(consumer, channel_ended, answer)
            return
        cancelled: Answer[None] = Answer()
        self._cancelling[consumer] = None
        self.leader.cancel(consumer, channel_ended, cancelled)
        cancelled.when_given(lambda: self._cancelled(consumer, answer))

    def _cancelled(self, consumer: Consumer, answer: Answer[None] | None) -> None:
        self._cancelling.pop(consumer, None)
        if answer is not None:
            answer.give(None)

    def credit(self, consumer: Consumer) -> None:
        """A consumer that waited has room again."""
        if self.leader is not None:
            self.leader.credit(consumer)

    def watch(self, demand: Demand | None) -> None:
        """Pass the demand to the leader, which keeps it, if it is on this node."""
        self.demand = demand
        if self.leader is not None:
            self.leader.watch(demand)

    # The queue as a whole

    def apply(self, options: QueueOptions) -> None:
        """Policies have changed the options. Leaders on other nodes apply them by themselves."""
        self.options = options
        if self.leader is not None:
            self.leader.policy, self.leader.operator_policy = self.policy, self.operator_policy
            self.leader.apply(options)

    @property
    def figures(self) -> QueueFigures:
        """The leader's figures; without a leader, those of a queue that is down."""
        return NO_FIGURES if self.leader is None else self.leader.figures

    def delete_now(self) -> Sequence[Consumer]:
        """End the queue, which is deleted everywhere; returns the consumers that it had."""
        consumers = self._end(lambda leader: leader.delete_now(), is_deleted=True)
        self.ended(True)
        return consumers

    def close(self) -> Sequence[Consumer]:
        """End the queue, as the node stops or it is deleted; returns the consumers that it had."""
        consumers = self._end(lambda leader: leader.close(), is_deleted=False)
        self.ended(False)
        return consumers

    def _end(
        self, end: Callable[[QueueClient], Sequence[Consumer]], is_deleted: bool
    ) -> Sequence[Consumer]:
        """End the queue. The leader answers or loses requests; it may still answer a deletion."""
        self.is_deleted = True
        consumers = self._end_waiting() if self.leader is None else end(self.leader)
        self._publishing.end(is_deleted)
        return consumers


def _tell(consumer: Consumer) -> None:
    """A consumer has lost its queue."""
    consumer.queue_deleted()
    consumer.tell_cancelled()
