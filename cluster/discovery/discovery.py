"""The interface of a backend of peer discovery: `Discovery`, with a registration and a lock if any.

Backends list nodes, running or not. A backend that cannot be asked raises `DiscoveryError`, whose
text says what was asked, what is wrong, and what to do; it never contains a token or a password.
"""

from typing import NamedTuple, Protocol

from leveret.broker.runtime.node_address import NodeAddress


class DiscoveryError(Exception):
    """A backend could not be asked, or its answer cannot be used."""


class Discovered(NamedTuple):
    """The nodes that a backend lists, including this one, and the type of a new node."""

    nodes: tuple[NodeAddress, ...]
    node_type: str


class Registration(Protocol):
    """The entry of this node in the backend's list."""

    @property
    def renewal_interval_s(self) -> float | None:
        """The interval at which `renew` must be called; None: never."""

    async def register(self) -> None:
        """Enter this node. Raises DiscoveryError."""

    async def renew(self) -> None:
        """Report that the node is alive; enter it again if needed. Raises DiscoveryError."""

    async def unregister(self) -> None:
        """Remove the entry. Raises DiscoveryError."""


class StartupLock(Protocol):
    """A lock that one new node of the cluster holds at a time, while it forms or joins."""

    @property
    def renewal_interval_s(self) -> float:
        """The interval at which the holder must call `renew`."""

    async def acquire(self) -> None:
        """Get the lock, or wait until it is free. Raises DiscoveryError after the time limit."""

    async def renew(self) -> None:
        """Keep the lock. Raises DiscoveryError."""

    async def release(self) -> None:
        """Give the lock to the next node. Raises DiscoveryError."""


class Discovery(Protocol):
    """A backend."""

    @property
    def name(self) -> str:
        """Its name in the configuration."""

    @property
    def registration(self) -> Registration | None:
        """None if nodes do not register."""

    @property
    def lock(self) -> StartupLock | None:
        """None if it has no lock."""

    async def list_nodes(self) -> Discovered:
        """Ask for the nodes. Raises DiscoveryError."""

    async def close(self) -> None:
        """Close the connections."""
