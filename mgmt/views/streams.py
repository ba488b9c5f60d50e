"""Connections of the stream protocol, their publishers and consumers, with RabbitMQ's fields."""

from typing import Any

from leveret.broker.queues.contract.status import (
    SINGLE_ACTIVE,
    UP,
    WAITING,
    ConnectionFigures,
    ConsumerFigures,
    PublisherFigures,
    SubscriptionFigures,
)
from leveret.mgmt.node_facade.clients import OpenConnection
from leveret.mgmt.statistics.sampler import Sampler
from leveret.mgmt.statistics.series import SampleWindow
from leveret.mgmt.views.connections import connection_view


def stream_connection_view(
    connection: OpenConnection, sampler: Sampler, window: SampleWindow | None = None
) -> dict[str, Any]:
    """A connection. It has no type, unlike in a list of all connections."""
    view = connection_view(connection, sampler, window)
    del view["type"]
    return view


def publisher_view(
    connection: OpenConnection, publisher: PublisherFigures, node: str
) -> dict[str, Any]:
    """A publisher."""
    return {
        "connection_details": _details(connection, node),
        "queue": {"name": publisher.queue, "vhost": connection.vhost},
        "publisher_id": publisher.number,
        "reference": publisher.reference,
        "published": publisher.published,
        "confirmed": publisher.confirmed,
        "errored": publisher.refused,
    }


def subscription_view(
    connection: OpenConnection, subscription: SubscriptionFigures, node: str
) -> dict[str, Any]:
    """A consumer."""
    return {
        "connection_details": _details(connection, node),
        "queue": {"name": subscription.queue, "vhost": connection.vhost},
        "subscription_id": subscription.number,
        "credits": subscription.credit,
        "consumed": subscription.consumed,
        "offset": subscription.offset,
        "offset_lag": subscription.lag,
        "offset_lag_ms": subscription.lag_ms,
        "active": subscription.is_active,
        "activity_status": _activity(subscription),
        "properties": subscription.properties,
    }


def consumer_figures(
    connection: OpenConnection, subscription: SubscriptionFigures
) -> ConsumerFigures:
    """A consumer as one of a channel: RabbitMQ lists it so beside those of AMQP 0-9-1."""
    status = connection.status()
    return ConsumerFigures(
        tag=f"stream.subid-{subscription.number}", ack_required=False,
        activity=_activity(subscription), is_exclusive=False, priority=0, prefetch_count=0,
        credit=subscription.credit, timeout_ms=None, arguments=dict(subscription.properties),
        connection=ConnectionFigures(status.name, status.peer_host, status.peer_port),
        channel_name="", channel_number=0, user=status.user,
        offset=subscription.offset, lag=subscription.lag, lag_ms=subscription.lag_ms,
        has_channel=False,
    )  # fmt: skip


def _activity(subscription: SubscriptionFigures) -> str:
    if not subscription.is_single_active:
        return UP
    return SINGLE_ACTIVE if subscription.is_active else WAITING


def _details(connection: OpenConnection, node: str) -> dict[str, Any]:
    status = connection.status()
    return {
        "name": status.name, "node": node, "peer_host": status.peer_host,
        "peer_port": status.peer_port, "user": status.user,
    }  # fmt: skip
