"""Limits on the numbers of connections and channels: per node, per vhost, per user.

The texts are RabbitMQ's (`rabbit_reader`). Connections are counted only if a limit is set.
"""

from collections.abc import Iterable, Sized
from typing import Protocol

from leveret.broker.amqp.errors import not_allowed
from leveret.broker.auth.identity import Identity
from leveret.broker.net.closing import RUNNING
from leveret.broker.policies.limits import MAX_CHANNELS
from leveret.broker.services import Services
from leveret.broker.vhost import VirtualHost


class Counted(Protocol):
    """A connection that counts against limits. user, vhost: set once it is running."""

    services: Services
    user: Identity
    vhost: VirtualHost

    @property
    def state(self) -> str:
        """See net/closing.py."""

    @property
    def channels(self) -> Sized:
        """The open channels."""


def check_connections(
    services: Services, registry: Iterable[Counted], user: Identity, vhost: str
) -> None:
    """Raise 530 if the connection limit of the vhost or of the user is reached."""
    running = [one for one in registry if one.state is RUNNING]
    limits = services.limits
    limits.check_vhost_connections(vhost, user.name, (one.vhost.name for one in running))
    limits.check_user_connections(user.name, (one.user.name for one in running))


def check_node(services: Services, registry: Iterable[Counted]) -> None:
    """Raise 530 if the node's connection limit is reached."""
    limit = services.config.connection_max
    if limit is not None and sum(one.state is RUNNING for one in registry) >= limit:
        raise not_allowed(f"connection refused: node connection limit ({limit}) is reached")


def check_channels(connection: Counted, registry: Iterable[Counted]) -> None:
    """Raise 530 if the channel limit of the user or of the node is reached."""
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
