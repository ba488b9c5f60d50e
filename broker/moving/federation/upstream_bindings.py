"""The bindings of a link at its upstream: those of the federated exchange, each once.

A binding here with a key and arguments becomes one there, from the exchange to the link's internal
exchange, however many queues have it here. Its argument `x-bound-from` lists the brokers that it
has passed, the newest first, and how many more `hops` it may make: a binding travels the route of
its messages backwards, over all of their links. At each link it has one hop less, or the hops
of the link if these are fewer. It does not go to a broker that it has passed.

Invariant: the upstream has the bindings that were returned to be bound and not since to be unbound.

Source: `rabbit_federation_exchange_link` (`add_binding`, `update_binding`). Pure.
"""

from typing import Any, Final, NamedTuple

from leveret.broker.amqp.field_table import Table, encode_table
from leveret.broker.exchanges.federation_upstream import CLUSTER_NAME, VHOST, already_seen

BOUND_FROM: Final = "x-bound-from"
HOPS: Final = "hops"
HOPS_MAX: Final = 2**15 - 1
"""The value of RabbitMQ's field."""


class FederatedBinding(NamedTuple):
    """A binding of the federated exchange. destination: its kind and name."""

    destination: tuple[str, str]
    routing_key: str
    arguments: Table


class Bound(NamedTuple):
    """A binding to make or to remove at the upstream."""

    routing_key: str
    arguments: Table


class UpstreamBindings:
    """The bindings of one link.

    max_hops: the link's. cluster, vhost: this node's. exchange: the name of the exchange here for
    the argument. upstream_cluster, upstream_vhost: the upstream's; the cluster may be unknown.
    """

    def __init__(
        self,
        max_hops: int,
        cluster: str,
        vhost: str,
        exchange: str,
        upstream_cluster: str | None,
        upstream_vhost: str,
    ) -> None:
        self._max_hops = min(max_hops, HOPS_MAX)
        self._here: Table = {
            CLUSTER_NAME: ("S", cluster),
            VHOST: ("S", vhost),
            "exchange": ("S", exchange),
        }
        self._upstream = upstream_cluster, upstream_vhost
        # The destinations that have a binding with a key and arguments.
        self._destinations: dict[tuple[str, bytes], set[tuple[str, str]]] = {}

    def added(self, binding: FederatedBinding) -> Bound | None:
        """The binding to make because of a new one; None for nothing."""
        key = binding.routing_key, encode_table(binding.arguments)
        destinations = self._destinations.setdefault(key, set())
        is_first = not destinations
        destinations.add(binding.destination)
        return self._bound(binding) if is_first else None

    def removed(self, binding: FederatedBinding) -> Bound | None:
        """The binding to remove because one is gone; None for nothing."""
        key = binding.routing_key, encode_table(binding.arguments)
        destinations = self._destinations.get(key, set())
        if binding.destination not in destinations:
            return None
        destinations.remove(binding.destination)
        if destinations:
            return None
        del self._destinations[key]
        return self._bound(binding)

    def _bound(self, binding: FederatedBinding) -> Bound | None:
        kind, places = binding.arguments.get(BOUND_FROM, ("", ()))
        places = places if kind == "A" else ()
        hops = self._hops(places)
        if hops < 1:
            return None
        here: Table = {**self._here, HOPS: ("s", hops)}
        # In front, as RabbitMQ has it.
        arguments: Table = {BOUND_FROM: ("A", [("F", here), *places])}
        arguments.update(
            (name, one) for name, one in binding.arguments.items() if name != BOUND_FROM
        )
        return Bound(binding.routing_key, arguments)

    def _hops(self, places: Any) -> int:
        """How many more hops a binding may make that has passed these places."""
        if not places:
            return self._max_hops
        if already_seen(places, *self._upstream):
            return 0
        kind, newest = places[0]
        _, before = newest.get(HOPS, ("", 0)) if kind == "F" else ("", 0)
        return min(before - 1, self._max_hops) if isinstance(before, int) else 0
