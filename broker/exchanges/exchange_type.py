"""The interface of exchange types: the bindings of an exchange, matched with messages.

An exchange of the broker has a name, flags and a list of bindings. An `ExchangeType` has the same
bindings in a form for fast matching, and nothing else. The broker keeps the list, so it never adds
the same binding twice nor removes one that does not exist; bindings are the same if destination,
routing key and arguments are equal. A destination, a queue or another exchange, is opaque here and
compared by identity.

`router.py` follows bindings from exchange to exchange.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable
from typing import Any, ClassVar

from leveret.broker.amqp.content_header import ContentHeader
from leveret.broker.amqp.field_table import Table
from leveret.broker.queues.contract.queue_kind import QueueKind

Destination = Hashable
"""A queue or an exchange."""


class ExchangeType(ABC):
    """The binding table of one exchange.

    name: the type's name in `exchange.declare`.
    routes_by_key: the result depends on the routing key and the bindings only and may be cached.
    uses_every_key: a message with several routing keys (CC and BCC) is matched with each of them.
        If False, only the first key is used: the type ignores keys, or selects one destination.
    """

    name: ClassVar[str]
    routes_by_key: bool = True
    uses_every_key: bool = False

    def __init__(self, arguments: Table) -> None:  # noqa: B027  (most types take any arguments)
        """Raises 406 for arguments of `exchange.declare` that are invalid for the type."""

    def validate_binding(self, routing_key: str, arguments: Table) -> None:  # noqa: B027  (likewise)
        """Raises 406 for a binding that is invalid for the type."""

    def validate_destination(self, queue_kind: QueueKind | None) -> None:  # noqa: B027  (likewise)
        """Raises 406 for a destination that is invalid for the type.

        queue_kind: the kind of the queue that is bound; None for an exchange.
        """

    def serve(self, lives_here: Callable[[Any], bool]) -> None:  # noqa: B027  (likewise)
        """Called before the exchange routes messages. lives_here: whether a queue of its vhost
        lives on this node.
        """

    @abstractmethod
    def bind(self, destination: Destination, routing_key: str, arguments: Table) -> None:
        """Add a binding that is valid and new."""

    @abstractmethod
    def unbind(self, destination: Destination, routing_key: str, arguments: Table) -> None:
        """Remove a binding that was added."""

    @abstractmethod
    def route(self, routing_key: str, header: ContentHeader) -> Iterable[Destination | None]:
        """The destinations that a message matches; a destination may occur several times.

        None stands for a comparison without a match: a long search runs while the caller iterates
        over the result, which may take several turns of the event loop. The iteration stays valid
        when bindings change.
        """


class DestinationCounts(dict[Destination, int]):
    """Destinations with the number of bindings of each. Iterates over destinations.

    Bindings to one destination may differ in their arguments only.
    """

    __slots__ = ()

    def add(self, destination: Destination) -> None:
        """Count one more binding."""
        self[destination] = self.get(destination, 0) + 1

    def remove(self, destination: Destination) -> None:
        """Count one binding fewer; the last one removes the destination."""
        if self[destination] == 1:
            del self[destination]
        else:
            self[destination] -= 1


class ListedDestinations:
    """Destinations as a list in which each occurs as often as it is bound.

    The list is made on demand after a change, so that a change costs the same for any number of
    bindings.
    """

    __slots__ = ("_counts", "_listed")

    def __init__(self) -> None:
        self._counts = DestinationCounts()
        self._listed: list[Destination] | None = []

    def add(self, destination: Destination) -> None:
        """Count one more binding."""
        self._counts.add(destination)
        self._listed = None

    def remove(self, destination: Destination) -> None:
        """Count one binding fewer."""
        self._counts.remove(destination)
        self._listed = None

    @property
    def listed(self) -> list[Destination]:
        """The list, in the order in which destinations were bound first."""
        if self._listed is None:
            counts = self._counts.items()
            self._listed = [destination for destination, count in counts for _ in range(count)]
        return self._listed
