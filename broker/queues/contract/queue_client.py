"""The queue client: the interface of a queue to the rest of the broker.

Channels, virtual hosts, dead-lettering, tracing and management use queues through this protocol
only (compare RabbitMQ's `rabbit_queue_type`). A queue may be in this process (classic_queue.py), in
another process or on another node. So a method that needs a result from the queue takes an `Answer`
(broker/runtime/pending.py), which the queue gives immediately or later. Messages and settlements
are passed in runs, since a call for each one would be the largest cost.

Promises that every kind of queue keeps:

Q1. Calls of one caller take effect in their order: a message that is published before a `get` is
    available to it.
Q2. Each run is confirmed or refused: `publish` counts as a confirm when it returns, unless the
    queue held the run by then (`Publisher.hold`) or refused messages of it.
Q3. Each `Answer` is given exactly once, even if the queue is deleted before that.
Q4. A consumer gets no message before its `subscribe` is answered, none after its `cancel` is, and
    never more than its room. When the queue is deleted or crashes, `Consumer.queue_deleted` is
    called once. `tell_cancelled` follows at once, or for a deletion when its caller calls it.
Q5. The receiver of an entry settles it, once. Settling entries of a deleted queue has no effect.
Q6. A queue of a kind that removes messages (`QueueKind.removes_messages`) keeps an entry until it
    is acked or discarded. A log keeps all of them: settling only gives the consumer room.
"""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, Protocol

from mypy_extensions import mypyc_attr, trait

from leveret.broker.amqp.field_table import Table
from leveret.broker.amqp10.filters.message_filter import MessageFilter
from leveret.broker.declarations.requester import Requester
from leveret.broker.queues.contract.arguments import QueueOptions
from leveret.broker.queues.contract.demand import Demand
from leveret.broker.queues.contract.offset_specification import NEXT, OffsetSpecification
from leveret.broker.queues.contract.placement import Placement
from leveret.broker.queues.contract.publication import Publication
from leveret.broker.queues.contract.queue_kind import QueueKind
from leveret.broker.queues.contract.status import ConsumerFigures, QueueFigures
from leveret.broker.queues.contract.stream_arguments import ALL_MESSAGES, StreamFilter
from leveret.broker.runtime.pending import Answer
from leveret.storage.messages.message import Entry

UNLIMITED: Final = 1 << 60
"""Unlimited credit: a number that no client can use up, so no branch is needed. Compiled code
compares numbers below 1 << 62 without a call."""


class ExclusiveOwner(Protocol):
    """The connection that owns an exclusive queue."""

    name: str
    peer_host: str
    peer_port: int

    def forget_queue(self, name: str) -> None:
        """The queue is deleted."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Consumer:
    """A consumer as a queue sees it. A class, so that compiled code calls it directly.

    is_waiting: it had no room when a message was ready for it. The queue skips it until
    `QueueClient.credit` reports that it has room again.
    cancels_on_failover: it must not continue with the next leader of a replicated queue
    (x-cancel-on-ha-failover).
    start: where it begins to read a log when it subscribes. Other kinds of queues ignore it.
    timeout_ms: how long it may hold a message; None for the queue's timeout.
    wanted: the chunks of a stream that it wants. message_filter: the messages in them that it
    wants; None for all. wants_entries: messages of streams have their stored form (`ENTRY_FORM`).
    """

    __slots__ = (
        "cancels_on_failover", "is_exclusive", "is_waiting", "message_filter", "no_ack", "priority",
        "start", "tag", "timeout_ms", "wanted", "wants_entries",
    )  # fmt: skip

    def __init__(
        self,
        tag: str,
        no_ack: bool,
        is_exclusive: bool,
        priority: int,
        cancels_on_failover: bool = False,
        start: OffsetSpecification = NEXT,
        timeout_ms: int | None = None,
        wanted: StreamFilter = ALL_MESSAGES,
    ) -> None:
        self.tag = tag
        self.no_ack = no_ack
        self.is_exclusive = is_exclusive
        self.priority = priority
        self.cancels_on_failover = cancels_on_failover
        self.start = start
        self.timeout_ms = timeout_ms
        self.wanted = wanted
        self.message_filter: MessageFilter | None = None
        self.wants_entries = False
        self.is_waiting = False

    @abstractmethod
    def room(self) -> int:
        """The number of messages that may be delivered to it now."""

    @abstractmethod
    def figures(self, activity: str) -> ConsumerFigures:
        """Its figures for management. activity: see `ConsumerFigures`."""

    @abstractmethod
    def deliver(self, entries: list[Entry]) -> None:
        """Send messages to the client, at most `room`."""

    def active_changed(self, is_active: bool) -> None:
        """It has become the single active consumer of a quorum queue, or no longer is."""

    def caught_up(self) -> None:
        """A log has no further messages for it now. Called after `credit` or a delivery."""

    def trace_chunk(self, offset: int, messages: int, size: int, time_ms: int, lag: int) -> None:
        """Report messages of one chunk of a stream, which were delivered to it, to the tracer.

        offset: of the first one. size: of their bodies. time_ms: of the chunk. lag: how many
        messages are behind them.
        """

    def trace_end(self) -> None:
        """Report to the tracer that it no longer reads a stream."""

    def queue_replaced(self, queue: "QueueClient") -> None:
        """Another object stands for the queue from now on."""

    def queue_deleted(self) -> None:
        """The queue is deleted or has crashed: leave the channel."""

    def released(self, positions: set[int]) -> bool:
        """The queue has taken back messages that it held for too long. Returns whether it goes on;
        otherwise `timed_out` follows.

        positions: those of their entries. It gets no further messages until it has settled these.
        The queue may repeat this call.
        """
        return False

    def timed_out(self) -> None:
        """The queue has taken back messages that it held for too long: end it, or its session."""

    def tell_cancelled(self) -> None:
        """The consumer has ended: send basic.cancel if the client supports it.

        If its queue was deleted, this is called after the deletion was answered.
        """


class Got(NamedTuple):
    """The result of basic.get. ready_count: the number of messages left in the queue."""

    entry: Entry
    ready_count: int


class QueueLength(NamedTuple):
    """The counts in queue.declare-ok."""

    ready_count: int
    consumer_count: int


class Hold(Protocol):
    """Holds back publishers that outrun a queue's consumers (publisher_hold.py)."""

    @property
    def is_wanted(self) -> bool:
        """Whether publishers of many messages at a time have to wait."""

    def begin(self, resume: Callable[[], object]) -> None:
        """A publisher waits; `resume` is called when it may go on."""


@trait
class TimedQueue:
    """A queue that takes messages with different times to live in one call."""

    __slots__ = ()

    @abstractmethod
    def publish_each(self, publication: Publication) -> None:
        """Take messages as `QueueClient.publish` does, all of which expire, each with its own time
        to live (OWN_TTL).
        """


class QueueClient(Protocol):
    """One queue. See the module docstring for the promises.

    declared: the options from its arguments. options: those combined with its policies.
    owner_connection: the only connection that may use it, if it is exclusive.
    bindings: the bindings to it, by their keys. figures: its figures for management.
    placement: where it lives. demand: set by `watch`.
    """

    name: str
    durable: bool
    auto_delete: bool
    is_exclusive: bool
    owner_connection: ExclusiveOwner | None
    arguments: Table
    declared: QueueOptions
    options: QueueOptions
    policy: Any
    operator_policy: Any
    bindings: dict[Any, Any]
    storage_id: int
    placement: Placement
    demand: Demand | None
    is_deleted: bool

    @property
    def may_redeliver(self) -> bool:
        """Whether some of its messages may have been delivered before."""

    @property
    def kind(self) -> QueueKind:
        """The features that its type of queue supports."""

    @property
    def publisher_hold(self) -> Hold:
        """Tells publishers of many messages at a time whether they have to wait."""

    @property
    def figures(self) -> QueueFigures:
        """Its counts and status as plain data; for a remote queue, those received last."""

    @property
    def is_down(self) -> bool:
        """Whether its node cannot be reached: then no message is routed to it."""

    @property
    def is_exchange(self) -> bool:
        """False: a binding's destination is a queue or an exchange."""

    def __hash__(self) -> int:
        """Queues are compared by identity."""

    # Messages

    def publish(self, publication: Publication) -> None:
        """Take messages."""

    def get(self, ack_required: bool, answer: Answer[Got | None]) -> None:
        """Take the first message, as basic.get does; None if there is none."""

    def ack(self, entries: Sequence[Entry]) -> None:
        """Acknowledge delivered messages."""

    def requeue(self, entries: Sequence[Entry], is_failed: bool = False) -> None:
        """Put delivered messages back: in a classic queue, at their original positions.

        A log does not deliver them again. is_failed: the client did not ask for it, or says that
        the delivery has failed: since RabbitMQ 4.3, by basic.reject.
        """

    def discard(self, entries: Sequence[Entry]) -> None:
        """Reject delivered messages: dead-letter or drop them."""

    # Consumers

    def subscribe(self, consumer: Consumer, answer: Answer[None]) -> None:
        """Add a consumer. Refused with 403 if the queue is in exclusive use.

        A log gives it the messages from its `start` on; the position of each is its offset.
        """

    def cancel(
        self, consumer: Consumer, channel_ended: bool = False, answer: Answer[None] | None = None
    ) -> None:
        """Remove a consumer; an auto-delete queue is deleted with its last one.

        Unless its channel ended, it first gets the messages published and requeued before (Q1).
        answer: given when it gets nothing more. A consumer whose channel ends before that is
        cancelled again.
        """

    def credit(self, consumer: Consumer) -> None:
        """A skipped consumer has room again."""

    def watch(self, demand: Demand | None) -> None:
        """Keep this demand up to date, if the queue lives on this node; None to stop."""

    # The queue as a whole

    def length(self, answer: Answer[QueueLength]) -> None:
        """The numbers of messages and consumers. Counts as use of the queue (x-expires)."""

    def purge(self, answer: Answer[int]) -> None:
        """Drop all ready messages; answers with their number."""

    def delete(
        self, if_unused: bool, if_empty: bool, requester: Requester, answer: Answer[int]
    ) -> None:
        """Delete the queue; answers with the number of its ready messages.

        The answer is given when the deletion is on disk, and before the consumers are told
        (`Consumer.tell_cancelled`), as in RabbitMQ. Refused with 406 if `if_unused` is
        set and the queue is in use, or `if_empty` and it is not empty.
        """

    def delete_now(self) -> Sequence[Consumer]:
        """The vhost has deleted the queue: free everything; returns the consumers that it had.

        The caller calls their `tell_cancelled`.
        """

    def close(self) -> Sequence[Consumer]:
        """Release timers and consumers, because the node stops or the queue ends; return these."""

    def apply(self, options: QueueOptions) -> None:
        """Apply options that policies have changed, with immediate effect."""


def publish_each(queue: QueueClient, publication: Publication) -> int:
    """Hand messages, all of which expire, each at its own time, to a queue: together if it takes
    them so, otherwise those with the same time to live together. Returns the number of parts.
    """
    if isinstance(queue, TimedQueue):
        queue.publish_each(publication)
        return 1
    parts = publication.by_time_to_live()
    for part in parts:
        queue.publish(part)
    return len(parts)
