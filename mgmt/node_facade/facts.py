"""Facts about declared objects as plain data, which may come from another process of the node.

Names and arguments are as they were declared: bytes of a name that are not UTF-8 are surrogates,
and arguments keep their types. Figures are those of queues/contract/status.py.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from leveret.broker.amqp.field_table import Table
from leveret.broker.queues.contract.placement import QueueMembers
from leveret.broker.queues.contract.status import (
    AgeFigures,
    ConsumerFigures,
    DeduplicationStatus,
    QueueStatus,
)

Place = tuple[str, str]
"""A queue or an exchange: its vhost, and its name."""


class StreamFacts(NamedTuple):
    """A stream, as this node knows it. size_bytes: the files of its member, if there is one here.

    first_offset, next_offset: of its first message, and after its last one. consumers: those on
    channels of this node.
    """

    first_offset: int
    next_offset: int
    size_bytes: int
    consumers: list[ConsumerFigures]


class VhostFacts(msgspec.Struct, frozen=True, gc=False):
    """A vhost. queues, exchanges: the numbers of declared ones."""

    name: str
    description: str
    tags: str
    is_traced: bool
    queues: int
    exchanges: int


class UnroutableCountFacts(msgspec.Struct, frozen=True, gc=False):
    """The messages to an exchange that reached no queue and whose routing keys begin with a prefix.

    returned: how many of them were returned. last_ms: milliseconds since 1970.
    """

    exchange: str
    prefix: str
    messages: int
    returned: int
    last_ms: int


class UnroutableMessageFacts(msgspec.Struct, frozen=True, gc=False):
    """A message that reached no queue. user: its publisher's; empty for a dead letter.

    body: the beginning of it, of body_bytes in all.
    """

    time_ms: int
    user: str
    exchange: str
    routing_key: str
    is_returned: bool
    properties: Mapping[str, Any]
    body: bytes
    body_bytes: int


class DeclaredQueue(msgspec.Struct, frozen=True, kw_only=True):
    """A queue as it was declared. kind: the value of x-queue-type."""

    vhost: str
    name: str
    kind: str
    durable: bool
    auto_delete: bool
    is_exclusive: bool
    arguments: Table


class OwnFigures(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of a queue that lives on this node. tiers: `backing_queue_status`."""

    status: QueueStatus
    tiers: dict[str, Any]
    ages: AgeFigures


class QueueFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A node's data about a queue.

    node: the node that it lives on; empty for this one. policy, operator_policy: their names.
    policy_definition: both together. is_replicated: see `QueueKind`. members: None for a queue
    without any. own: None if the queue lives on another node.
    """

    declared: DeclaredQueue
    node: str
    policy: str | None
    operator_policy: str | None
    policy_definition: Mapping[str, Any]
    is_replicated: bool
    members: QueueMembers | None
    own: OwnFigures | None


class QueuePolicies(NamedTuple):
    """The policies in force for a queue, by name, and its options with them."""

    policy: str | None
    operator_policy: str | None
    options: dict[str, Any]


class PlacedQueue(NamedTuple):
    """Where a queue lives. node, members: see `QueueFacts`."""

    vhost: str
    name: str
    kind: str
    node: str
    members: QueueMembers | None


class ExchangeFacts(msgspec.Struct, frozen=True, kw_only=True):
    """An exchange. published: messages. routed: the copies of them that queues got.

    bindings: the number of bindings from it. messages_delayed: None unless it delays messages.
    next_delayed_ms: when the first of them is due, as `DelayedMessages.next_due_ms`. deduplication:
    None unless it refuses duplicates. duplicates: those that it refused on this node.
    """

    vhost: str
    name: str
    type: str
    durable: bool
    auto_delete: bool
    internal: bool
    arguments: Table
    policy: str | None
    bindings: int
    messages_delayed: int | None
    next_delayed_ms: int | None
    deduplication: DeduplicationStatus | None = None
    duplicates: int = 0
    published: int
    routed: int


class BindingFacts(NamedTuple):
    """A binding. Bindings are listed in the order of these fields."""

    vhost: str
    source: str
    destination_kind: str
    destination: str
    routing_key: str
    arguments: Table


class HeldByConsumer(msgspec.Struct, frozen=True, gc=False):
    """The unsettled deliveries of a consumer, as times of the broker's clock.

    is_full: it holds as many as its prefetch count allows.
    """

    oldest_ms: int
    newest_ms: int
    is_full: bool


class HeldByChannel(msgspec.Struct, frozen=True):
    """The oldest unsettled deliveries of a channel.

    settled: the number that it has settled so far. consumers: by tag. queues: the time of the
    oldest delivery of each queue.
    """

    settled: int
    consumers: dict[str, HeldByConsumer]
    queues: dict[Place, int]


class ChannelNumbers(msgspec.Struct, frozen=True, gc=False):
    """The present numbers of a channel, with that of messages published with confirms."""

    consumers: int
    unacked: int
    unconfirmed: int
    uncommitted: int
    acks_uncommitted: int
    prefetch_count: int
    global_prefetch_count: int
    published_with_confirms: int


class ChannelConsumer(NamedTuple):
    """A consumer of a channel, with its queue. is_own: the queue lives on this node."""

    queue: str
    is_own: bool
    figures: ConsumerFigures


class LoopFigures(msgspec.Struct, frozen=True, gc=False):
    """The event loop: actors that wait for their turn, and turns that took too long."""

    waiting: int
    long_turns: int
    long_seconds: float
    waits: int
    longest_seconds: float
