"""A queue of this node that clients of another node use: the home node's side of one queue.

It performs the requests of remote_queue.py on the real queue, in the order in which they were sent
(Q1), and sends back deliveries, confirms and answers.

A delivery is identified by its tag, a number that counts up. The queue's entries are kept by their
tags until they are settled, or until the link is down: then they are requeued.

Invariants:
HQ1. An entry that was delivered with acks is in `_unacked` exactly until it is settled.
HQ2. After its `release`, or when another node leads it (`leave`), nothing is sent for a queue
     except that it has to be opened again.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Protocol

from leveret.broker.amqp.errors import ConnectionFault, Fault, internal_error, not_found
from leveret.broker.amqp.field_table import bytes_of, text_of
from leveret.broker.declarations.requester import Requester
from leveret.broker.queues.contract.publication import OWN_TTL, Publication
from leveret.broker.queues.contract.queue_client import (
    Got,
    Hold,
    QueueClient,
    QueueLength,
    publish_each,
)
from leveret.broker.runtime.names import QUEUE, resource
from leveret.broker.runtime.pending import Answer
from leveret.cluster.links.services import REMOTE_QUEUES_SERVICE, Peer
from leveret.cluster.remote_queues import queue_frames as frames
from leveret.cluster.remote_queues.hosted_consumer import HostedConsumer
from leveret.cluster.remote_queues.hosted_publishes import HostedPublishes, Pairs
from leveret.cluster.remote_queues.message_runs import RunReader, RunWriter
from leveret.cluster.remote_queues.queue_frames import QueueAnswer, QueueFrameError
from leveret.storage.messages.addresses import Addresses
from leveret.storage.messages.message import Entry

GIVEN_BACK_AT_ONCE, SETTLE_WORK = 500, 4
"""Deliveries that are requeued in one step, and the work of each (broker/runtime/turns.py)."""


class Host(Protocol):
    """The state that hosted queues share: one for each other node (queue_host.py).

    is_held: whether the node takes no publishes now.
    """

    peer: Peer
    addresses: Addresses
    consumers: dict[int, HostedConsumer]

    @property
    def is_held(self) -> bool:
        """Whether publishers of this node wait for its store."""

    @property
    def now_ms(self) -> int:
        """The time of this round; 0 if the other node does not take it (`RunWriter.deliver`)."""

    def report_later(self, publishes: HostedPublishes, taken_bytes: int = 0) -> None:
        """Call `report` at the end of the round, and `report_taken` when much was taken."""


class HostedQueue:
    """One queue of this node, used by one other node. number: the other node's number for it."""

    __slots__ = (
        "_consumers", "_host", "_is_over", "_next_tag", "_publishes", "_unacked", "_what",
        "number", "queue",
    )  # fmt: skip

    def __init__(
        self, host: Host, number: int, queue: QueueClient, asked: frames.OpenQueue
    ) -> None:
        self._host = host
        self.number = number
        self.queue = queue
        self._what = resource(QUEUE, text_of(asked.name), text_of(asked.vhost))
        self._publishes = HostedPublishes(self, lambda: host.report_later(self._publishes))
        self._consumers: dict[int, HostedConsumer] = {}
        self._unacked: dict[int, Entry] = {}
        self._next_tag = asked.first_tag
        self._is_over = False

    def __repr__(self) -> str:
        return f"<HostedQueue {self.queue!r} for {self._host.peer.name}>"

    @property
    def held(self) -> Iterable[Entry]:
        """The entries that were delivered and are not settled."""
        return self._unacked.values()

    def hold(self, entries: Sequence[Entry]) -> int:
        """Take entries for delivered, which the other node has already; returns the first tag."""
        first = self._next_tag
        self._next_tag += len(entries)
        self._unacked.update(zip(range(first, self._next_tag), entries, strict=True))
        return first

    # Publishing

    def publish(self, payload: bytes) -> None:
        """Publish a run of messages. Raises RunError."""
        if self._is_over:
            return
        _, first, ttl_ms, count = frames.fields(frames.PUBLISH_START, payload)
        reader = RunReader(payload, frames.PUBLISH_START.size, self._host.addresses)
        messages = reader.messages(count)
        if not count or first + count > 1 << 63:
            raise QueueFrameError(f"a run of {count} messages from number {first}")
        self._publishes.taken(len(payload))
        self._host.report_later(self._publishes, len(payload))
        if self.queue.is_deleted:
            # The client's node settles them when it applies the deletion.
            return
        ttl = None if ttl_ms == frames.NO_TTL else ttl_ms
        if first:
            publisher = self._publishes.publisher
            publisher.begin(first, count)
            self._publish(Publication(messages, reader.body_bytes, ttl, publisher, first))
            publisher.end(first)
        else:
            self._publish(Publication(messages, reader.body_bytes, ttl))

    def _publish(self, publication: Publication) -> None:
        if publication.ttl_ms == OWN_TTL:
            publish_each(self.queue, publication)
        else:
            self.queue.publish(publication)

    @property
    def is_held(self) -> bool:
        """Whether publishers of this node wait for its store."""
        return self._host.is_held

    @property
    def publisher_hold(self) -> Hold | None:
        """The hold on which publishers to the queue may have to wait."""
        is_over = self._is_over or self.queue.is_deleted
        return None if is_over else self.queue.publisher_hold

    def tell(self, taken_bytes: int, safe: Pairs, refused: Pairs) -> None:
        """Send the outcomes of publishes."""
        start = frames.TAKEN_START.pack(frames.TAKEN, self.number, taken_bytes, len(safe))
        pairs = [number for pair in (*safe, *refused) for number in pair]
        self._send(start, frames.packed(pairs))

    # Delivering

    @property
    def may_send(self) -> bool:
        """Whether the link has room for deliveries."""
        return not self._host.peer.is_congested

    def deliver(self, consumer: HostedConsumer, entries: list[Entry]) -> int:
        """Send deliveries to the consumer's node; returns the bytes of their bodies."""
        assert not self._is_over, "HQ2: a consumer is cancelled before its link ends"
        first, count = self._next_tag, len(entries)
        self._next_tag += count
        if not consumer.no_ack:
            self._unacked.update(zip(range(first, first + count), entries, strict=True))
        may_redeliver = self.queue.may_redeliver
        writer = RunWriter(
            frames.DELIVER_START.pack(frames.DELIVER, consumer.number, first, count, may_redeliver)
        )
        self._send(*writer.deliver(entries, self._host.now_ms))
        return writer.body_bytes

    def lost(self, consumer: HostedConsumer) -> None:
        """Report a crash of the queue. The client's node learns of a deletion from the metadata."""
        self._forget(consumer)
        if not self.queue.is_deleted and not self._is_over:
            self._send(frames.NUMBER.pack(frames.LOST, consumer.number))

    def _forget(self, consumer: HostedConsumer) -> None:
        self._consumers.pop(consumer.number, None)
        self._host.consumers.pop(consumer.number, None)

    def credit(self, consumer: HostedConsumer) -> None:
        """A consumer that waited has room again."""
        if consumer.is_waiting and not self.queue.is_deleted:
            self.queue.credit(consumer)

    def settle(self, payload: bytes) -> None:
        """Settle deliveries. Raises QueueFrameError."""
        if self._is_over:
            return
        _, action = frames.fields(frames.SETTLE_START, payload)
        take = self._unacked.pop
        try:
            entries = [take(tag) for tag in frames.numbers(payload, frames.SETTLE_START.size)]
        except KeyError as error:
            raise QueueFrameError(f"delivery {error} of {self._what} is not open") from None
        if not entries or self.queue.is_deleted:
            return
        if action == frames.ACK:
            self.queue.ack(entries)
        elif action == frames.DISCARD:
            self.queue.discard(entries)
        elif action in frames.ACTIONS:
            self.queue.requeue(entries, action == frames.GIVE_BACK)
        else:
            raise QueueFrameError(f"deliveries are settled in the unknown way {action}")

    # Questions

    def ask(self, number: int, question: frames.QueueQuestion) -> None:
        """Ask the queue, and send its answer. Raises QueueFrameError."""
        queue = self.queue
        if self._is_over:
            return
        if queue.is_deleted and not isinstance(question, frames.CancelQuestion):
            if isinstance(question, frames.Delete):
                self._tell(number)
            else:
                self._refuse(number, not_found(f"no {self._what}"))
            return
        match question:
            case frames.GetQuestion():
                got: Answer[Got | None] = Answer()
                queue.get(question.ack_required, got)
                self._when_given(number, got, lambda: self._send_got(number, question, got))
            case frames.Length():
                length: Answer[QueueLength] = Answer()
                queue.length(length)
                self._when_given(number, length, lambda: self._tell(number, *length.result()))
            case frames.PurgeQuestion():
                purged: Answer[int] = Answer()
                queue.purge(purged)
                self._when_given(number, purged, lambda: self._tell(number, purged.result()))
            case frames.Delete():
                self._delete(number, question)
            case frames.SubscribeQuestion():
                self._subscribe(number, question)
            case frames.CancelQuestion():
                self._cancel(number, question)
            case _:
                self._send_status(number)

    def _when_given(self, number: int, answer: Answer[Any], send: Callable[[], object]) -> None:
        """Send the answer when it is given, or the error that it is refused with."""

        def given() -> None:
            try:
                answer.result()
            except Exception as error:
                self._refuse(number, error)
            else:
                send()

        answer.when_given(given)

    def _delete(self, number: int, question: frames.Delete) -> None:
        requester = Requester(
            text_of(question.user), text_of(question.address), text_of(question.way)
        )
        deleted: Answer[int] = Answer()
        self.queue.delete(question.if_unused, question.if_empty, requester, deleted)

        def on_disk() -> None:
            count = deleted.result()
            self._when_given(number, deleted.synced(), lambda: self._tell(number, count))

        self._when_given(number, deleted, on_disk)

    def _send_got(self, number: int, question: frames.GetQuestion, got: Answer[Got | None]) -> None:
        found = got.result()
        if found is None:
            self._tell(number)
            return
        entry, ready_count = found
        if self._is_over:
            if question.ack_required and not self.queue.is_deleted:
                self.queue.requeue([entry], True)
            return
        tag = self._next_tag
        self._next_tag += 1
        if question.ack_required:
            self._unacked[tag] = entry
        start = frames.GOT_START.pack(frames.GOT, number, ready_count, tag)
        self._send(*RunWriter(start).deliver([entry], self._host.now_ms))

    def _subscribe(self, number: int, question: frames.SubscribeQuestion) -> None:
        consumers = self._host.consumers
        if question.consumer in consumers:
            raise QueueFrameError(f"consumer number {question.consumer} is in use")
        consumer = HostedConsumer(self, question, self._host.peer.name)
        # Noted before the answer, since the queue may wait for its leader: until then the consumer
        # may be cancelled, or get room.
        consumers[consumer.number] = self._consumers[consumer.number] = consumer
        answer: Answer[None] = Answer()
        self.queue.subscribe(consumer, answer)
        answer.when_given(lambda: self._subscribed(number, consumer, answer))

    def _subscribed(self, number: int, consumer: HostedConsumer, answer: Answer[None]) -> None:
        is_wanted = self._consumers.get(consumer.number) is consumer
        try:
            answer.result()
        except Exception as error:
            if is_wanted:
                self._forget(consumer)
            self._refuse(number, error)
        else:
            if is_wanted:
                self._tell(number)
            else:
                self.queue.cancel(consumer, True)

    def _cancel(self, number: int, question: frames.CancelQuestion) -> None:
        consumer = self._consumers.get(question.consumer)
        if consumer is None:
            # The subscription was refused, or lost when its queue ended.
            self._tell(number)
            return
        self._forget(consumer)
        answer: Answer[None] = Answer()
        self.queue.cancel(consumer, question.channel_ended, answer)
        self._when_given(number, answer, lambda: self._tell(number))

    def _send_status(self, number: int) -> None:
        figures = self.queue.figures
        full = frames.FullFigures(
            figures.status(), figures.ages(), figures.consumers(), figures.backing_queue_status()
        )
        self._send_result(number, QueueAnswer(figures=full))

    def _tell(self, number: int, count: int = 0, consumer_count: int = 0) -> None:
        self._send_result(number, QueueAnswer(count, consumer_count))

    def _refuse(self, number: int, error: Exception) -> None:
        fault = error if isinstance(error, Fault) else internal_error(str(error))
        is_of_connection = isinstance(fault, ConnectionFault)
        text = bytes_of(fault.explanation)
        self._send_result(
            number,
            QueueAnswer(code=fault.reply_code, text=text, closes_connection=is_of_connection),
        )

    def _send_result(self, number: int, result: QueueAnswer) -> None:
        self._send(frames.NUMBER.pack(frames.ANSWER, number), frames.encode(result))

    def _send(self, *pieces: bytes) -> None:
        if not self._is_over:
            self._host.peer.send(REMOTE_QUEUES_SERVICE, *pieces)

    # Ending

    def leave(self) -> None:
        """Do nothing more until the client's node closes the number: another node leads the queue.

        The client's node closes it when it learns of the new leader, to which it repeats unanswered
        questions.
        """
        for consumer in tuple(self._consumers.values()):
            self._forget(consumer)
        self._unacked.clear()
        self._is_over = True

    def led_again(self) -> None:
        """Tell the client's node to open the queue again: this node leads it again.

        The client's node may have learned that before this node ended its first term, and waits. If
        it has closed the number, it ignores this frame.
        """
        if self._is_over:
            left = frames.NUMBER.pack(frames.LOST, self.number)
            self._host.peer.send(REMOTE_QUEUES_SERVICE, left)

    def release(self) -> Iterator[int]:
        """The steps of requeueing the entries that the other node held: it stops using the queue.

        Its consumers leave first, as when a channel ends: an auto-delete queue is deleted with the
        last one.
        """
        for consumer in tuple(self._consumers.values()):
            self._forget(consumer)
            if not self.queue.is_deleted:
                self.queue.cancel(consumer, channel_ended=True)
        self._is_over = True
        unacked, self._unacked = iter(self._unacked.values()), {}
        return self._giving_back(unacked)

    def _giving_back(self, unacked: Iterator[Entry]) -> Iterator[int]:
        while entries := list(islice(unacked, GIVEN_BACK_AT_ONCE)):
            if self.queue.is_deleted:
                return
            self.queue.requeue(entries, is_failed=True)
            yield SETTLE_WORK * len(entries)
