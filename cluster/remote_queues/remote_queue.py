"""A queue on another node, as the clients of this node use it. See `QueueClient`.

All requests are sent to the home node, in the order in which they come (Q1), over one link. Runs of
messages are not split. The home node performs the requests on the queue (hosted_queue.py).

When the link goes down, unconfirmed publishes are refused, questions are refused with RabbitMQ's
404, and consumers are cancelled, or left to the next leader of a mirrored queue. The home node
requeues unsettled deliveries: settling them here has no effect. While there is no link, no messages
are routed to the queue.

Publishers are held back while the home node has not taken more than `WINDOW_BYTES` sent to the
queue, or while the link is congested.

Invariants:
RQ1. Each run of a publisher is confirmed or refused, once (Q2; owed_confirms.py).
RQ2. A tag is sent to the home node at most once, and only over the link that it came by: tags below
     `_first_tag` are of earlier links. All are above the positions of queues of this node, so local
     and remote deliveries of a mirrored queue can be told apart.
RQ3. After `close` nothing is sent for the queue. Its number is closed when the deletions
     requested by clients of this node have been answered.
"""

from collections.abc import Callable, Sequence
from typing import Any

from leveret.broker.amqp.field_table import bytes_of
from leveret.broker.declarations.requester import Requester
from leveret.broker.queues.contract.arguments import QueueOptions
from leveret.broker.queues.contract.demand import Demand
from leveret.broker.queues.contract.placement import Placement
from leveret.broker.queues.contract.publication import Publication
from leveret.broker.queues.contract.queue_client import (
    Consumer,
    Got,
    QueueClient,
    QueueLength,
    TimedQueue,
)
from leveret.broker.queues.contract.specification import QueueSpecification
from leveret.broker.queues.contract.status import UP
from leveret.broker.runtime.names import QUEUE, resource
from leveret.broker.runtime.pending import Answer
from leveret.cluster.remote_queues import queue_frames as frames
from leveret.cluster.remote_queues.clustered_queue import ClusteredQueue
from leveret.cluster.remote_queues.home_node import HomeNode
from leveret.cluster.remote_queues.message_runs import RunReader, RunWriter
from leveret.cluster.remote_queues.owed_confirms import OwedConfirms
from leveret.cluster.remote_queues.queue_frames import QueueAnswer
from leveret.cluster.remote_queues.remote_consumer import RemoteConsumer
from leveret.cluster.remote_queues.remote_figures import RemoteFigures
from leveret.cluster.remote_queues.remote_hold import RemoteHold
from leveret.storage.messages.message import Entry


class RemoteQueue(ClusteredQueue, TimedQueue):
    """The `QueueClient` of a queue on another node.

    first_tag: the first tag of its deliveries. leader_lost: called with its consumers when the link
    goes down, if the queue is mirrored; None: they are cancelled. leads_again: called with this
    queue when they have to be subscribed again.
    """

    __slots__ = (
        "_consumers", "_deletions", "_first_tag", "_leader_lost", "_leads_again", "_node",
        "_number", "_owed", "_tag_end", "_untold", "figures", "may_redeliver", "publisher_hold",
    )  # fmt: skip

    def __init__(
        self,
        node: HomeNode,
        specification: QueueSpecification,
        first_tag: int = frames.REMOTE_TAGS,
        leader_lost: Callable[[list[Consumer]], object] | None = None,
        leads_again: Callable[["RemoteQueue"], object] = lambda queue: None,
    ) -> None:
        super().__init__(specification)
        self.storage_id = 0
        self._node = node
        self._leads_again = leads_again
        self._leader_lost = leader_lost or _cancel
        self.may_redeliver = False
        self.figures = RemoteFigures(self)
        self.publisher_hold = RemoteHold(node, node.untaken)
        self._owed = OwedConfirms(specification.name)
        self._number = 0
        self._first_tag = self._tag_end = first_tag
        self._consumers: dict[Consumer, RemoteConsumer] = {}
        self._deletions = 0
        self._untold: Sequence[Consumer] = ()

    def __repr__(self) -> str:
        what = resource(QUEUE, self.name, self.vhost_name)
        return f"{self.kind.name} {what} on node {self.placement.node}"

    def apply(self, options: QueueOptions) -> None:
        """Policies have changed the options. The home node applies them by itself."""
        self.options = options

    def watch(self, demand: Demand | None) -> None:
        """Keep a demand, which stays as it is: the queue lives on another node."""
        self.demand = demand

    @property
    def is_down(self) -> bool:
        """Whether there is no link to its node."""
        return self._node.peer is None

    @property
    def is_away(self) -> bool:
        """Whether its figures would not be answered."""
        return self.is_down

    # The link

    @property
    def opening(self) -> frames.OpenQueue:
        """The data with which the home node opens it."""
        vhost, name = bytes_of(self.vhost_name), bytes_of(self.name)
        return frames.OpenQueue(vhost, name, self.placement.identity, self._first_tag)

    def _is_open(self) -> bool:
        """Open the queue, if that has not been done over this link. False without a link."""
        if not self._number and self._node.peer is not None and not self.is_deleted:
            self._number = self._node.open(self)
        return self._number != 0

    def home_down(self) -> None:
        """The link to its node is down."""
        self._end_link()
        self._owed.die(is_settled=False)
        self._leader_lost(self._end_consumers())

    def leave(self) -> None:
        """Another queue leads and gets the consumers, or none does: questions are lost (MC1)."""
        number = self._number
        self._end_link()
        self._owed.die(is_settled=False)
        self._leader_lost(self._end_consumers())
        if number:
            self._node.lose_questions(self)
            self._node.close(number)

    def open_again(self) -> None:
        """Its node leads it again, or does not have it, and has dropped the earlier questions."""
        self.leave()
        self._leads_again(self)

    def begin_mirroring(
        self,
        client: QueueClient,
        leader_lost: Callable[[list[Consumer]], object],
        leads_again: Callable[["RemoteQueue"], object],
    ) -> None:
        """The queue is mirrored from now on, and this is its leader. See `leader_lost`.

        client: the object that consumers of this node refer to instead.
        """
        self._leader_lost, self._leads_again = leader_lost, leads_again
        for consumer in self._consumers:
            consumer.queue_replaced(client)

    def end_mirroring(self) -> None:
        """The queue is no longer mirrored: without a link its consumers are cancelled."""
        self._leader_lost = _cancel
        for consumer in self._consumers:
            consumer.queue_replaced(self)

    @property
    def next_tag(self) -> int:
        """Above all tags of its deliveries."""
        return self._tag_end

    def move(self, node: HomeNode, placement: Placement) -> None:
        """The home node was renamed: from now on requests go to this node object."""
        if self._node.peer is not None:
            self.home_down()
        self._node, self.placement = node, placement
        self.publisher_hold = RemoteHold(node, node.untaken)

    def _end_link(self) -> None:
        self._number = 0
        self._first_tag = self._tag_end
        self.publisher_hold.reset()

    # Publishing

    def publish(self, publication: Publication) -> None:
        """Send messages to the home node."""
        messages, publisher, first = (
            publication.messages, publication.publisher, publication.first,
        )  # fmt: skip
        count = len(messages)
        if not self._is_open():
            if publisher is not None:
                for number in range(first, first + count):
                    publisher.refuse(number)
            return
        sequence = 0 if publisher is None else self._owed.hold(publisher, first, count)
        ttl = frames.NO_TTL if publication.ttl_ms is None else publication.ttl_ms
        start = frames.PUBLISH_START.pack(frames.PUBLISH, self._number, sequence, ttl, count)
        pieces = RunWriter(start).publish(messages)
        self.publisher_hold.sent(pieces)
        self._node.send(*pieces)

    def publish_each(self, publication: Publication) -> None:
        """Send messages, each with its own time to live, to the home node."""
        if self._node.takes_times:
            self.publish(publication)
            return
        for part in publication.by_time_to_live():
            self.publish(part)

    def taken(self, taken_bytes: int, safe: tuple[int, ...], refused: tuple[int, ...]) -> None:
        """The outcomes of publishes. Raises ValueError."""
        if self.is_deleted:
            return
        self._owed.refuse(zip(refused[::2], refused[1::2], strict=True))
        for start, end in zip(safe[::2], safe[1::2], strict=True):
            self._owed.confirm(start, end)
        self.publisher_hold.taken(taken_bytes)

    # Settling

    def ack(self, entries: Sequence[Entry]) -> None:
        """Acknowledge delivered messages."""
        self._settle(frames.ACK, entries)

    def requeue(self, entries: Sequence[Entry], is_failed: bool = False) -> None:
        """Put delivered messages back."""
        self._settle(frames.GIVE_BACK if is_failed else frames.REQUEUE, entries)

    def discard(self, entries: Sequence[Entry]) -> None:
        """Reject delivered messages."""
        self._settle(frames.DISCARD, entries)

    def give_back(self, entries: Sequence[Entry]) -> None:
        """Requeue deliveries whose channel has ended."""
        self._settle(frames.GIVE_BACK, entries)

    def _settle(self, action: int, entries: Sequence[Entry]) -> None:
        if not self._number:
            return
        first = self._first_tag
        tags = [entry.position for entry in entries if entry.position >= first]
        if tags:
            start = frames.SETTLE_START.pack(frames.SETTLE, self._number, action)
            self._node.send(start, frames.packed(tags))

    # Questions

    def _ask(
        self,
        question: frames.QueueQuestion,
        answer: Answer[Any],
        read: Callable[[QueueAnswer], Any],
    ) -> None:
        """Ask the home node, if there is a link."""
        if self._is_open():
            self._node.ask(self._number, self, question, answer, read)
        else:
            answer.refuse(self.gone)

    def get(self, ack_required: bool, answer: Answer[Got | None]) -> None:
        """Take the first message, as basic.get does; None if there is none."""
        self._ask(frames.GetQuestion(ack_required), answer, _nothing)

    def length(self, answer: Answer[QueueLength]) -> None:
        """The numbers of messages and consumers."""
        self._ask(
            frames.Length(), answer, lambda result: QueueLength(result.count, result.consumer_count)
        )

    def purge(self, answer: Answer[int]) -> None:
        """Drop all ready messages; answers with their number."""
        self._ask(frames.PurgeQuestion(), answer, _count)

    def delete(
        self, if_unused: bool, if_empty: bool, requester: Requester, answer: Answer[int]
    ) -> None:
        """Delete the queue; answers with the number of its ready messages.

        The home node submits the deletion, and answers when it is applied everywhere. It may be
        applied here before the answer comes: consumers are told after it.
        """
        asker = (requester.user, requester.address, requester.way)
        question = frames.Delete(if_unused, if_empty, *map(bytes_of, asker))
        if not self._is_open():
            answer.refuse(self.gone)
            return
        deleted: Answer[int] = Answer()
        number = self._number
        self._deletions += 1
        self._node.ask(number, self, question, deleted, _count)
        deleted.when_given(lambda: self._deletion_answered(number, deleted, answer))

    def _deletion_answered(self, number: int, deleted: Answer[int], answer: Answer[int]) -> None:
        self._deletions -= 1
        if self.is_deleted and not self._deletions:
            self._node.close(number)
        try:
            answer.give(deleted.result())
        except Exception as error:
            answer.refuse(error)
        untold, self._untold = self._untold, ()
        for consumer in untold:
            consumer.tell_cancelled()

    # Consumers

    def subscribe(self, consumer: Consumer, answer: Answer[None]) -> None:
        """Add a consumer. Refused with 403 if the queue is in exclusive use."""
        if not self._is_open():
            answer.refuse(self.gone)
            return
        number = self._node.new_number()
        remote = RemoteConsumer(self, number, consumer)
        messages, body_bytes = remote.first_grant()
        question = frames.SubscribeQuestion(
            number, bytes_of(consumer.tag), consumer.no_ack, consumer.is_exclusive,
            consumer.priority, messages, body_bytes, consumer.figures(UP), consumer.start,
        )  # fmt: skip
        accepted: Answer[None] = Answer()
        self._consumers[consumer] = self._node.consumers[number] = remote
        self._node.ask(self._number, self, question, accepted, _nothing)
        accepted.when_given(lambda: self._subscribed(remote, accepted, answer))

    def _subscribed(
        self, remote: RemoteConsumer, accepted: Answer[None], answer: Answer[None]
    ) -> None:
        try:
            accepted.result()
        except Exception as error:
            self._forget(remote)
            answer.refuse(error)
        else:
            answer.give(None)

    def cancel(
        self, consumer: Consumer, channel_ended: bool = False, answer: Answer[None] | None = None
    ) -> None:
        """Remove a consumer. It gets deliveries sent before the home node's answer."""
        remote = self._consumers.get(consumer)
        if remote is None or not self._number:
            if answer is not None:
                answer.give(None)
            return
        if channel_ended:
            remote.end()
        cancelled: Answer[None] = Answer()
        question = frames.CancelQuestion(remote.number, channel_ended)
        self._node.ask(self._number, self, question, cancelled, _nothing)
        cancelled.when_given(lambda: self._cancelled(remote, answer))

    def _cancelled(self, remote: RemoteConsumer, answer: Answer[None] | None) -> None:
        self._forget(remote)
        if not remote.is_ended:
            remote.end()
        if answer is not None:
            answer.give(None)

    def _forget(self, remote: RemoteConsumer) -> None:
        self._consumers.pop(remote.consumer, None)
        self._node.consumers.pop(remote.number, None)

    def credit(self, consumer: Consumer) -> None:
        """A consumer that waited has room again."""
        consumer.is_waiting = False
        remote = self._consumers.get(consumer)
        if remote is not None:
            self._node.grant_later(remote)

    def grant_later(self, consumer: RemoteConsumer) -> None:
        """Have a consumer make its grants at the end of the round."""
        self._node.grant_later(consumer)

    def grant(self, number: int, messages: int, body_bytes: int) -> None:
        """Grant the home node more deliveries to a consumer."""
        self._node.send(frames.CREDIT_FRAME.pack(frames.CREDIT, number, messages, body_bytes))

    def deliver(self, consumer: RemoteConsumer, payload: bytes) -> None:
        """Deliveries come from the home node. Raises RunError and QueueFrameError."""
        _, first, count, may_redeliver = frames.fields(frames.DELIVER_START, payload)
        reader = RunReader(payload, frames.DELIVER_START.size, self._node.addresses)
        entries = reader.entries(count, first, self._node.clock.now_ms())
        self.may_redeliver = self.may_redeliver or bool(may_redeliver)
        self.note_tag(first + count - 1)
        consumer.arrive(entries, reader.body_bytes)

    def note_tag(self, tag: int) -> None:
        """A delivery came with this tag. Raises QueueFrameError if it was used before."""
        if not self._tag_end <= tag < 1 << 62:
            raise frames.QueueFrameError(f"a delivery has the tag {tag}, which is not a new one")
        self._tag_end = tag + 1

    def lost(self, consumer: RemoteConsumer) -> None:
        """The queue has crashed, and the consumer with it."""
        self._forget(consumer)
        consumer.end()
        consumer.consumer.queue_deleted()
        consumer.consumer.tell_cancelled()

    def _end_consumers(self) -> list[Consumer]:
        """Forget all consumers; returns those that were not cancelled."""
        remotes, self._consumers = self._consumers, {}
        left = [consumer for consumer, remote in remotes.items() if not remote.is_ended]
        for remote in remotes.values():
            self._node.consumers.pop(remote.number, None)
            remote.end()
        return left

    # Figures

    def now_ms(self) -> int:
        """The broker's time."""
        return self._node.clock.now_ms()

    def want_counts(self) -> None:
        """Ask for the counts, together with those of other queues."""
        self._node.want_counts(self.opening, self.figures.take_counts)

    def ask_status(self, answer: Answer[frames.FullFigures]) -> None:
        """Ask for all figures."""
        self._ask(frames.StatusQuestion(), answer, _figures)

    # The queue as a whole

    def delete_now(self) -> Sequence[Consumer]:
        """The queue is deleted everywhere; returns the consumers that it had.

        If a client of this node waits for the answer to its deletion, they are told after that.
        """
        self._owed.die(is_settled=True)
        consumers = self.close()
        if self._deletions:
            self._untold = consumers
            return ()
        return consumers

    def close(self) -> Sequence[Consumer]:
        """The node stops, or the queue is deleted; returns the consumers that it had.

        Runs with owed confirms are refused: the home node may not have them.
        """
        self.is_deleted = True
        number = self._number
        self._end_link()
        self._owed.die(is_settled=False)
        consumers = self._end_consumers()
        if number:
            self._node.lose_questions(self)
        if number and not self._deletions:
            self._node.close(number)
        for consumer in consumers:
            consumer.queue_deleted()
        return consumers


def _cancel(consumers: list[Consumer]) -> None:
    """The queue is not mirrored: its consumers have lost it."""
    for consumer in consumers:
        consumer.queue_deleted()
        consumer.tell_cancelled()


def _nothing(_result: QueueAnswer) -> None:
    """The answer has no value."""


def _count(result: QueueAnswer) -> int:
    return result.count


def _figures(result: QueueAnswer) -> frames.FullFigures:
    if result.figures is None:
        raise frames.QueueFrameError("an answer has no figures")
    return result.figures
