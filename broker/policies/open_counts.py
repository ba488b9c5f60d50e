"""The open connections and channels that limits count, over all nodes of the cluster.

This node's own are counted on demand, so they cost nothing where no limit is set. The counts of
other nodes are the last ones reported (cluster/node_status/limited_counts.py).
"""

from collections.abc import Collection, Iterable, Sized
from typing import Protocol

from leveret.broker.events.subjects import Named


class CountedConnection(Protocol):
    """A connection of a client. It has a user and a vhost once it is open."""

    @property
    def user(self) -> Named:
        """The user that has logged in."""

    @property
    def vhost(self) -> Named:
        """The vhost that was opened."""

    @property
    def is_open(self) -> bool:
        """Whether it has opened a vhost, and its end has not begun."""

    @property
    def channels(self) -> Sized:
        """The open channels."""


class OpenedElsewhere(Protocol):
    """The open connections and channels of the other nodes of the cluster."""

    def connections_of_vhost(self, vhost: str) -> int:
        """Connections to a vhost that has a limit."""

    def connections_of_user(self, user: str) -> int:
        """Connections of a user that has a limit."""

    def channels_of_user(self, user: str) -> int:
        """Channels of a user that has a limit."""


class OpenCounts:
    """The counts. connections: this node's. elsewhere: None for a node on its own."""

    def __init__(self) -> None:
        self.connections: Iterable[CountedConnection] = ()
        self.elsewhere: OpenedElsewhere | None = None

    def connections_of_vhost(self, vhost: str) -> int:
        """Connections to a vhost that has a limit."""
        others = 0 if self.elsewhere is None else self.elsewhere.connections_of_vhost(vhost)
        return sum(one.vhost.name == vhost for one in self._open()) + others

    def connections_of_user(self, user: str) -> int:
        """Connections of a user that has a limit."""
        others = 0 if self.elsewhere is None else self.elsewhere.connections_of_user(user)
        return sum(one.user.name == user for one in self._open()) + others

    def channels_of_user(self, user: str) -> int:
        """Channels of a user that has a limit."""
        others = 0 if self.elsewhere is None else self.elsewhere.channels_of_user(user)
        return sum(len(one.channels) for one in self._open() if one.user.name == user) + others

    def own_of_vhosts(self, vhosts: Collection[str]) -> dict[str, int]:
        """The node's connections to each of these vhosts, where there are any."""
        counts: dict[str, int] = {}
        for one in self._open():
            if one.vhost.name in vhosts:
                counts[one.vhost.name] = counts.get(one.vhost.name, 0) + 1
        return counts

    def own_of_users(self, users: Collection[str]) -> dict[str, tuple[int, int]]:
        """The node's connections and channels of each of these users, where there are any."""
        counts: dict[str, tuple[int, int]] = {}
        for one in self._open():
            if one.user.name in users:
                connections, channels = counts.get(one.user.name, (0, 0))
                counts[one.user.name] = connections + 1, channels + len(one.channels)
        return counts

    def _open(self) -> Iterable[CountedConnection]:
        return (one for one in self.connections if one.is_open)
