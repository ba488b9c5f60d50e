"""The status of connections and channels as plain data, possibly from another process or node.

As in queues/status.py these are msgspec structs of plain values with valid Unicode, which
`msgspec.msgpack` encodes and decodes directly. They are made from the live objects on request.
"""

from itertools import islice
from typing import Any

import msgspec
from msgspec.structs import replace

from leveret.broker.amqp.json_form import text
from leveret.broker.queues.contract.queue_client import Consumer, QueueClient
from leveret.broker.queues.contract.status import UP, ConnectionFigures, ConsumerFigures
from leveret.broker.sessions.session import Session
from leveret.broker.sessions.unacked_record import Unacked

FLOW, RUNNING = "flow", "running"


class ConnectionStatus(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """An open connection. Limits of AMQP 0-9-1 are 0 in other protocols.

    protocol: RabbitMQ's name. state: `running`, `flow` or `blocked`. connected_at_s: wall-clock
    time. client_properties: as JSON (amqp/json_form.py). tls: RabbitMQ's fields of the TLS
    session; empty if there is none. kind: RabbitMQ's, which is `direct` for some protocols.
    variables: what only this protocol has, as JSON, by RabbitMQ's names. container_id: the client's
    name in AMQP 1.0.
    """

    name: str
    protocol: str
    state: str
    user: str
    vhost: str
    mechanism: str
    client_properties: dict[str, Any]
    connected_at_s: float
    channels: int
    channel_max: int
    frame_bytes_max: int
    heartbeat_s: int
    host: str
    port: int
    peer_host: str
    peer_port: int
    reads: int
    writes: int
    bytes_in: int
    bytes_out: int
    tls: dict[str, Any]
    kind: str = "network"
    variables: dict[str, Any] = {}
    container_id: str | None = None


class ChannelStatus(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """An open channel, without its message counts.

    state: `running` or `flow`. has_reply_consumer: it consumes from amq.rabbitmq.reply-to, which
    `consumers` does not count. unconfirmed: messages that wait for a confirm. uncommitted,
    acks_uncommitted: publishes and acks of the open transaction. opened_at_s: wall-clock time.
    """

    name: str
    number: int
    connection: ConnectionFigures
    vhost: str
    user: str
    state: str
    is_confirming: bool
    is_transactional: bool
    consumers: int
    has_reply_consumer: bool
    unacked: int
    unconfirmed: int
    uncommitted: int
    acks_uncommitted: int
    prefetch_count: int
    global_prefetch_count: int
    opened_at_s: float


def channel_status(channel: Session, publishing_state: str) -> ChannelStatus:
    """The status of a channel of this process. publishing_state: its connection's."""
    connection = channel.connection
    confirms, transaction = channel.confirms, channel.transaction
    return ChannelStatus(
        name=channel.name,
        number=channel.number,
        connection=ConnectionFigures(connection.name, connection.peer_host, connection.peer_port),
        vhost=text(channel.vhost.name),
        user=text(connection.user.name),
        state=FLOW if publishing_state == FLOW else RUNNING,
        is_confirming=confirms is not None,
        is_transactional=transaction is not None,
        consumers=len(channel.consumers),
        has_reply_consumer=bool(channel.reply_consumer_tag),
        unacked=len(channel.unacked),
        unconfirmed=confirms.unconfirmed_count if confirms is not None else 0,
        uncommitted=transaction.publish_count if transaction is not None else 0,
        acks_uncommitted=transaction.settled_count if transaction is not None else 0,
        prefetch_count=channel.prefetch_count,
        global_prefetch_count=channel.global_prefetch_count,
        opened_at_s=channel.opened_at_s,
    )


def unsettled_deliveries(channel: Session, count_max: int) -> list[Unacked]:
    """The oldest unsettled deliveries, at most `count_max`."""
    return list(islice(channel.unacked.records.values(), count_max))


def consumers_of(channel: Session) -> list[tuple[QueueClient, ConsumerFigures]]:
    """The consumers of a channel, each with its queue.

    The queue knows whether it is active, and in a log, where it is.
    """
    queues = dict.fromkeys(consumer.queue for consumer in channel.consumers.values())
    known = {
        figures.tag: figures
        for queue in queues
        for figures in queue.figures.consumers()
        if figures.channel_name == channel.name
    }
    return [
        (consumer.queue, _figures(consumer, known.get(text(tag))))
        for tag, consumer in channel.consumers.items()
    ]


def _figures(consumer: Consumer, known: ConsumerFigures | None) -> ConsumerFigures:
    """The figures of a consumer. known: by its queue."""
    if known is None:
        return consumer.figures(UP)
    figures = consumer.figures(known.activity)
    return replace(figures, offset=known.offset, lag=known.lag, lag_ms=known.lag_ms)
