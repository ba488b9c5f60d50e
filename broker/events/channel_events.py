"""The events of channels and consumers: created, closed, deleted.

Fields are those of RabbitMQ's `rabbit_channel` and `rabbit_amqqueue_process`. Channels have no
Erlang processes here; ids made of their names stand for those. This module sees channels and
consumers through protocols, so that it can be below both of them.
"""

from typing import Any, Protocol

from leveret.broker.amqp.field_table import Table
from leveret.broker.events.subjects import EventConnection, Named


class EventSession(Protocol):
    """A channel, or a session of another protocol. number: given by the client."""

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
    def session(self) -> EventSession:
        """The session that it belongs to."""

    @property
    def queue(self) -> Named:
        """The queue that it consumes from."""


def _name(session: EventSession) -> str:
    return f"{session.connection.name} ({session.number})"


def channel_created(session: EventSession) -> None:
    """A client opened a channel."""
    connection = session.connection
    events = connection.services.events
    if not events.are_wanted:
        return
    events.notify("channel.created", {
        "pid": events.pid(_name(session)),
        "name": _name(session),
        "connection": events.pid(connection.name),
        "number": session.number,
        "user": connection.user.name,
        "vhost": session.vhost.name,
        "user_who_performed_action": connection.user.name,
    })  # fmt: skip


def channel_closed(session: EventSession, consumer_count: int) -> None:
    """A channel ended. consumer_count: the consumers that ended with it."""
    events = session.connection.services.events
    if events.are_wanted:
        events.notify("channel.closed", {
            "pid": events.pid(_name(session)), "name": _name(session),
            "consumer_count": consumer_count,
            "user_who_performed_action": session.connection.user.name,
        })  # fmt: skip


def consumer_created(consumer: EventConsumer) -> None:
    """A client consumes from a queue."""
    session = consumer.session
    events = session.connection.services.events
    if not events.are_wanted:
        return
    events.notify("consumer.created", {
        **_consumer_facts(consumer),
        "exclusive": consumer.is_exclusive,
        "ack_required": not consumer.no_ack,
        "prefetch_count": consumer.prefetch_count,
        "arguments": consumer.arguments,
        "user_who_performed_action": session.connection.user.name,
    })  # fmt: skip


def consumer_deleted(consumer: EventConsumer) -> None:
    """A client cancelled a consumer, or its channel ended."""
    events = consumer.session.connection.services.events
    if events.are_wanted:
        user = consumer.session.connection.user.name
        events.notify(
            "consumer.deleted", {**_consumer_facts(consumer), "user_who_performed_action": user}
        )


def consumer_near_timeout(consumer: EventConsumer, held_ms: int, timeout_ms: int) -> None:
    """A consumer has held a delivery for most of the time that it may hold one. RabbitMQ has no
    such event.
    """
    session = consumer.session
    events = session.connection.services.events
    if events.are_wanted:
        events.notify("consumer.near_timeout", {
            **_consumer_facts(consumer), "held_ms": held_ms, "timeout_ms": timeout_ms,
            "user_who_performed_action": session.connection.user.name,
        })  # fmt: skip


def consumer_lost_its_queue(consumer: EventConsumer) -> None:
    """A consumer ended with its queue; the queue's event names the user that deleted it."""
    events = consumer.session.connection.services.events
    if events.are_wanted:
        events.notify("consumer.deleted", _consumer_facts(consumer))


def _consumer_facts(consumer: EventConsumer) -> dict[str, Any]:
    session = consumer.session
    return {
        "consumer_tag": consumer.tag,
        "channel": session.connection.services.events.pid(_name(session)),
        "queue": consumer.queue.name,
        "vhost": session.vhost.name,
    }
