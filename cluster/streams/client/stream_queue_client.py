"""The `QueueClient` of a stream, for clients on this node, wherever the leader is.

The object stays the same when the leader changes. What clients publish and store in a turn becomes
commands (gathered.py, commands.py) of one numbered sequence, which a `GroupClient` sends to each
leader until they are in the log. Readers read the log of the member on this node, or ask another
one (stream_readers.py).

It is also the `Stream` of the stream protocol (broker/queues/contract/stream.py).

While there is no leader with a majority, publishes are kept and publishers have to wait
(unapplied_hold.py). Other requests are answered with an error after a time limit.

Invariants:
SC1. Each request is answered once, in time.
SC2. Each append is confirmed or refused, once, in the order of its publisher.
"""

import logging
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

from leveret.broker.amqp.errors import ConnectionFault, Fault
from leveret.broker.amqp10.conversion import ConversionRules
from leveret.broker.declarations.requester import Requester
from leveret.broker.queues.contract.arguments import QueueOptions
from leveret.broker.queues.contract.demand import Demand
from leveret.broker.queues.contract.offset_specification import OffsetSpecification
from leveret.broker.queues.contract.publication import Publication
from leveret.broker.queues.contract.queue_client import (
    Consumer,
    Got,
    QueueLength,
    TimedQueue,
)
from leveret.broker.queues.contract.queue_owner import QueueOwner
from leveret.broker.queues.contract.specification import QueueSpecification
from leveret.broker.queues.contract.stream import (
    GroupConsumer,
    ReaderUser,
    StreamEntries,
    StreamReader,
    StreamStats,
    StreamUser,
)
from leveret.broker.queues.contract.stream_arguments import StreamFilter
from leveret.broker.runtime.counts import MessageCounts
from leveret.broker.runtime.pending import Answer
from leveret.cluster.replicated_queues.client.ended_figures import ENDED_FIGURES
from leveret.cluster.replicated_queues.client.group_client import (
    GroupClient,
    SendCommands,
    StartSession,
)
from leveret.cluster.replicated_queues.client.group_queue_client import GroupQueueClient
from leveret.cluster.replicated_queues.client.own_node import OwnNode
from leveret.cluster.replicated_queues.client.timed_request import TimedRequest
from leveret.cluster.streams.client.active_consumers import ActiveConsumers
from leveret.cluster.streams.client.commands import StreamSenders
from leveret.cluster.streams.client.ended_group import ENDED_GROUP
from leveret.cluster.streams.client.entry_reading import StoredMessageReader
from leveret.cluster.streams.client.entry_writing import EntryWriter
from leveret.cluster.streams.client.gathered import Gathered
from leveret.cluster.streams.client.member_questions import (
    AskGroup,
    MemberQuestionError,
    Offsets,
    Stats,
    ToldUse,
    decode_question,
)
from leveret.cluster.streams.client.placed_messages import report_places
from leveret.cluster.streams.client.state_question import StateQuestion
from leveret.cluster.streams.client.stream_consumer import StreamConsumer
from leveret.cluster.streams.client.stream_figures import StreamFigures
from leveret.cluster.streams.client.stream_group import StreamGroup
from leveret.cluster.streams.client.stream_readers import BytesAnswer, StreamReaders
from leveret.cluster.streams.client.told_uses import ToldUses
from leveret.cluster.streams.client.use_reports import UseReports
from leveret.cluster.streams.machine import questions
from leveret.cluster.streams.machine.effects import Applied, Effect
from leveret.storage.messages.message import Entry

logger = logging.getLogger("leveret.cluster")

STATS_MS = 1000
"""How long a request for counts waits for another node."""


class StreamQueueClient(GroupQueueClient, TimedQueue):
    """The `QueueClient` of a stream, and its `Stream`.

    readers: its readers here. entry_reader: decodes its messages for consumers. counts: of
    messages from clients of this node, and to them.
    """

    __slots__ = (
        "_active", "_consumers", "_gathered", "_group", "_ready", "_reports", "_service", "_users",
        "counts", "entry_reader", "readers", "uses",
    )  # fmt: skip

    def __init__(
        self,
        owner: QueueOwner,
        specification: QueueSpecification,
        node: OwnNode,
        service: StreamGroup,
    ) -> None:
        super().__init__(owner, specification, node)
        self._service: StreamGroup = service
        self.counts = MessageCounts()
        self.figures = StreamFigures(self, owner.clock)
        rules = ConversionRules(is_4=not node.shows_zero)
        self.entry_reader = StoredMessageReader(self.name, node.addresses, rules)
        self.readers = StreamReaders(service, owner.clock)
        self._group = GroupClient(StreamSenders(node.senders))
        self._gathered = Gathered(self._group, self._hold, EntryWriter(rules))
        self._consumers: dict[Consumer, StreamConsumer] = {}
        self._ready: dict[StreamConsumer, None] = {}
        self._users: dict[StreamUser, None] = {}
        self.uses = ToldUses(owner.clock)
        self._reports = UseReports(node.name, service, owner.clock)
        self._active = ActiveConsumers(
            node.name, self._group.sender, service, owner.turns, owner.clock, self.readers.retry
        )

    def __repr__(self) -> str:
        return f"stream {self._what}"

    # Turns

    def take_turn(self) -> None:
        """Send the gathered requests to the group. Hand messages to consumers that have room."""
        self._gathered.flush()
        self._do_outputs()
        ready, self._ready = self._ready, {}
        for consumer in ready:
            consumer.hand_over(self._turns)
        self._reports.changed(self._use)

    def _use(self) -> ToldUse:
        counts = self.counts
        return ToldUse(
            self._group.sender, self._node.name, self.figures.consumers(), self.readers.count,
            counts.published, counts.delivered, counts.acked,
        )  # fmt: skip

    def _do_outputs(self) -> None:
        service = self._service
        for output in self._group.take_outputs():
            if isinstance(output, StartSession):
                service.attach(output.session, output.sender, output.seen, output.received)
            elif isinstance(output, SendCommands):
                service.send(output.session, output.payloads)

    # The group

    def leader_found(self) -> None:
        """The leader is known and can be reached."""
        self._group.leader_found()
        self._has_begun()
        self.readers.leader_found()
        self._active.leader_found()
        self._turns.wake(self)

    def leader_lost(self) -> None:
        """The leader is not known, or cannot be reached."""
        self._group.leader_lost()
        self._active.leader_lost()
        self.uses.forget()

    def told(self, session: int, effects: Iterable[Effect]) -> None:
        """Take effects of the leader for this client."""
        group = self._group
        for effect in effects:
            if effect.sender != group.sender:
                # It is for an earlier client of this node, in a session with the same number.
                continue
            if isinstance(effect, Applied):
                tracer = self.owner.tracer
                if tracer is not None:
                    report_places(tracer, self, effect, group.kept(session, effect.through))
                group.applied(session, effect.through)
            else:
                group.sender_unknown(session)
        self._turns.wake(self)

    def member_changed(self) -> None:
        """Read the other member that this node has, or ask other nodes."""
        self.readers.member_changed()

    def asked(self, question: bytes, answer: BytesAnswer) -> None:
        """Answer the client on another node (member_questions.py)."""
        try:
            asked = decode_question(question)
        except MemberQuestionError as error:
            logger.warning("%s: another node has sent garbage: %s", self._what, error)
            answer(None)
            return
        if isinstance(asked, ToldUse):
            self.uses.take(asked)
            answer(b"")
        elif isinstance(asked, AskGroup):
            self._active.answer(asked, answer)
        else:
            self.readers.asked(asked, answer)

    # Publishing

    def publish(self, publication: Publication) -> None:
        """Append messages of AMQP 0-9-1."""
        if self.is_deleted:
            return
        self.counts.published += len(publication.messages)
        self._gathered.publish(publication, self.owner.tracer is not None)
        if not self.is_awake:
            self._turns.wake(self)

    def publish_each(self, publication: Publication) -> None:
        """Append messages that would expire at different times elsewhere: a stream keeps them."""
        self.publish(publication)

    def append(self, entries: StreamEntries, confirmed: Callable[[bool], object]) -> None:
        """Append entries of a client of the stream protocol."""
        if self.is_deleted:
            confirmed(False)
            return
        self.counts.published += entries.message_count
        self._gathered.append(entries, confirmed)
        if not self.is_awake:
            self._turns.wake(self)

    # Settling gives a consumer room by itself

    def ack(self, entries: Sequence[Entry]) -> None:
        """Count them: the messages stay."""
        self.counts.acked += len(entries)
        self._node.given.acked += len(entries)

    def requeue(self, entries: Sequence[Entry], is_failed: bool = False) -> None:
        """Do nothing: the messages are not delivered again."""

    def discard(self, entries: Sequence[Entry]) -> None:
        """Do nothing: the messages stay."""

    # Requests with answers

    def get(self, ack_required: bool, answer: Answer[Got | None]) -> None:
        """Refused with 540."""
        self._refuse_if_unsupported(self.kind.check_get, answer)

    def purge(self, answer: Answer[int]) -> None:
        """Refused with 540."""
        self._refuse_if_unsupported(self.kind.check_purge, answer)

    def _refuse_if_unsupported(
        self, check: Callable[[str, str], None], answer: Answer[Any]
    ) -> None:
        try:
            check(self.name, self.vhost_name)
        except ConnectionFault as fault:
            answer.refuse(fault)

    def length(self, answer: Answer[QueueLength]) -> None:
        """The number of messages. That of consumers is 0 for each stream, as in RabbitMQ."""
        asked: Answer[Stats] = Answer()
        asked.when_given(lambda: answer.give(QueueLength(self.offsets.count, 0)))
        if self.has_member or self.is_deleted:
            answer.give(QueueLength(self.offsets.count, 0))
        else:
            self.ask_stats(asked)

    def delete(
        self, if_unused: bool, if_empty: bool, requester: Requester, answer: Answer[int]
    ) -> None:
        """Delete the stream, also if it has messages or consumers; answers with 0."""
        if self.is_deleted:
            answer.refuse(self.gone)
            return
        self.owner.delete_queue(self, requester, answer.preceding(0))

    # Consumers of AMQP 0-9-1

    def subscribe(self, consumer: Consumer, answer: Answer[None]) -> None:
        """Add a consumer, which reads from its `start` on."""
        if self.is_deleted:
            answer.refuse(self.gone)
            return
        request = self._timed(answer, "consume from")
        added = self._consumers[consumer] = StreamConsumer(self, consumer, request)
        added.subscribe()

    def cancel(
        self, consumer: Consumer, channel_ended: bool = False, answer: Answer[None] | None = None
    ) -> None:
        """Remove a consumer."""
        removed = self._consumers.pop(consumer, None)
        if removed is not None:
            self._ready.pop(removed, None)
            removed.end()
            self._turns.wake(self)
        if answer is not None:
            answer.give(None)

    def credit(self, consumer: Consumer) -> None:
        """Hand over messages to a consumer that has room again."""
        consumer.is_waiting = False
        waiting = self._consumers.get(consumer)
        if waiting is not None:
            self.hand_over_later(waiting)

    def delivered(self, count: int) -> None:
        """Messages were given to a consumer."""
        self.counts.delivered += count
        self._node.given.delivered += count

    def hand_over_later(self, consumer: StreamConsumer) -> None:
        """Hand over messages in the next turn."""
        self._ready[consumer] = None
        self._turns.wake(self)

    def consumer_failed(self, consumer: StreamConsumer, error: Exception) -> None:
        """The stream cannot be read here: the consumer's client is told that it is cancelled."""
        self.cancel(consumer.consumer)
        consumer.consumer.queue_deleted()
        consumer.consumer.tell_cancelled()

    def watch(self, demand: Demand | None) -> None:
        """Keep the demand, which does not change: the messages of a stream stay."""
        self.demand = demand

    # The stream protocol

    def add_user(self, user: StreamUser) -> None:
        """Tell this user when the stream is deleted."""
        self._users[user] = None

    def remove_user(self, user: StreamUser) -> None:
        """The user no longer publishes or reads."""
        self._users.pop(user, None)

    def open_reader(
        self, start: OffsetSpecification, filter_values: tuple[bytes, ...], match_unfiltered: bool,
        user: ReaderUser, answer: Answer[StreamReader], *, sends_files: bool = False,
    ) -> None:  # fmt: skip
        """Open a reader that begins here."""
        wanted = StreamFilter(filter_values, match_unfiltered)
        open_at = partial(self.readers.open, wanted=wanted, user=user, sends_files=sends_files)
        found: Answer[int] = Answer()
        self.resolve_offset(start, found)
        found.when_given(lambda: _pass_on(found, answer, open_at))

    def resolve_offset(self, start: OffsetSpecification, answer: Answer[int]) -> None:
        """The offset of the first message that a reader would get."""
        if self.is_deleted:
            answer.refuse(self.gone)
            return
        request = self._timed(answer, "read")
        found: Answer[int] = Answer()
        self.readers.resolve(start, found)
        found.when_given(lambda: _settle(found, request, lambda offset: offset))

    def stats(self, answer: Answer[StreamStats]) -> None:
        """The offsets of the stream that are known here."""
        asked: Answer[Stats] = Answer()
        self.ask_stats(asked)
        asked.when_given(lambda: _pass_on(asked, answer, _stream_stats))

    def ask_stats(self, answer: Answer[Stats]) -> None:
        """Ask for all offsets, for a limited time."""
        if self.is_deleted:
            answer.refuse(self.gone)
            return
        request = self._timed(answer, "get the offsets of", STATS_MS)
        asked: Answer[Stats] = Answer()
        self.readers.stats(asked)
        asked.when_given(lambda: _settle(asked, request, lambda stats: stats))

    def store_offset(self, name: bytes, offset: int) -> None:
        """Store the offset of a consumer under a name."""
        if not self.is_deleted:
            self._gathered.store_offset(name, offset)
            self._turns.wake(self)

    def keep_offset(self, name: bytes, offset: int, answer: Answer[None]) -> None:
        """Store an offset under a name, and answer when it is in the log."""
        if self.is_deleted:
            answer.refuse(self.gone)
            return
        request = self._timed(answer, "store an offset in")
        self.store_offset(name, offset)
        self._gathered.when_stored(name, lambda: request.give(None))

    def stored_offset(self, name: bytes, answer: Answer[int | None]) -> None:
        """The offset that is stored under a name, or is being stored by clients of this node."""
        offset = self._gathered.offset_of(name)
        if offset is not None and not self.is_deleted:
            answer.give(offset)
            return
        self._ask_leader(questions.ask_offset(name), questions.read_answer, answer)

    def sequence(self, publisher: bytes, answer: Answer[int]) -> None:
        """The last publishing id of a named publisher."""
        question = questions.ask_sequence(publisher)
        self._ask_leader(question, lambda data: questions.read_answer(data) or 0, answer)

    def tracked(self, answer: Answer[questions.Tracked]) -> None:
        """All sequence numbers and stored offsets that the leader has."""
        self._ask_leader(questions.ask_all(), questions.read_all, answer)

    def _ask_leader(
        self, question: bytes, read: Callable[[bytes], Any], answer: Answer[Any]
    ) -> None:
        """Ask about the state. read: the value that an answer's bytes are."""
        if self.is_deleted:
            answer.refuse(self.gone)
            return
        request = self._timed(answer, "get the state of")
        StateQuestion(self.readers, question, read, answer, request).ask()

    # Groups of single active consumers

    def join_group(self, name: bytes, partition: int, consumer: GroupConsumer) -> None:
        """Enter a group of single active consumers."""
        if not self.is_deleted:
            self._active.join(name, partition, consumer)

    def leave_group(self, name: bytes, consumer: GroupConsumer) -> None:
        """Leave a group."""
        self._active.leave(name, consumer)

    def stopped(self, name: bytes, consumer: GroupConsumer) -> None:
        """A consumer that was told to stop has stopped."""
        self._active.stopped(name, consumer)

    # Figures

    @property
    def offsets(self) -> Offsets:
        """The offsets of the stream that are known here."""
        return self.readers.offsets

    @property
    def node_name(self) -> str:
        """The name of this node."""
        return self._node.name

    @property
    def has_member(self) -> bool:
        """Whether this node has a member."""
        return self._service.own_log is not None

    @property
    def has_leader(self) -> bool:
        """Whether a leader is known."""
        return self._group.is_led

    @property
    def own_consumers(self) -> list[StreamConsumer]:
        """The consumers on this node."""
        return list(self._consumers.values())

    # The queue as a whole

    def apply(self, options: QueueOptions) -> None:
        """Take options that policies have changed."""
        self.options = options
        self._service.configure(options)

    def delete_now(self) -> Sequence[Consumer]:
        """End: the stream is deleted everywhere. Returns the consumers that it had."""
        return self._end(is_deleted=True)

    def close(self) -> Sequence[Consumer]:
        """End: the node stops. Refuses publishes that are not in the log."""
        return self._end(is_deleted=False)

    def _end(self, is_deleted: bool) -> Sequence[Consumer]:
        """Answer all requests (SC1, SC2)."""
        self._gathered.flush()
        self.is_deleted = True
        if self.demand is not None:
            self.demand.end()
        consumers, self._consumers = self._consumers, {}
        self._ready.clear()
        for consumer in consumers.values():
            consumer.end(self.gone)
        for command in self._group.close():
            command.queue_ended(self.gone, is_deleted)
        self._refuse_begin()
        self._hold.release()
        self._active.close()
        service, self._service = self._service, ENDED_GROUP
        self.readers.group = self._active.group = self._reports.group = ENDED_GROUP
        self.readers.close(self.gone)
        service.close(is_deleted)
        self.figures = ENDED_FIGURES
        self._reports.close()
        users, self._users = self._users, {}
        for user in users:
            user.stream_deleted(self)
        for one in consumers:
            one.queue_deleted()
        return list(consumers)


def _settle(found: Answer[Any], request: TimedRequest, value: Callable[[Any], Any]) -> None:
    """Answer a request with what was found."""
    try:
        request.give(value(found.result()))
    except ConnectionFault as error:
        request.refuse(error)


def _pass_on(found: Answer[Any], answer: Answer[Any], value: Callable[[Any], Any]) -> None:
    """Answer with what was found."""
    try:
        answer.give(value(found.result()))
    except Fault as error:
        answer.refuse(error)


def _stream_stats(stats: Stats) -> StreamStats:
    first, end = stats.offsets.first, stats.offsets.end
    if end == 0:
        return StreamStats(-1, -1, -1)
    return StreamStats(first, min(stats.last_chunk, end - 1), end - 1)
