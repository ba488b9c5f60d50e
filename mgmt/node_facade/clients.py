"""Open connections and channels, as objects that return plain data about themselves.

A node with many clients has no index of them by name. So a list of them is made of these objects,
whose short facts are read for sorting and filters, and their status only where it is shown.
"""

import asyncio
from collections.abc import Iterable
from contextlib import suppress

from leveret.broker.amqp.errors import Fault
from leveret.broker.amqp.json_form import text
from leveret.broker.queues.contract.link_status import SessionStatus
from leveret.broker.queues.contract.queue_client import QueueClient
from leveret.broker.queues.contract.status import PublisherFigures, SubscriptionFigures
from leveret.broker.runtime.counts import MessageCounts
from leveret.broker.runtime.pending import Answer
from leveret.broker.runtime.pending_in_task import given_in_task
from leveret.broker.sessions.served_connection import DRAINED, ServedConnection
from leveret.broker.sessions.session import Session
from leveret.broker.sessions.status import (
    ChannelStatus,
    ConnectionStatus,
    channel_status,
    consumers_of,
    unsettled_deliveries,
)
from leveret.mgmt.node_facade.facts import (
    ChannelConsumer,
    ChannelNumbers,
    HeldByChannel,
    HeldByConsumer,
)


class OpenChannel:
    """A channel of a client."""

    __slots__ = ("_channel", "_connection")

    def __init__(self, connection: ServedConnection, channel: Session) -> None:
        self._connection = connection
        self._channel = channel

    @property
    def name(self) -> str:
        """The connection's name, and its number."""
        return self._channel.name

    @property
    def number(self) -> int:
        """Its number in the connection."""
        return self._channel.number

    @property
    def user(self) -> str:
        """The name of its connection's user."""
        return self._connection.user.name

    @property
    def vhost(self) -> str:
        """The name of its vhost."""
        return self._channel.vhost.name

    @property
    def counted_as(self) -> str:
        """RabbitMQ's name of the protocol for which metrics count its messages."""
        return self._channel.counted_as

    @property
    def publisher_count(self) -> int:
        """How many publishers metrics count."""
        return self._channel.publisher_count

    def counts(self) -> MessageCounts:
        """Its messages so far."""
        return self._channel.message_counts()

    def status(self) -> ChannelStatus:
        """The status, without counts of messages and without consumers."""
        return channel_status(self._channel, self._connection.publishing_state)

    def numbers(self) -> ChannelNumbers:
        """The numbers for metrics: fewer than in its status, in less time."""
        channel = self._channel
        confirms, transaction = channel.confirms, channel.transaction
        return ChannelNumbers(
            len(channel.consumers), len(channel.unacked),
            confirms.unconfirmed_count if confirms is not None else 0,
            transaction.publish_count if transaction is not None else 0,
            transaction.settled_count if transaction is not None else 0,
            channel.prefetch_count, channel.global_prefetch_count,
            confirms.published if confirms is not None else 0,
        )  # fmt: skip

    def consumers(self) -> list[ChannelConsumer]:
        """Its consumers, in the order in which they subscribed."""
        lives_here = self._channel.vhost.lives_here
        return [
            ChannelConsumer(queue.name, lives_here(queue), figures)
            for queue, figures in consumers_of(self._channel)
        ]

    @property
    def has_far_consumers(self) -> bool:
        """Whether it consumes from a queue that lives on another node."""
        return bool(self.far_queues())

    def far_queues(self) -> set[QueueClient]:
        """The queues of its consumers that live on other nodes."""
        lives_here = self._channel.vhost.lives_here
        queues = {consumer.queue for consumer in self._channel.consumers.values()}
        return {queue for queue in queues if not lives_here(queue)}

    def held(self, looked_at_max: int) -> HeldByChannel:
        """Its unsettled deliveries, of which only the oldest are examined."""
        channel = self._channel
        counts, unacked = channel.counts, channel.unacked
        settled = counts.delivered + counts.got - len(unacked)
        if not unacked:
            return HeldByChannel(settled, {}, {})
        records = unsettled_deliveries(channel, looked_at_max)
        vhost = channel.vhost.name
        oldest: dict[QueueClient, int] = {}
        spans: dict[object, tuple[int, int]] = {}
        for one in records:
            at_ms = one.delivered_at_ms
            oldest[one.queue] = min(at_ms, oldest.get(one.queue, at_ms))
            first_ms, _ = spans.get(one.consumer, (at_ms, 0))
            spans[one.consumer] = first_ms, at_ms
        are_all = len(records) == len(unacked)
        consumers = {
            text(consumer.tag): HeldByConsumer(
                *spans[consumer], are_all and consumer.held == consumer.prefetch_count
            )
            for consumer in channel.consumers.values()
            if consumer in spans
        }
        return HeldByChannel(
            settled, consumers, {(vhost, queue.name): at_ms for queue, at_ms in oldest.items()}
        )


class OpenConnection:
    """A connection of a client."""

    __slots__ = ("_connection",)

    def __init__(self, connection: ServedConnection) -> None:
        self._connection = connection

    @property
    def name(self) -> str:
        """The addresses of both ends."""
        return self._connection.name

    @property
    def user(self) -> str:
        """The name of its user. Not during the handshake."""
        return self._connection.user.name

    @property
    def vhost(self) -> str:
        """The name of its vhost. Not during the handshake."""
        return self._connection.vhost.name

    @property
    def state(self) -> str:
        """`running`, `flow` or `blocked`."""
        return self._connection.publishing_state

    @property
    def channel_count(self) -> int:
        """The number of open channels."""
        return len(self._connection.channels)

    @property
    def traffic(self) -> tuple[int, int, int, int]:
        """Bytes in and out, reads and writes."""
        one = self._connection
        return one.bytes_in, one.bytes_out, one.reads, one.writes

    def channels(self) -> list[OpenChannel]:
        """Its open channels."""
        connection = self._connection
        return [OpenChannel(connection, one) for one in connection.channels.values()]

    def sessions(self) -> list[OpenChannel]:
        """Its open channels, or the session of a protocol that shows none."""
        connection = self._connection
        return [OpenChannel(connection, one) for one in connection.sessions]

    def publishers(self) -> list[PublisherFigures]:
        """Its publishers, in a protocol without channels."""
        return self._connection.publishers()

    def subscriptions(self) -> list[SubscriptionFigures]:
        """Its subscriptions, in a protocol without channels."""
        return self._connection.subscriptions()

    def sessions_with_links(self) -> list[SessionStatus] | None:
        """Its sessions in AMQP 1.0; None in other protocols."""
        return self._connection.sessions_with_links()

    @property
    def protocol(self) -> str:
        """RabbitMQ's name of its protocol."""
        return self._connection.protocol

    def status(self) -> ConnectionStatus:
        """Everything that is shown of it."""
        return self._connection.status()

    def close(self, reason: str) -> None:
        """Close it; its client is told the reason."""
        self._connection.force_close(reason)

    def drain(self) -> None:
        """Close it, because the node is put under maintenance; its client is told."""
        self._connection.force_close(DRAINED)


async def refresh_activities(channels: Iterable[OpenChannel], seconds_max: float) -> None:
    """Ask other nodes for the active consumer of those queues that have one at a time."""
    queues = {
        queue
        for channel in channels
        for queue in channel.far_queues()
        if queue.options.single_active_consumer
    }
    if queues:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds_max):
                await asyncio.gather(*map(_refresh, queues))


async def _refresh(queue: QueueClient) -> None:
    refreshed: Answer[None] = Answer()
    queue.figures.refresh(refreshed)
    with suppress(Fault):
        # Without a link to its node, the view shows the last known state.
        await given_in_task(refreshed)
