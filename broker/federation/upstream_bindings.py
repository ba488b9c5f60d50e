"""Which bindings a link has at its upstream: those of the federated exchange, each once.

A binding here with a key and arguments becomes one there, from the exchange to the link's internal
exchange, however many queues have it here. Its argument `x-bound-from` says at which brokers it
was, the newest first, and how many `hops` it may go on: a binding has to go as far as the messages
that it asks for come, and no farther. So it goes the way of the messages backwards, and at each
link it has one hop less, or the hops of the link if these are fewer. It does not go to a broker
where it was.

Invariant: what the upstream has is what was told to be bound and not to be unbound since.

Source: `rabbit_federation_exchange_link` (`add_binding`, `update_binding`). Pure.
"""

from typing import Any, Final, NamedTuple

from leveret.broker.amqp.field_table import Table, encode_table
from leveret.broker.exchanges.federation_upstream import CLUSTER_NAME, VHOST, already_seen

BOUND_FROM: Final = "x-bound-from"
HOPS: Final = "hops"
HOPS_MAX: Final = 2**15 - 1
"""What the field of RabbitMQ holds."""


class Binding(NamedTuple):
    """A binding of the federated exchange. destination: its kind and name."""

    destination: tuple[str, str]
    routing_key: str
    arguments: Table


class Bound(NamedTuple):
    """A binding that the upstream is to have, or not to have any more."""

    routing_key: str
    arguments: Table


class UpstreamBindings:
    """Those of one link.

    max_hops: of the link. cluster, vhost: of this node. exchange: what the argument says of the
    exchange here. upstream_cluster, upstream_vhost: of the upstream; the cluster may be unknown.
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
        # The destinations that have a binding of a key and arguments.
        self._destinations: dict[tuple[str, bytes], set[tuple[str, str]]] = {}

    def added(self, binding: Binding) -> Bound | None:
        """What is to be bound because of a new binding; None for nothing."""
        key = binding.routing_key, encode_table(binding.arguments)
        destinations = self._destinations.setdefault(key, set())
        is_first = not destinations
        destinations.add(binding.destination)
        return self._bound(binding) if is_first else None

    def removed(self, binding: Binding) -> Bound | None:
        """What is to be unbound because a binding is gone; None for nothing."""
        key = binding.routing_key, encode_table(binding.arguments)
        destinations = self._destinations.get(key, set())
        if binding.destination not in destinations:
            return None
        destinations.remove(binding.destination)
        if destinations:
            return None
        del self._destinations[key]
        return self._bound(binding)

    def _bound(self, binding: Binding) -> Bound | None:
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
        """How many hops a binding may go on that was at these places."""
        if not places:
            return self._max_hops
        if already_seen(places, *self._upstream):
            return 0
        kind, newest = places[0]
        _, before = newest.get(HOPS, ("", 0)) if kind == "F" else ("", 0)
        return min(before - 1, self._max_hops) if isinstance(before, int) else 0
