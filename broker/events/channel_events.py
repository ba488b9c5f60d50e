"""The events of channels and consumers: created, closed, deleted.

Fields are those of RabbitMQ's `rabbit_channel` and `rabbit_amqqueue_process`. Channels have no
Erlang processes here; ids made of their names stand for those. This module sees channels and
consumers through protocols, so that it can be below both of them.
"""

from typing import Any, Protocol

from leveret.broker.amqp.field_table import Table
from leveret.broker.events.subjects import EventConnection, Named


class EventChannel(Protocol):
    """A channel. number: given by the client."""

    number: int

    @property
    def connection(self) -> EventConnection:
        """The connection that it belongs to."""

    @property
    def vhost(self) -> Named:
        """The virtual host that it works in."""


class EventConsumer(Protocol):
    """A consumer."""

    tag: str
    no_ack: bool
    is_exclusive: bool
    prefetch_count: int
    arguments: Table

    @property
    def channel(self) -> EventChannel:
        """The channel that it belongs to."""

    @property
    def queue(self) -> Named:
        """The queue that it consumes from."""


def _name(channel: EventChannel) -> str:
    return f"{channel.connection.name} ({channel.number})"


def channel_created(channel: EventChannel) -> None:
    """A client opened a channel."""
    connection = channel.connection
    events = connection.services.events
    if not events.are_wanted:
        return
    events.notify("channel.created", {
        "pid": events.pid(_name(channel)),
        "name": _name(channel),
        "connection": events.pid(connection.name),
        "number": channel.number,
        "user": connection.user.name,
        "vhost": channel.vhost.name,
        "user_who_performed_action": connection.user.name,
    })  # fmt: skip


def channel_closed(channel: EventChannel, consumer_count: int) -> None:
    """A channel ended. consumer_count: the consumers that ended with it."""
    events = channel.connection.services.events
    if events.are_wanted:
        events.notify("channel.closed", {
            "pid": events.pid(_name(channel)), "name": _name(channel),
            "consumer_count": consumer_count,
            "user_who_performed_action": channel.connection.user.name,
        })  # fmt: skip


def consumer_created(consumer: EventConsumer) -> None:
    """A client consumes from a queue."""
    channel = consumer.channel
    events = channel.connection.services.events
    if not events.are_wanted:
        return
    events.notify("consumer.created", {
        **_consumer_facts(consumer),
        "exclusive": consumer.is_exclusive,
        "ack_required": not consumer.no_ack,
        "prefetch_count": consumer.prefetch_count,
        "arguments": consumer.arguments,
        "user_who_performed_action": channel.connection.user.name,
    })  # fmt: skip


def consumer_deleted(consumer: EventConsumer) -> None:
    """A client cancelled a consumer, or its channel ended."""
    events = consumer.channel.connection.services.events
    if events.are_wanted:
        user = consumer.channel.connection.user.name
        events.notify(
            "consumer.deleted", {**_consumer_facts(consumer), "user_who_performed_action": user}
        )


def consumer_lost_its_queue(consumer: EventConsumer) -> None:
    """A consumer ended with its queue; the queue's event names the user that deleted it."""
    events = consumer.channel.connection.services.events
    if events.are_wanted:
        events.notify("consumer.deleted", _consumer_facts(consumer))


def _consumer_facts(consumer: EventConsumer) -> dict[str, Any]:
    channel = consumer.channel
    return {
        "consumer_tag": consumer.tag,
        "channel": channel.connection.services.events.pid(_name(channel)),
        "queue": consumer.queue.name,
        "vhost": channel.vhost.name,
    }
