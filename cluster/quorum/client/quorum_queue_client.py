"""The `QueueClient` of a quorum queue, for clients on this node, wherever the leader is.

The object stays the same when the leader changes. Requests of clients become commands (gathered.py,
commands.py, consumers.py) of one stream (group_client.py), which the service of the group sends to
the leader (group_service.py). All publishes of one turn are one command, and so are the settlements
of each consumer.

While there is no leader with a majority, publishes are queued and publishers have to wait
(unapplied_hold.py). Other requests are answered with RabbitMQ's error after a time limit
(timed_request.py). A passive declare is answered with the numbers that are known, as in RabbitMQ.

Invariants:
QC1. Each request is answered once (Q3), in time.
QC2. Each run of a publisher is confirmed or refused, once (Q2; commands.py).
"""

import logging
from collections.abc import Mapping, Sequence

from leveret.broker.amqp.errors import (
    ConnectionFault,
    Fault,
    internal_error,
    not_implemented,
    resource_locked,
)
from leveret.broker.declarations.requester import Requester
from leveret.broker.queues.contract.arguments import DROP_HEAD, REJECT_PUBLISH_DLX, QueueOptions
from leveret.broker.queues.contract.demand import Demand
from leveret.broker.queues.contract.modifications import Modification, give_back
from leveret.broker.queues.contract.publication import OWN_TTL, Publication
from leveret.broker.queues.contract.queue_client import (
    Consumer,
    Got,
    QueueLength,
    TimedQueue,
)
from leveret.broker.queues.contract.queue_owner import QueueOwner
from leveret.broker.queues.contract.specification import QueueSpecification
from leveret.broker.queues.contract.status import CoarseCounts
from leveret.broker.runtime.pending import Answer
from leveret.cluster.quorum.client.commands import (
    DISCARD,
    RETURN,
    RETURN_FAILED,
    RETURN_UNSEEN,
    SETTLE,
    CancelConsumer,
    PurgeQueue,
    QuorumSenders,
)
from leveret.cluster.quorum.client.consumers import ClientConsumer, TakenMessage
from leveret.cluster.quorum.client.consuming_client import (
    ConsumerCommand,
    ConsumingClient,
    TellDeliveredBytes,
)
from leveret.cluster.quorum.client.delivery_reader import DeliveryReader
from leveret.cluster.quorum.client.ended_group import ENDED_GROUP
from leveret.cluster.quorum.client.gathered import Gathered
from leveret.cluster.quorum.client.group_service import GroupService
from leveret.cluster.quorum.client.holders import POSITION_MASK
from leveret.cluster.quorum.client.led_figures import LedFigures
from leveret.cluster.quorum.client.length_requests import LengthRequests
from leveret.cluster.quorum.client.told_effects import tell
from leveret.cluster.quorum.machine.effects import Effect
from leveret.cluster.remote_queues.queue_frames import FullFigures
from leveret.cluster.remote_queues.remote_figures import RemoteFigures
from leveret.cluster.replicated_queues.client.ended_figures import ENDED_FIGURES
from leveret.cluster.replicated_queues.client.group_client import SendCommands, StartSession
from leveret.cluster.replicated_queues.client.group_queue_client import GroupQueueClient
from leveret.cluster.replicated_queues.client.numbered_command import NumberedCommand
from leveret.cluster.replicated_queues.client.own_node import OwnNode
from leveret.storage.messages.message import Entry

logger = logging.getLogger("leveret.cluster")


class QuorumQueueClient(GroupQueueClient, TimedQueue):
    """The `QueueClient` of a quorum queue.

    reader: decodes deliveries.
    """

    __slots__ = (
        "_consumers", "_credited", "_gathered", "_group", "_lengths", "_service", "given", "reader",
    )  # fmt: skip

    def __init__(
        self,
        owner: QueueOwner,
        specification: QueueSpecification,
        node: OwnNode,
        service: GroupService,
    ) -> None:
        super().__init__(owner, specification, node)
        self.given = node.given
        self._service: GroupService = service
        self.options = _supported(self.declared)
        self.figures = LedFigures(self)
        self.reader = DeliveryReader(node.addresses, node.tells_returns)
        self._group = ConsumingClient(QuorumSenders(node.senders))
        self._gathered = Gathered(self._group, self._hold)
        self._consumers: dict[Consumer, ClientConsumer] = {}
        self._credited: dict[ClientConsumer, None] = {}
        self._lengths = LengthRequests(self._group, owner.clock, service.is_new)

    def __repr__(self) -> str:
        return f"quorum {self._what}"

    # Turns

    def take_turn(self) -> None:
        """Send the gathered requests to the group. Hand messages to consumers that have room."""
        credited, self._credited = self._credited, {}
        for consumer in credited:
            consumer.hand_over()
        self._gathered.flush()
        self._do_outputs()

    def _do_outputs(self) -> None:
        service = self._service
        for output in self._group.take_outputs():
            if isinstance(output, StartSession):
                service.attach(output.session, output.sender, output.seen, output.received)
            elif isinstance(output, SendCommands):
                service.send(output.session, output.payloads)
            elif isinstance(output, TellDeliveredBytes):
                service.took(output.session, output.consumer, output.octets)

    # The leader

    def leader_found(self) -> None:
        """The leader is known and can be reached."""
        self._group.leader_found()
        self._has_begun()
        if self._lengths.waiting:
            self._lengths.look(self._service)
        self._turns.wake(self)

    def leader_lost(self) -> None:
        """The leader is not known, or cannot be reached."""
        self._group.leader_lost()

    def told(self, session: int, effects: list[Effect], entries: Mapping[int, bytes]) -> None:
        """Take effects of the leader for this client. entries: those that deliveries refer to."""
        tell(self._group, session, effects, entries)
        if self._lengths.waiting:
            self._lengths.look(self._service)
        self._turns.wake(self)

    @property
    def expires_on_time(self) -> bool:
        """Whether messages expire wherever they are in the queue."""
        wanted = self.options.expires_on_time
        if wanted is None:
            wanted = self.owner.expires_on_time
        return wanted and self._node.takes_expiry()

    # Publishing

    def publish(self, publication: Publication) -> None:
        """Publish messages."""
        if self.is_deleted:
            return
        is_once = self.options.deduplicates and self._node.takes_identifiers()
        takes_times = publication.ttl_ms == OWN_TTL and self._node.takes_own_times()
        self._gathered.publish(publication, is_once, takes_times)
        if not self.is_awake:
            self._turns.wake(self)

    def publish_each(self, publication: Publication) -> None:
        """Publish messages, each with its own time to live."""
        self.publish(publication)

    # Settling

    def ack(self, entries: Sequence[Entry]) -> None:
        """Acknowledge delivered messages."""
        self.given.acked += len(entries)
        self._settle(SETTLE, entries)

    def requeue(self, entries: Sequence[Entry], is_failed: bool = False) -> None:
        """Put delivered messages back."""
        self._settle(RETURN_FAILED if is_failed else RETURN, entries)

    def discard(self, entries: Sequence[Entry]) -> None:
        """Reject delivered messages."""
        self._settle(DISCARD, entries)

    def modify(self, entries: Sequence[Entry], modification: Modification) -> None:
        """Take modified messages back; without their annotations while a node takes none."""
        if not self._node.takes_annotations():
            give_back(self, entries, modification)
        elif not self.is_deleted:
            self._gathered.modify(entries, modification)
            self._turns.wake(self)

    def _settle(self, action: int, entries: Sequence[Entry]) -> None:
        if self.is_deleted:
            return
        self._gathered.settle(action, entries)
        if not self.is_awake:
            self._turns.wake(self)

    def settle_taken(self, first: int, count: int) -> None:
        """Settle deliveries that need no ack, once handed over. first: the first entry's number."""
        self._gathered.settle_run(SETTLE, first, count)
        self._turns.wake(self)

    def took(self, subscription: ConsumerCommand, octets: int) -> None:
        """Deliveries of this size were handed over: the leader sends more."""
        self._group.took(subscription, octets)
        self._turns.wake(self)

    def give_back(self, first: int, count: int) -> None:
        """Return deliveries that were not handed over. first: the number of the first entry."""
        self._gathered.settle_run(RETURN_UNSEEN, first, count)
        self._turns.wake(self)

    def reject_unreadable(self, first: int, count: int, error: Exception) -> None:
        """Reject deliveries that cannot be read. first: the number of the first entry."""
        logger.error(
            "%d messages of %s from position %d cannot be read, and are rejected: %s",
            count, self._what, first & POSITION_MASK, error,
        )  # fmt: skip
        self.reader.forget()
        self._gathered.settle_run(DISCARD, first, count)
        self._turns.wake(self)

    @property
    def shows_zero(self) -> bool:
        """Whether basic.get shows a delivery count of 0."""
        return self._node.shows_zero

    # Requests with answers

    def _ask(self, command: NumberedCommand) -> None:
        """Send a command to the group, after all requests that came before."""
        self._gathered.flush()
        self._group.add(command)
        self._turns.wake(self)

    def _timed_out(self, doing: str) -> ConnectionFault:
        """RabbitMQ's error for a queue without a majority."""
        return internal_error(f"Cannot {doing} queue '{self._what}': timeout")

    def get(self, ack_required: bool, answer: Answer[Got | None]) -> None:
        """Take the first message. Refused with 405 if there is a single active consumer."""
        if self.is_deleted:
            answer.refuse(self.gone)
            return
        if self.options.single_active_consumer:
            answer.refuse(
                resource_locked(
                    f"cannot obtain access to locked {self._what}. basic.get operations are not "
                    "supported by quorum queues with single active consumer"
                )
            )
            return
        request = self._timed(answer, "get a message from")
        self._ask(TakenMessage(self, ack_required, request))

    def length(self, answer: Answer[QueueLength]) -> None:
        """The numbers of messages and consumers. Does not count as use of the queue."""
        self._gathered.flush()
        self._turns.wake(self)
        self._lengths.add(answer, self._service)

    def purge(self, answer: Answer[int]) -> None:
        """Drop all ready messages. Answers with their number."""
        if self.is_deleted:
            answer.refuse(self.gone)
            return
        self._ask(PurgeQueue(self._timed(answer, "purge")))

    def delete(
        self, if_unused: bool, if_empty: bool, requester: Requester, answer: Answer[int]
    ) -> None:
        """Delete the queue. Refused with 540 if a condition is set."""
        for is_set, flag in ((if_unused, "if-unused"), (if_empty, "if-empty")):
            if is_set:
                answer.refuse(
                    not_implemented(
                        f"cannot delete {self._what}. queue.delete operations with {flag} flag set "
                        "are not supported by quorum queues"
                    )
                )
                return
        length: Answer[QueueLength] = Answer()
        self.length(length)
        length.when_given(lambda: self._delete(length, requester, answer))

    def _delete(
        self, length: Answer[QueueLength], requester: Requester, answer: Answer[int]
    ) -> None:
        try:
            count = length.result().ready_count
        except Fault as error:
            # Another client has deleted the queue meanwhile, or the node stops.
            answer.refuse(error)
            return
        self.owner.delete_queue(self, requester, answer.preceding(count))

    # Consumers

    def subscribe(self, consumer: Consumer, answer: Answer[None]) -> None:
        """Add a consumer. It may ask to be the only one (exclusive)."""
        if self.is_deleted:
            answer.refuse(self.gone)
            return
        request = self._timed(answer, "consume from")
        added = self._consumers[consumer] = ClientConsumer(self, consumer, request)
        self._ask(added)

    def cancel(
        self, consumer: Consumer, channel_ended: bool = False, answer: Answer[None] | None = None
    ) -> None:
        """Remove a consumer. It still gets messages given to it before the group removes it."""
        removed = self._consumers.get(consumer)
        if removed is None:
            if answer is not None:
                answer.give(None)
            return
        self._gathered.flush()
        removed.cancel(channel_ended)
        self._ask(CancelConsumer(removed, channel_ended, lambda: self._cancelled(removed, answer)))

    def _cancelled(self, removed: ClientConsumer, answer: Answer[None] | None) -> None:
        self._consumers.pop(removed.consumer, None)
        self._credited.pop(removed, None)
        removed.cancelled()
        if answer is not None:
            answer.give(None)

    def forget(self, subscription: ConsumerCommand) -> None:
        """Drop a subscription that gets no more messages."""
        self._group.forget(subscription)

    def take_again(self, taken: TakenMessage) -> None:
        """Take another message, because this one was returned before it was taken."""
        self._group.forget(taken)
        self._ask(CancelConsumer(taken, True, _nothing))
        self._ask(TakenMessage(self, taken.ack_required, taken.request))

    def credit(self, consumer: Consumer) -> None:
        """Hand over messages to a consumer that has room again."""
        consumer.is_waiting = False
        waiting = self._consumers.get(consumer)
        if waiting is not None:
            self._credited[waiting] = None
            self._turns.wake(self)

    def watch(self, demand: Demand | None) -> None:
        """Keep this demand up to date while the leader is on this node."""
        self.demand = demand
        self._service.watch(demand)

    # Figures

    @property
    def has_leader(self) -> bool:
        """Whether a leader is known."""
        return self._group.is_led

    @property
    def is_away(self) -> bool:
        """Whether no leader is known, so that requests for figures would not be answered."""
        return not self._group.is_led

    def now_ms(self) -> int:
        """The broker's time."""
        return self._clock.now_ms()

    def own_counts(self) -> CoarseCounts | None:
        """The counts, if this node leads."""
        return self._service.own_counts()

    def own_status(self) -> FullFigures | None:
        """All figures, if this node leads."""
        return self._service.own_status()

    def want_counts(self) -> None:
        """Ask for the counts, in one request with those of other queues."""
        figures = self.figures
        if isinstance(figures, RemoteFigures):
            self._service.want_counts(figures)

    def ask_status(self, answer: Answer[FullFigures]) -> None:
        """Ask for all figures."""
        self._service.ask_status(answer)

    # The queue as a whole

    def apply(self, options: QueueOptions) -> None:
        """Take options that policies have changed."""
        self.options = _supported(options)
        self._service.configure(self.options)

    def delete_now(self) -> Sequence[Consumer]:
        """End: the queue is deleted everywhere. Returns the consumers that it had."""
        return self._end(is_deleted=True, confirms=True)

    def replaced(self) -> Sequence[Consumer]:
        """End: another queue has the name. Refuses publishes that are not applied."""
        return self._end(is_deleted=True, confirms=False)

    def close(self) -> Sequence[Consumer]:
        """End: the node stops. Refuses publishes that are not applied."""
        return self._end(is_deleted=False, confirms=False)

    def _end(self, is_deleted: bool, confirms: bool) -> Sequence[Consumer]:
        """Answer all requests (QC1, QC2). confirms: those to publish are done with."""
        self._gathered.flush()
        self.is_deleted = True
        if self.demand is not None:
            self.demand.end()
        consumers, self._consumers = list(self._consumers), {}
        self._credited.clear()
        for command in self._group.close():
            command.queue_ended(self.gone, confirms)
        self._lengths.refuse(self.gone)
        self._refuse_begin()
        self._hold.release()
        self.reader.forget()
        service, self._service = self._service, ENDED_GROUP
        service.close(is_deleted)
        self.figures = ENDED_FIGURES
        for consumer in consumers:
            consumer.queue_deleted()
        return consumers


def _nothing() -> None:
    """Called when a consumer is cancelled whose client does not wait for that."""


def _supported(options: QueueOptions) -> QueueOptions:
    """The options, without those that quorum queues do not support."""
    if options.overflow == REJECT_PUBLISH_DLX:
        return options._replace(overflow=DROP_HEAD)
    return options
