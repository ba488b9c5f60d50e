"""Lookup of the queues and exchanges that methods name, and checks of the user's permissions."""

from leveret.broker.amqp.errors import (
    access_refused,
    not_found,
    precondition_failed,
    resource_locked,
)
from leveret.broker.auth.access_control import Decision
from leveret.broker.erlang.terms import format_term
from leveret.broker.queues.contract.queue_client import QueueClient
from leveret.broker.runtime.names import EXCHANGE, QUEUE, RESERVED_PREFIX, resource
from leveret.broker.sessions.session import Session
from leveret.broker.vhost.binding import Exchange
from leveret.broker.vhost.sharding import least_consumed, sharding_of


async def check(
    session: Session, kind: str, name: str, permission: str, asked: Decision | None = None
) -> None:
    """Raise 403 unless the user has this permission. permission: configure, write or read.

    asked: the decision, if the backend was asked already.
    """
    connection = session.connection
    access = session.services.access
    await access.check(connection.user, session.vhost.name, kind, name, permission, asked)


async def check_topic(
    session: Session,
    exchange: str,
    routing_key: str,
    permission: str,
    asked: Decision | None = None,
) -> None:
    """Raise 403 if the user's topic permissions do not allow the routing key.

    asked: the decision, if the backend was asked already.
    """
    connection = session.connection
    await session.services.access.check_topic(
        connection.user, session.vhost.name, exchange, routing_key, permission, asked
    )


def find_exchange(session: Session, name: str) -> Exchange:
    """Return the exchange. Raises 404."""
    exchange = session.vhost.exchanges.get(name)
    if exchange is None:
        raise not_found(f"no {resource(EXCHANGE, name, session.vhost.name)}")
    return exchange


def find_queue(session: Session, name: str) -> QueueClient:
    """Return the queue. Raises 404, or 405 if it is exclusive to another connection."""
    queue = session.vhost.queues.get(name)
    if queue is None:
        raise not_found(f"no {resource(QUEUE, name, session.vhost.name)}")
    check_exclusive_access(session, queue)
    return queue


def check_exclusive_access(session: Session, queue: QueueClient) -> None:
    """Raise 405 if the queue is exclusive to another connection."""
    owner = queue.owner_connection
    if owner is not None and owner is not session.connection:
        raise locked(session, queue)


def locked(session: Session, queue: QueueClient) -> Exception:
    """The 405 with RabbitMQ's text."""
    what = resource(QUEUE, queue.name, session.vhost.name)
    return resource_locked(
        f"cannot obtain exclusive access to locked {what}. "
        "It could be originally declared on another connection or the exclusive property value "
        "does not match that of the original declaration."
    )


def expand_queue_name(session: Session, name: str) -> str:
    """Replace an empty name by that of the session's last declared queue. Raises 404."""
    if name:
        return name
    if not session.last_queue:
        raise not_found("no previously declared queue")
    return session.last_queue


def is_sharded(session: Session, name: str) -> bool:
    """Whether a queue's name is that of a sharded exchange, and so stands for its shards."""
    if session.vhost.name not in session.services.policies.sharded_vhosts:
        return False
    return sharding_of(session.vhost.exchanges.get(name)) is not None


def check_not_sharded(session: Session, name: str, act: str) -> None:
    """Raise 406 for the name of a sharded exchange. act: the operation, such as `purge`."""
    if is_sharded(session, name):
        raise precondition_failed(f"Can't {act} sharded queue: {format_term(name)}")


def expand_sharded_name(session: Session, name: str) -> str:
    """Replace the name of a sharded exchange by that of a shard on this node. Raises 406.

    It is the shard with the fewest consumers; of several, the first by name.
    """
    if not is_sharded(session, name):
        return name
    shard = least_consumed(session.vhost, name, session.services.config.node_name)
    if shard is None:
        raise precondition_failed(f"Error finding sharded queue for: {format_term(name)}")
    return shard


def check_not_default_exchange(name: str) -> None:
    """Raise 403 for the default exchange, which allows publishing only."""
    if not name:
        raise access_refused("operation not permitted on the default exchange")


def check_not_reserved(kind: str, name: str) -> None:
    """Raise 403 for a new name with a prefix reserved for the broker."""
    if name.startswith(RESERVED_PREFIX):
        raise access_refused(f"{kind} name '{name}' contains reserved prefix 'amq.*'")
