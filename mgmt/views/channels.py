"""Channels and consumers as JSON, with RabbitMQ's fields, and message statistics."""

from collections.abc import Sequence
from typing import Any

from leveret.broker.amqp.json_form import text
from leveret.broker.queues.contract.status import ConnectionFigures, ConsumerFigures
from leveret.mgmt.node_facade.clients import OpenChannel
from leveret.mgmt.statistics.sampler import MESSAGES, Sampler, message_row
from leveret.mgmt.statistics.series import SampleWindow, Series
from leveret.mgmt.views.to_json import NO_ERLANG_PROCESS, iso_time


def message_stats(
    names: Sequence[str],
    row: Sequence[int],
    series: Series,
    now_ms: int,
    window: SampleWindow | None,
) -> dict[str, Any]:
    """Totals, each with its rate."""
    stats: dict[str, Any] = {}
    for column, name in enumerate(names):
        stats[name] = row[column]
        stats[f"{name}_details"] = series.details(column, now_ms, window)
    return stats


def connection_details(connection: ConnectionFigures) -> dict[str, Any]:
    """The connection that a queue or a channel belongs to."""
    return {
        "name": connection.name,
        "peer_host": connection.peer_host,
        "peer_port": connection.peer_port,
    }


def channel_view(
    channel: OpenChannel, sampler: Sampler, window: SampleWindow | None = None
) -> dict[str, Any]:
    """A channel as an item of a list."""
    status = channel.status()
    view: dict[str, Any] = {
        "name": status.name,
        "number": status.number,
        "connection_details": connection_details(status.connection),
        "node": sampler.facade.name,
        "vhost": status.vhost,
        "user": status.user,
        "user_who_performed_action": status.user,
        "state": status.state,
        "confirm": status.is_confirming,
        "transactional": status.is_transactional,
        "consumer_count": status.consumers + status.has_reply_consumer,
        "messages_unacknowledged": status.unacked,
        "messages_unconfirmed": status.unconfirmed,
        "messages_uncommitted": status.uncommitted,
        "acks_uncommitted": status.acks_uncommitted,
        "prefetch_count": status.prefetch_count,
        "global_prefetch_count": status.global_prefetch_count,
        "pending_raft_commands": 0,
        **NO_ERLANG_PROCESS,
    }  # fmt: skip
    row = message_row(channel.counts())
    series = sampler.objects.channel(status.name, row)
    idle_since_s = sampler.idle_since_s(series, status.opened_at_s)
    if idle_since_s is not None:
        view["idle_since"] = iso_time(idle_since_s)
    if series is not None and any(row):
        view["message_stats"] = message_stats(MESSAGES, row, series, sampler.now_ms(), window)
    return view


def single_channel_view(
    channel: OpenChannel, sampler: Sampler, window: SampleWindow | None = None
) -> dict[str, Any]:
    """A channel on its own, with its consumers."""
    view = channel_view(channel, sampler, window)
    view["consumer_details"] = [
        consumer_view(one.figures, channel.vhost, one.queue, sampler) for one in channel.consumers()
    ]
    view["publishes"] = []
    view["deliveries"] = []
    return view


def consumer_view(
    consumer: ConsumerFigures, vhost: str, queue: str, sampler: Sampler
) -> dict[str, Any]:
    """A consumer of a queue."""
    connection = consumer.connection
    stalled_since_s = sampler.stalled_since_s(consumer)
    # RabbitMQ shows consumers of a stream as active only if they are of the stream protocol.
    is_shown_active = consumer.offset is None or not consumer.ack_required
    view = {
        "arguments": consumer.arguments,
        "ack_required": consumer.ack_required,
        "active": consumer.is_active and is_shown_active,
        "activity_status": consumer.activity,
        "channel_details": {
            "connection_name": connection.name,
            "name": consumer.channel_name,
            "node": sampler.facade.name,
            "number": consumer.channel_number,
            "peer_host": connection.peer_host,
            "peer_port": connection.peer_port,
            "user": consumer.user,
        },
        "consumer_tag": consumer.tag,
        "consumer_timeout": consumer.timeout_ms,
        "exclusive": consumer.is_exclusive,
        "prefetch_count": consumer.prefetch_count,
        "queue": {"name": text(queue), "vhost": text(vhost)},
        "credit": consumer.credit,
        "messages_unacknowledged": consumer.unacked,
        "stalled_since": None if stalled_since_s is None else iso_time(stalled_since_s),
        "has_channel": consumer.has_channel,
    }
    if consumer.offset is not None:
        view |= {
            "offset": consumer.offset, "offset_lag": consumer.lag,
            "offset_lag_ms": consumer.lag_ms,
        }  # fmt: skip
    return view
