"""What is told of channels and consumers, begun and ended.

Facts: RabbitMQ's `rabbit_channel` and `rabbit_amqqueue_process`. Channels have no processes here;
what stands for their ids is made of their names.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from broker.channel.channel import Channel
    from broker.channel.consumer import Consumer


def _name(channel: "Channel") -> str:
    return f"{channel.connection.name} ({channel.number})"


def channel_created(channel: "Channel") -> None:
    """A client opened a channel."""
    connection = channel.connection
    events = connection.services.events
    if not events.are_wanted:
        return
    events.tell("channel.created", {
        "pid": events.pid(_name(channel)),
        "name": _name(channel),
        "connection": events.pid(connection.name),
        "number": channel.number,
        "user": connection.user.name,
        "vhost": channel.vhost.name,
        "user_who_performed_action": connection.user.name,
    })  # fmt: skip


def channel_closed(channel: "Channel", consumer_count: int) -> None:
    """A channel ended, one way or another. consumer_count: those that ended with it."""
    events = channel.connection.services.events
    if events.are_wanted:
        events.tell("channel.closed", {
            "pid": events.pid(_name(channel)), "name": _name(channel),
            "consumer_count": consumer_count,
            "user_who_performed_action": channel.connection.user.name,
        })  # fmt: skip


def consumer_created(consumer: "Consumer") -> None:
    """A client consumes from a queue."""
    channel = consumer.channel
    events = channel.connection.services.events
    if not events.are_wanted:
        return
    events.tell("consumer.created", {
        **_consumer_facts(consumer),
        "exclusive": consumer.is_exclusive,
        "ack_required": not consumer.no_ack,
        "prefetch_count": consumer.prefetch_count,
        "arguments": consumer.arguments,
        "user_who_performed_action": channel.connection.user.name,
    })  # fmt: skip


def consumer_deleted(consumer: "Consumer") -> None:
    """A client cancelled a consumer, or its channel ended."""
    events = consumer.channel.connection.services.events
    if events.are_wanted:
        user = consumer.channel.connection.user.name
        events.tell(
            "consumer.deleted", {**_consumer_facts(consumer), "user_who_performed_action": user}
        )


def consumer_lost_its_queue(consumer: "Consumer") -> None:
    """The queue is gone; who deleted it is told with the queue."""
    events = consumer.channel.connection.services.events
    if events.are_wanted:
        events.tell("consumer.deleted", _consumer_facts(consumer))


def _consumer_facts(consumer: "Consumer") -> dict[str, Any]:
    channel = consumer.channel
    return {
        "consumer_tag": consumer.tag,
        "channel": channel.connection.services.events.pid(_name(channel)),
        "queue": consumer.queue.name,
        "vhost": channel.vhost.name,
    }
