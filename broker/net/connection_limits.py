"""How many connections and channels there may be: on the node, in a vhost, of a user.

The texts are RabbitMQ's (`rabbit_reader`). What is counted is looked at only if there is a limit.
"""

from collections.abc import Iterable, Sized
from typing import Protocol

from broker.amqp.errors import not_allowed
from broker.auth.identity import Identity
from broker.limits import MAX_CHANNELS
from broker.net.closing import RUNNING
from broker.services import Services
from broker.vhost import VirtualHost


class Counted(Protocol):
    """What is looked at of each connection. user and vhost: once it is running."""

    services: Services
    state: str
    user: Identity
    vhost: VirtualHost

    @property
    def channels(self) -> Sized:
        """Those that are open."""


def check_connections(
    services: Services, registry: Iterable[Counted], user: Identity, vhost: str
) -> None:
    """Raise 530 if the vhost, or the user, has as many connections as it may."""
    running = [one for one in registry if one.state is RUNNING]
    limits = services.limits
    limits.check_vhost_connections(vhost, user.name, (one.vhost.name for one in running))
    limits.check_user_connections(user.name, (one.user.name for one in running))


def check_node(services: Services, registry: Iterable[Counted]) -> None:
    """Raise 530 if the node has as many connections as it may."""
    limit = services.config.connection_max
    if limit is not None and sum(one.state is RUNNING for one in registry) >= limit:
        raise not_allowed(f"connection refused: node connection limit ({limit}) is reached")


def check_channels(connection: Counted, registry: Iterable[Counted]) -> None:
    """Raise 530 if the user, or the node, has as many channels as it may."""
    user, config = connection.user.name, connection.services.config
    limit = connection.services.limits.user_limit(user, MAX_CHANNELS)
    if limit is not None:
        mine = (one for one in registry if one.state is RUNNING and one.user.name == user)
        if sum(len(one.channels) for one in mine) >= limit:
            raise not_allowed(
                f"number of channels opened for user '{user}' has reached the maximum allowed "
                f"user limit of ({limit})"
            )
    limit = config.channel_max_per_node
    if limit is not None and sum(len(one.channels) for one in registry) >= limit:
        raise not_allowed(
            f"number of channels opened on node '{config.node_name}' has reached the maximum "
            f"allowed limit of ({limit})"
        )
