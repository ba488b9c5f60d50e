"""A queue's figures as plain data, possibly from another process or node.

Code that shows or sums up queues uses only a queue's `QueueFigures`. A node may have many thousand
queues, so there are two levels: `counts` is a few integers, cheap enough to read for every queue;
`status` is everything that management shows of one queue. `ages` is separate for metrics, and
`consumers` because there may be thousands. A queue of this process computes the results
(figures.py); a remote queue returns those that it received last.

All results are msgspec structs of plain values: `msgspec.msgpack` encodes and decodes them
directly. They contain no reference cycles, so the garbage collector does not track them. Texts are
valid Unicode: bytes of a name that are not UTF-8 are replaced, as in JSON. The declaration (name,
arguments, policies) is not in a status, because every node has the declarations.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

import msgspec

from leveret.broker.runtime.pending import Answer
from leveret.storage.contract.queue_status import StorageCounts

RUNNING, CRASHED = "running", "crashed"
"""A queue's state. Crashed: the store has not been able to read its messages for some time."""
UP, WAITING, SINGLE_ACTIVE = "up", "waiting", "single_active"
"""A consumer's activity: it gets messages; it waits, because another consumer is the single active
one; it is the single active consumer.
"""


class CoarseCounts(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """The numbers of a queue's messages and consumers, and totals of its message events.

    ready, unacked: messages in the queue now. dlx: dead letters that a quorum queue keeps until
    they are confirmed. delayed: messages that the queue has taken back, and that are ready again
    after a time. duplicates: messages that were not added, since the queue had them.
    expired_on_time: messages that left at their times, wherever they were in the queue. All
    others except `consumers` are totals since the queue was declared or the
    node started; with `no_ack`: deliveries and gets that need no ack.
    """

    ready: int = 0
    unacked: int = 0
    consumers: int = 0
    published: int = 0
    delivered: int = 0
    delivered_no_ack: int = 0
    got: int = 0
    got_no_ack: int = 0
    got_empty: int = 0
    redelivered: int = 0
    acked: int = 0
    dlx: int = 0
    delayed: int = 0
    duplicates: int = 0
    expired_on_time: int = 0

    @property
    def messages(self) -> int:
        """Ready, unacked and delayed ones, and retained dead letters."""
        return self.ready + self.unacked + self.delayed + self.dlx

    @property
    def deliver_get(self) -> int:
        """Messages delivered or got, with or without ack."""
        return self.delivered + self.delivered_no_ack + self.got + self.got_no_ack


class AgeFigures(msgspec.Struct, frozen=True, gc=False):
    """The ages of a queue's messages, in milliseconds.

    oldest_ready_ms: the age of the oldest ready message; None if none is ready.
    waited_counts: a histogram of the waiting times of delivered messages, one number for each of
    `age.BOUNDS_MS` and one for longer times. waited_ms: the sum of the waiting times.
    """

    oldest_ready_ms: int | None
    waited_counts: list[int]
    waited_ms: int


class ConnectionFigures(msgspec.Struct, frozen=True, gc=False):
    """The owning connection's fields that management shows with a queue or consumer."""

    name: str
    peer_host: str
    peer_port: int


class PublisherFigures(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A publisher of a protocol without channels. number: in its connection.

    reference: its name; empty if it has none. published, confirmed, refused: messages, or batches.
    """

    number: int
    reference: str
    queue: str
    published: int
    confirmed: int
    refused: int


class SubscriptionFigures(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A subscription of a protocol without channels. number: in its connection.

    credit: how much the client takes now. offset: of its next message. lag: how many messages are
    behind the last one that it got; both 0 while it does not read. lag_ms: how old the last message
    that it got is, if there are others; None if it has not got any. consumed: messages that it got.
    """

    number: int
    queue: str
    properties: dict[str, str]
    credit: int
    is_single_active: bool
    is_active: bool
    offset: int
    lag: int
    lag_ms: int | None
    consumed: int


class ConsumerFigures(msgspec.Struct, frozen=True, gc=False):
    """One consumer.

    activity: `UP`, `WAITING` or `SINGLE_ACTIVE`. unacked: the number of messages that it holds
    unsettled. credit: the number of further messages that it may hold; None if unlimited.
    timeout_ms: how long it may hold one; None if only the node's limit applies. arguments: as JSON
    (amqp/json_form.py). node: the node of its channel, if the queue lives on another one; the other
    figures are then those of its subscription. offset, lag, lag_ms: of a log's consumer, the offset
    of the next message that it gets, the number of messages that it has not been given, and about
    how old the first of these is. has_channel: management shows its session as a channel.
    """

    tag: str
    ack_required: bool
    activity: str
    is_exclusive: bool
    priority: int
    prefetch_count: int
    credit: int | None
    timeout_ms: int | None
    arguments: dict[str, Any]
    connection: ConnectionFigures
    channel_name: str
    channel_number: int
    user: str
    unacked: int = 0
    node: str = ""
    offset: int | None = None
    lag: int | None = None
    lag_ms: int | None = None
    has_channel: bool = True

    @property
    def is_active(self) -> bool:
        """Whether messages may be delivered to it."""
        return self.activity != WAITING


class DeduplicationStatus(msgspec.Struct, frozen=True, gc=False):
    """The identifiers that a queue or an exchange knows, to recognise duplicates.

    entries: how many there are, of `size` at most. memory_bytes: approximate.
    """

    entries: int
    size: int
    memory_bytes: int


class QuorumStatus(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """What only quorum queues have.

    priorities: how many there are; 1 for none. returned: of the ready messages, those that were
    returned, which go before all others. by_priority: the others, by level, if there are any.
    delivery_limit: None if there is none. next_delayed_ms, last_delayed_ms: the wall-clock times
    when the first and the last delayed messages are ready; 0 if there are none. delayed_retry:
    which returned messages are delayed, and how long.
    """

    priorities: int
    returned: int
    by_priority: tuple[tuple[int, int], ...]
    delivery_limit: int | None
    delayed_bytes: int
    next_delayed_ms: int
    last_delayed_ms: int
    delayed_retry: str = "disabled"


class RetryStatus(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """The returned messages of a classic queue that wait, and what is set for them.

    The fields are those of `QuorumStatus`.
    """

    delivery_limit: int | None
    delayed_bytes: int
    next_delayed_ms: int
    last_delayed_ms: int
    delayed_retry: str


class StreamStatus(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """What only streams have, from the member on this node.

    first_offset, next_offset: of the first message, and after the last committed one. segments:
    their number, and size_bytes that of all of them together; 0 without a member on this node.
    readers: how many there are, by node.
    """

    first_offset: int
    next_offset: int
    segments: int
    size_bytes: int
    readers: dict[str, int]


class RaftFigures(NamedTuple):
    """The member of a queue on this node, for metrics: its place in the log of the group.

    commit_seconds: how long the last measured entry took until a majority had it; 0 if this member
    has not led. is_led: a leader is known. lacks: entries that a member in the group lacks, by the
    node of each, if this member leads.
    """

    term: int
    snapshot: int
    applied: int
    commit: int
    written: int
    commit_seconds: float
    is_led: bool
    lacks: Mapping[str, int]


class QueueStatus(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """The status of one queue for management, without its declaration.

    consumer_capacity: the share of consumers that have room for a message; 0 without consumers.
    owner: the connection that owns an exclusive queue. memory_bytes: approximate.
    head_timestamp_s: the timestamp of the first ready message, if it has one and is in memory.
    declared_at_s: wall-clock time; for a recovered queue, the start time of the node. dlx_bytes:
    the bytes of the bodies of its retained dead letters. quorum: of a replicated quorum queue.
    stream: of a stream. retries: of a classic queue with a delivery limit or delayed retries.
    deduplication: None if the queue takes duplicates. expires_on_time: whether messages expire
    wherever they are in it.
    """

    counts: CoarseCounts
    storage: StorageCounts
    declared_at_s: float
    state: str = RUNNING
    consumer_capacity: int | float = 0
    exclusive_consumer_tag: str | None = None
    single_active_consumer_tag: str | None = None
    owner: ConnectionFigures | None = None
    memory_bytes: int = 0
    head_timestamp_s: int | None = None
    dlx_bytes: int = 0
    quorum: QuorumStatus | None = None
    stream: StreamStatus | None = None
    retries: RetryStatus | None = None
    deduplication: DeduplicationStatus | None = None
    expires_on_time: bool = False


class QueueFigures(Protocol):
    """The interface to a queue's figures. Every method returns immediately."""

    def refresh(self, answer: Answer[None]) -> None:
        """Bring the figures up to date. Refused if the queue's node cannot be reached."""

    def counts(self) -> CoarseCounts:
        """The counts; takes about a microsecond."""

    def ages(self) -> AgeFigures:
        """The ages of its messages."""

    def consumers(self) -> list[ConsumerFigures]:
        """All consumers, in the order in which they subscribed."""

    def status(self) -> QueueStatus:
        """The status, without ages and the list of consumers."""

    def backing_queue_status(self) -> dict[str, Any]:
        """Where its messages are: RabbitMQ's field of this name, as JSON."""
