"""Limits on the numbers of connections and channels: per node, per vhost, per user.

The texts are RabbitMQ's (`rabbit_reader`). Connections are counted only if a limit is set.
"""

from collections.abc import Iterable, Sized
from typing import Protocol

from leveret.broker.amqp.errors import not_allowed
from leveret.broker.auth.identity import Identity
from leveret.broker.services.services import Services


class Counted(Protocol):
    """A connection that counts against limits."""

    @property
    def is_open(self) -> bool:
        """Whether it has opened a vhost, and its end has not begun."""

    @property
    def channels(self) -> Sized:
        """The open channels."""


def check_connections(services: Services, user: Identity, vhost: str) -> None:
    """Raise 530 if the connection limit of the vhost or of the user is reached."""
    limits, opened = services.limits, services.open_counts
    limits.check_vhost_connections(vhost, user.name, opened)
    limits.check_user_connections(user.name, opened)


def check_node(services: Services, registry: Iterable[Counted]) -> None:
    """Raise 530 if the node's connection limit is reached."""
    limit = services.config.connection_max
    if limit is not None and sum(one.is_open for one in registry) >= limit:
        raise not_allowed(f"connection refused: node connection limit ({limit}) is reached")


def check_channels(services: Services, user: Identity, registry: Iterable[Counted]) -> None:
    """Raise 530 if the channel limit of the user or of the node is reached."""
    services.limits.check_user_channels(user.name, services.open_counts)
    limit = services.config.channel_max_per_node
    if limit is not None and sum(len(one.channels) for one in registry) >= limit:
        raise not_allowed(
            f"number of channels opened on node '{services.config.node_name}' has reached the "
            f"maximum allowed limit of ({limit})"
        )
