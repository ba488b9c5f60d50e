"""The interface of each kind of links: those of exchanges, and those of queues."""

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from leveret.broker.moving.federation.link_definition import LinkDefinition
from leveret.broker.moving.federation.status import LinkStatus


class Federated(Protocol):
    """An exchange or a queue. policy: the one in force for it, or None."""

    policy: Any


class FederationLink(Protocol):
    """A link that runs on this node, by its definition."""

    definition: LinkDefinition

    @property
    def status(self) -> LinkStatus:
        """The status for operators."""

    def start(self) -> None:
        """Begin."""

    async def stop(self, is_removed: bool) -> None:
        """End. is_removed: delete its objects upstream.

        They stay when the node stops, or when the link restarts unchanged, here or on another
        node.
        """


class LinkKind(Protocol):
    """The links of all exchanges, or of all queues. kind: `exchange` or `queue`."""

    kind: str

    def federated(self) -> Iterable[tuple[str, str]]:
        """The vhosts and names of objects that have a policy."""

    def find(self, vhost: str, name: str) -> Federated | None:
        """The object of this name; None if there is none, or if it cannot have links."""

    def is_here(self, definition: LinkDefinition, running: Sequence[str]) -> bool:
        """Whether a link runs on this node, while these nodes of the cluster run."""

    def make(self, definition: LinkDefinition) -> FederationLink:
        """A new link, which is started later."""
