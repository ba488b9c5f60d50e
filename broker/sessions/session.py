"""A session: the operations of one client in one virtual host, independent of the protocol.

It publishes (publishing.py), consumes (consuming.py, session_consumer.py), takes messages
(getting.py), settles them (settling.py) and declares (declaring_*.py). It owns its consumers, the
messages that were delivered to it and not settled, and its mode: plain, confirming or
transactional. When it ends, its consumers are cancelled and its unsettled messages requeued.

A session of a protocol inherits from `Session`, and overrides the methods that notify the client.
"""

from abc import abstractmethod
from collections import deque
from collections.abc import Iterator
from functools import partial
from typing import Any

from mypy_extensions import mypyc_attr

from leveret.broker.amqp.errors import ChannelFault, precondition_failed
from leveret.broker.declarations.values import Declaration
from leveret.broker.events.channel_events import channel_closed, consumer_deleted
from leveret.broker.queues.contract.queue_client import UNLIMITED, QueueClient
from leveret.broker.runtime.counts import AMQP091, MessageCounts, ProtocolCounts
from leveret.broker.runtime.long_work import LongWork
from leveret.broker.runtime.pending import Answer
from leveret.broker.sessions.confirms import Confirms, Settlement
from leveret.broker.sessions.session_connection import SessionConnection
from leveret.broker.sessions.transaction import Transaction
from leveret.broker.sessions.unacked import UnackedMessages, by_queue, giving_back
from leveret.broker.sessions.unacked_record import SettlingConsumer, Unacked
from leveret.storage.messages.message import Entry, Message

CONSUMERS_AT_ONCE, CANCEL_WORK = 100, 30
"""The consumers of an ended session that are cancelled in one turn, and the work of each if there
are more (broker/runtime/turns.py)."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Session:
    """One session of a client.

    number: its number in its connection, such as a channel's. consumers: by their tags.
    prefetch_count: the limit of unsettled messages of each later consumer; 0 for no limit.
    global_credit: the number of further messages that all consumers together may hold.
    last_queue: the queue declared last, which an empty queue name stands for.
    committing: transactions that are committed but not on disk yet, the oldest first.
    has_ended: its consumers get no more messages, although not all of them may be cancelled yet.
    has_confirms_due: there are confirms to send. message_bytes_max: of a body.
    warned_deliveries: the delivery tags of unsettled deliveries that were warned of (timeouts).
    intercepts_outgoing: messages may be changed before its client gets them (interceptors.py).
    counts: its messages; `message_counts` adds those that are not counted on the message path.
    """

    __slots__ = (
        "committing", "confirms", "connection", "consumers", "counts", "global_credit",
        "global_prefetch_count", "has_confirms_due", "has_ended", "intercepts_outgoing",
        "last_queue", "message_bytes_max", "next_delivery_tag", "number", "opened_at_s",
        "prefetch_count", "reply_consumer_tag", "reply_name", "services", "transaction", "unacked",
        "vhost", "warned_deliveries",
    )  # fmt: skip

    def __init__(self, connection: SessionConnection, number: int) -> None:
        self.connection = connection
        self.number = number
        self.services = services = connection.services
        self.vhost = connection.vhost
        self.has_ended = False
        self.next_delivery_tag = 1
        self.unacked = UnackedMessages()
        self.warned_deliveries: set[int] = set()
        self.consumers: dict[str, Any] = {}
        self.prefetch_count = 0
        self.global_prefetch_count = 0
        self.global_credit = UNLIMITED
        self.last_queue = ""
        self.confirms: Confirms | None = None
        self.has_confirms_due = False
        self.transaction: Transaction | None = None
        self.committing: list[Transaction] = []
        self.reply_consumer_tag = ""
        self.reply_name = ""
        self.intercepts_outgoing = bool(services.outgoing_interceptors)
        self.counts = MessageCounts()
        self.message_bytes_max = services.config.max_message_size_bytes
        self.opened_at_s = services.clock.wall_time_s()
        services.counts.channels_opened += 1

    @property
    def name(self) -> str:
        """Its name in RabbitMQ's form."""
        return f"{self.connection.name} ({self.number})"

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.number} of {self.connection.name}>"

    # Notifying the client

    @abstractmethod
    def send_returned(self, messages: list[Message], code: int, text: str) -> None:
        """Return messages to their publisher; all were published to one address.

        code, text: AMQP's reply code, and its name.
        """

    @abstractmethod
    def send_confirms_later(self) -> None:
        """Confirms have become due: `take_confirms` and send them at the end of the round."""

    def commit_ended(self, fault: ChannelFault | None) -> None:
        """A commit is complete, and everything persistent is on disk; or it failed.

        Only a protocol with transactions needs it, and the next one only with direct reply-to.
        """

    @property
    def tells_cancels(self) -> bool:
        """Whether the client is notified when a consumer ends that it has not cancelled."""
        return False

    @property
    def outlives_timeouts(self) -> bool:
        """Whether its consumers go on when they have held messages for too long: only their queue
        takes messages back.
        """
        return False

    @property
    def is_shown_as_channel(self) -> bool:
        """Whether management shows the session as a channel of its connection."""
        return True

    @property
    def may_be_mandatory(self) -> bool:
        """Whether the protocol lets the client ask for the return of unroutable messages."""
        return False

    def deliver_reply(self, message: Message) -> None:
        """A message for the session's consumer on amq.rabbitmq.reply-to."""

    # Declaring

    def submit(self, declaration: Declaration) -> Answer[None]:
        """Submit a declaration; the answer is given when it is applied.

        Before the client is told, its `synced` is awaited.
        """
        requester = self.connection.requester
        return self.services.declarations.submit(declaration, requester=requester)

    def synced(self) -> Answer[None]:
        """An answer that is given when all earlier declarations are on disk.

        It is awaited before the client is told that the requested state existed already.
        """
        return self.services.declarations.synced()

    # Confirms and commits

    def begin_confirms(self) -> None:
        """Confirm messages from the next one on."""
        self.confirms = Confirms(self.confirms_due)

    def begin_transaction(self) -> None:
        """Keep later publishes and settlements until a commit (committing.py)."""
        self.transaction = Transaction(self.commits_due)

    def confirms_due(self) -> None:
        """Messages were settled: the publisher gets confirms."""
        if not self.has_confirms_due:
            self.has_confirms_due = True
            self.send_confirms_later()

    def take_confirms(self) -> list[Settlement]:
        """The confirms that are due to the publisher; none while the node holds them back."""
        if self.services.holds_confirms:
            return []
        self.has_confirms_due = False
        return [] if self.confirms is None else self.confirms.take()

    def commits_due(self) -> None:
        """Answer the commits whose messages are all safe, in order.

        A transaction fails as a whole if one of its messages was refused.
        """
        while self.committing and not self.committing[0].is_held:
            transaction = self.committing.pop(0)
            self.counts.refused += transaction.refused_count
            failed = transaction.has_failed
            self.commit_ended(precondition_failed("partial tx completion") if failed else None)

    # Settling

    def record_delivered(
        self, queue: QueueClient, entries: list[Entry], consumer: SettlingConsumer | None
    ) -> int:
        """Record messages as unsettled, with delivery tags that count up; return the first one.

        consumer: None if they were not delivered to one.
        """
        first = tag = self.next_delivery_tag
        records, now_ms = self.unacked.records, self.services.clock.now_ms()
        for entry in entries:
            records[tag] = Unacked(entry, queue, consumer, now_ms)
            tag += 1
        self.next_delivery_tag = tag
        return first

    def take_unacked(self, delivery_tag: int, multiple: bool) -> list[tuple[int, Unacked]]:
        """Take out the deliveries that a settlement names. Raises 406 for an unknown tag."""
        taken: list[tuple[int, Unacked]] | None
        if multiple:
            taken = self.unacked.take_up_to(delivery_tag)
        else:
            record = self.unacked.take(delivery_tag)
            taken = None if record is None else [(delivery_tag, record)]
        if taken is None:
            self.require_taken_back(delivery_tag)
            before = self.unacked.last_open_before(delivery_tag) if multiple else 0
            taken = self.unacked.take_up_to(before) if before else None
        return taken or []

    def require_taken_back(self, delivery_tag: int) -> None:
        """Raise 406 unless the delivery was taken back from a cancelled consumer."""
        if not self.unacked.forget_taken_back(delivery_tag):
            raise unknown_delivery_tag(delivery_tag)

    def requeue(self, taken: list[tuple[int, Unacked]], is_failed: bool = False) -> None:
        """Return messages to their queues, each queue getting all of its own at once.

        is_failed: see `QueueClient.requeue`.
        """
        for _, record in taken:
            if record.consumer is not None:
                record.consumer.settled()
        for queue, entries in by_queue(taken):
            queue.requeue(entries, is_failed)

    def give_back(self, taken: list[tuple[int, Unacked]], channel_ended: bool) -> None:
        """Requeue unsettled deliveries that the client did not reject."""
        if taken and self.vhost.tracer is not None:
            self.vhost.tracer.requeued(taken)
        self.requeue(taken, channel_ended)

    def credit_consumers(self) -> None:
        """The limit that all consumers share has room again: credit the waiting ones.

        The consumer that was served longest ago comes first; otherwise the first one would get all
        messages.
        """
        self.vhost.turns.work_left -= 2 * len(self.consumers)
        waiting = [consumer for consumer in self.consumers.values() if consumer.is_waiting]
        for consumer in sorted(waiting, key=_served):
            consumer.queue.credit(consumer)

    def fail_timed_out(self, timeout_ms: int) -> None:
        """Raise 406: a delivery has been unsettled for too long."""
        raise precondition_failed(
            f"delivery acknowledgement on channel {self.number} timed out. Timeout value "
            f"used: {timeout_ms} ms. This timeout value can be configured, see consumers doc "
            "guide to learn more"
        )

    # Ending

    def stop(self) -> None:
        """Stop all deliveries, because the session ends."""
        if self.reply_name:
            self.services.replies.remove(self.reply_name)
            self.reply_name = self.reply_consumer_tag = ""
        self.has_ended = True

    def release(self) -> None:
        """Cancel the consumers and requeue unsettled deliveries, because the session ends."""
        self.stop()
        consumers = deque(self.consumers.values())
        self.consumers.clear()
        unacked, self.unacked = self.unacked, UnackedMessages()
        count = len(unacked)
        transaction, self.transaction = self.transaction, None
        if transaction is not None:
            count += transaction.settled_count
            transaction.settled = _no_listener
        # An auto-delete queue is deleted with its last consumer. The messages that this session
        # holds of it are lost then, as in RabbitMQ, so they need not be requeued first.
        cancelling = self._cancelling(consumers)
        if len(consumers) > CONSUMERS_AT_ONCE:
            LongWork(self.vhost.turns, f"the consumers of {self!r}", cancelling).start()
        else:
            for _ in cancelling:
                pass
        self.counts.given_back += count
        if count:
            steps = self._giving_back(unacked, transaction)
            LongWork(self.vhost.turns, f"giving back what {self!r} held", steps).start()
        if transaction is not None:
            steps = transaction.dropping_publishes()
            LongWork(self.vhost.turns, f"the transaction of {self!r}", steps).start()
        counts = self.services.counts
        counts.channels_closed += 1
        messages = self.message_counts()
        counts.closed_channels.add(messages)
        self.vhost.closed_channels.add(messages)
        with_confirms = 0 if self.confirms is None else self.confirms.published
        counts.published_with_confirms += with_confirms
        if self.counted_as != AMQP091:
            own = counts.by_protocol.setdefault(self.counted_as, ProtocolCounts())
            own.messages.add(messages)
            own.with_confirms += with_confirms
        if self.confirms is not None:
            self.confirms.due = _no_listener
        self.confirms = None
        for transaction in self.committing:
            transaction.settled = _no_listener
        self.committing = []

    def _cancelling(self, consumers: deque[Any]) -> Iterator[int]:
        """The session has ended: cancel its consumers, in steps, and report that it is closed."""
        count = len(consumers)
        while consumers:
            consumer = consumers.popleft()
            if not consumer.queue.is_deleted:
                consumer_deleted(consumer)
                consumer.queue.cancel(consumer, channel_ended=True)
            yield CANCEL_WORK
        self.report_closed(count)

    def _giving_back(
        self, unacked: UnackedMessages, transaction: Transaction | None
    ) -> Iterator[int]:
        """The session has ended: requeue what it held, in steps, in the order of delivery tags."""
        if transaction is not None:
            yield from unacked.putting_back(transaction.hand_over(), self.next_delivery_tag)
        yield from giving_back(unacked.hand_over(), partial(self.give_back, channel_ended=True))

    def report_closed(self, consumer_count: int) -> None:
        """Notify of the end of the session. consumer_count: the consumers that ended with it."""
        channel_closed(self, consumer_count)

    # Statistics

    @property
    def counted_as(self) -> str:
        """RabbitMQ's name of the protocol for which metrics count the messages."""
        return AMQP091

    @property
    def publisher_count(self) -> int:
        """How many publishers metrics count: one, if it has published."""
        return int(self.counts.published > 0)

    @property
    def returns_replies(self) -> bool:
        """Whether a mandatory direct reply comes back though it was delivered."""
        return not self.services.config.is_as_rabbitmq_4_3

    def message_counts(self) -> MessageCounts:
        """The messages of the session so far."""
        counts = self.counts
        if self.confirms is not None:
            settled = self.confirms.published - self.confirms.unconfirmed_count
            counts.refused = self.confirms.refused_count
            counts.confirmed = max(0, settled - counts.refused)
        taken = counts.delivered + counts.got - len(self.unacked) - counts.given_back
        counts.acked = max(0, taken)
        return counts


def _served(consumer: Any) -> int:
    served: int = consumer.served
    return served


def _no_listener() -> None:
    """The session has ended: ignore confirms that still come."""


def unknown_delivery_tag(delivery_tag: int) -> ChannelFault:
    """406 for a tag that is not open in the session."""
    return precondition_failed(f"unknown delivery tag {delivery_tag}")
