"""Finding what a method names, as the user of the channel may."""

from broker.amqp.errors import access_refused, not_found, resource_locked
from broker.binding import Exchange
from broker.channel.channel import Channel
from broker.names import EXCHANGE, QUEUE, RESERVED_PREFIX, resource
from broker.queues.actor import Queue


def check(channel: Channel, kind: str, name: str, permission: str) -> None:
    """Raise 403 unless the user has this permission. permission: configure, write or read."""
    connection = channel.connection
    connection.services.access.check(connection.user, channel.vhost.name, kind, name, permission)


def check_topic(channel: Channel, exchange: str, routing_key: str, permission: str) -> None:
    """Raise 403 if the user's routing keys on a topic exchange are limited to others."""
    connection = channel.connection
    connection.services.access.check_topic(
        connection.user, channel.vhost.name, exchange, routing_key, permission
    )


def find_exchange(channel: Channel, name: str) -> Exchange:
    """Raises 404."""
    exchange = channel.vhost.exchanges.get(name)
    if exchange is None:
        raise not_found(f"no {resource(EXCHANGE, name, channel.vhost.name)}")
    return exchange


def find_queue(channel: Channel, name: str) -> Queue:
    """Raises 404, or 405 if the queue is another connection's alone."""
    queue = channel.vhost.queues.get(name)
    if queue is None:
        raise not_found(f"no {resource(QUEUE, name, channel.vhost.name)}")
    check_exclusive_access(channel, queue)
    return queue


def check_exclusive_access(channel: Channel, queue: Queue) -> None:
    """Raise 405 if the queue is another connection's alone."""
    owner = queue.owner_connection
    if owner is not None and owner is not channel.connection:
        raise locked(channel, queue)


def locked(channel: Channel, queue: Queue) -> Exception:
    """405 with RabbitMQ's long text."""
    what = resource(QUEUE, queue.name, channel.vhost.name)
    return resource_locked(
        f"cannot obtain exclusive access to locked {what}. "
        "It could be originally declared on another connection or the exclusive property value "
        "does not match that of the original declaration."
    )


def expand_queue_name(channel: Channel, name: str) -> str:
    """The empty name stands for the queue declared last on the channel. Raises 404."""
    if name:
        return name
    if not channel.last_queue:
        raise not_found("no previously declared queue")
    return channel.last_queue


def check_not_default_exchange(name: str) -> None:
    """Raise 403: the default exchange can be published to, and nothing else."""
    if not name:
        raise access_refused("operation not permitted on the default exchange")


def check_not_reserved(kind: str, name: str) -> None:
    """Raise 403 for a new name that only the broker may give."""
    if name.startswith(RESERVED_PREFIX):
        raise access_refused(f"{kind} name '{name}' contains reserved prefix 'amq.*'")
