"""Channels and consumers as JSON, with RabbitMQ's fields, and message statistics."""

from collections.abc import Sequence
from typing import Any

from broker.channel.channel import Channel
from broker.channel.consumer import Consumer
from broker.interfaces import UNLIMITED
from broker.net.connection import Connection
from mgmt.statistics.sampler import MESSAGES, Sampler, message_row
from mgmt.statistics.series import Series, Window
from mgmt.views.values import iso_time, table_to_json, text


def message_stats(
    names: Sequence[str], row: Sequence[int], series: Series, now_ms: int, window: Window | None
) -> dict[str, Any]:
    """Totals, and beside each its rate."""
    stats: dict[str, Any] = {}
    for column, name in enumerate(names):
        stats[name] = row[column]
        stats[f"{name}_details"] = series.details(column, now_ms, window)
    return stats


def channel_name(connection: Connection, channel: Channel) -> str:
    """As RabbitMQ names it."""
    return f"{connection.name} ({channel.number})"


def connection_details(connection: Connection) -> dict[str, Any]:
    """What a channel shows of its connection."""
    return {
        "name": connection.name,
        "peer_host": connection.peer_host,
        "peer_port": connection.peer_port,
    }


def channel_view(
    connection: Connection, channel: Channel, sampler: Sampler, window: Window | None = None
) -> dict[str, Any]:
    """A channel as a list has it."""
    node = sampler.broker.config.node_name
    confirms, transaction = channel.confirms, channel.transaction
    view: dict[str, Any] = {
        "name": channel_name(connection, channel),
        "number": channel.number,
        "connection_details": connection_details(connection),
        "node": node,
        "vhost": text(channel.vhost.name),
        "user": text(connection.user.name),
        "user_who_performed_action": text(connection.user.name),
        "state": "flow" if connection.publishing_state == "flow" else "running",
        "confirm": confirms is not None,
        "transactional": transaction is not None,
        "consumer_count": len(channel.consumers) + bool(channel.reply_consumer_tag),
        "messages_unacknowledged": len(channel.unacked),
        "messages_unconfirmed": confirms.unconfirmed_count if confirms is not None else 0,
        "messages_uncommitted": len(transaction.publishes) if transaction is not None else 0,
        "acks_uncommitted": len(transaction.taken()) if transaction is not None else 0,
        "prefetch_count": channel.prefetch_count,
        "global_prefetch_count": channel.global_prefetch_count,
        "pending_raft_commands": 0,
        "reductions": 0,
        "reductions_details": {"rate": 0.0},
        "garbage_collection": {
            "fullsweep_after": 0, "max_heap_size": 0, "min_bin_vheap_size": 0,
            "min_heap_size": 0, "minor_gcs": 0,
        },
    }  # fmt: skip
    idle_since_s = sampler.idle_since_s(channel)
    if idle_since_s is not None:
        view["idle_since"] = iso_time(idle_since_s)
    row = message_row(channel.message_counts())
    series = sampler.objects.get(channel)
    if series is not None and any(row):
        view["message_stats"] = message_stats(MESSAGES, row, series, sampler.now_ms(), window)
    return view


def single_channel_view(
    connection: Connection, channel: Channel, sampler: Sampler, window: Window | None = None
) -> dict[str, Any]:
    """A channel on its own: with its consumers, too."""
    node = sampler.broker.config.node_name
    view = channel_view(connection, channel, sampler, window)
    view["consumer_details"] = [
        consumer_view(consumer, node) for consumer in channel.consumers.values()
    ]
    view["publishes"] = []
    view["deliveries"] = []
    return view


def consumer_view(consumer: Consumer, node: str) -> dict[str, Any]:
    """A consumer."""
    channel = consumer.channel
    connection = channel.connection
    assert isinstance(connection, Connection)
    ring = consumer.queue.ring
    is_active = not ring.is_single_active or ring.active is consumer
    return {
        "arguments": table_to_json(consumer.arguments),
        "ack_required": not consumer.no_ack,
        "active": is_active,
        "activity_status": "single_active" if ring.active is consumer else (
            "up" if is_active else "waiting"
        ),
        "channel_details": {
            "connection_name": connection.name,
            "name": channel_name(connection, channel),
            "node": node,
            "number": channel.number,
            "peer_host": connection.peer_host,
            "peer_port": connection.peer_port,
            "user": text(connection.user.name),
        },
        "consumer_tag": text(consumer.tag),
        "consumer_timeout": consumer.queue.options.consumer_timeout_ms,
        "exclusive": consumer.is_exclusive,
        "prefetch_count": consumer.prefetch_count,
        "queue": {"name": text(consumer.queue.name), "vhost": text(channel.vhost.name)},
        "credit": None if consumer.credit > UNLIMITED // 2 else consumer.credit,
    }  # fmt: skip
