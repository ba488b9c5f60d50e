"""The connected clients of a node, by virtual host and client identifier.

A client that connects with the identifier of a connected one takes its place.
"""

from typing import Protocol


class ConnectedClient(Protocol):
    """The connection of a client."""

    def taken_over(self, is_clean: bool) -> None:
        """Another client has its identifier: end. is_clean: it does not continue the session."""


class Clients:
    """The connected clients."""

    def __init__(self) -> None:
        self._connected: dict[tuple[str, str], ConnectedClient] = {}

    def take(self, vhost: str, client_id: str, client: ConnectedClient, is_clean: bool) -> None:
        """Register a client, in place of the one with its identifier, which ends."""
        key = (vhost, client_id)
        other = self._connected.get(key)
        self._connected[key] = client
        if other is not None:
            other.taken_over(is_clean)

    def remove(self, vhost: str, client_id: str, client: ConnectedClient) -> None:
        """A client has ended."""
        key = (vhost, client_id)
        if self._connected.get(key) is client:
            del self._connected[key]

    def __len__(self) -> int:
        return len(self._connected)
