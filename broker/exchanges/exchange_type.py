"""What every type of exchange can do: hold an exchange's bindings, and say whom a message reaches.

An exchange of the broker has a name, flags and a list of its bindings; the object here has the
same bindings in the form in which they are matched fastest, and nothing else. The broker keeps the
list, so it never binds the same thing twice nor unbinds what is not bound; "the same" means the
same destination, routing key and arguments. A destination, a queue or another exchange, is opaque
here and compared by identity.

How a message travels on from exchange to exchange is the business of `router.py`.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection, Hashable
from typing import ClassVar

from broker.amqp.field_table import Table
from broker.amqp.properties import ContentHeader

Destination = Hashable
"""A queue or an exchange."""


class ExchangeType(ABC):
    """One exchange's binding table and its way of matching.

    name: the type's name in `exchange.declare`.
    routes_by_key: the routing key and the bindings alone decide, so that a result may be cached.
    uses_every_key: a message with several routing keys (CC and BCC) is matched with each of them;
        where it is False, as where the key plays no part or only one destination is wanted, the
        first key stands for all.
    """

    name: ClassVar[str]
    routes_by_key: bool = True
    uses_every_key: bool = False

    def __init__(self, arguments: Table) -> None:  # noqa: B027  (most types take any arguments)
        """Raises 406 for arguments of `exchange.declare` that the type cannot work with."""

    def validate_binding(self, routing_key: str, arguments: Table) -> None:  # noqa: B027  (likewise)
        """Raises 406 for a binding that this type has no meaning for."""

    @abstractmethod
    def bind(self, destination: Destination, routing_key: str, arguments: Table) -> None:
        """Enter a binding that is valid and new."""

    @abstractmethod
    def unbind(self, destination: Destination, routing_key: str, arguments: Table) -> None:
        """Take out a binding that was entered."""

    @abstractmethod
    def route(self, routing_key: str, header: ContentHeader) -> Collection[Destination]:
        """The destinations a message matches; one may come up several times.

        What is returned may be part of the table: read it before the next bind or unbind.
        """


class DestinationCounts(dict[Destination, int]):
    """Destinations, each with the number of bindings that lead to it. Iterates over destinations.

    Counts are needed since bindings may differ in nothing but their arguments.
    """

    __slots__ = ()

    def add(self, destination: Destination) -> None:
        """One binding more."""
        self[destination] = self.get(destination, 0) + 1

    def remove(self, destination: Destination) -> None:
        """One binding less; the destination goes with its last one."""
        if self[destination] == 1:
            del self[destination]
        else:
            self[destination] -= 1
