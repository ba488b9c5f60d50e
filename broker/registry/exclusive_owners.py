"""The connections that own exclusive queues, by name: declarations name them."""

from typing import Protocol

from leveret.broker.queues.contract.queue_client import ExclusiveOwner, QueueClient


class Owner(ExclusiveOwner, Protocol):
    """A connection that may have exclusive queues. exclusive_queues: its exclusive queues."""

    exclusive_queues: dict[str, QueueClient]


class ExclusiveOwners:
    """The connections to this node that have declared an exclusive queue."""

    def __init__(self) -> None:
        self._owners: dict[str, Owner] = {}

    def add(self, owner: Owner) -> None:
        """A connection is about to declare an exclusive queue."""
        self._owners[owner.name] = owner

    def remove(self, owner: Owner) -> None:
        """A connection has ended."""
        if self._owners.get(owner.name) is owner:
            del self._owners[owner.name]

    def get(self, name: str) -> Owner | None:
        """The connection of a name; None if it has ended."""
        return self._owners.get(name)
