"""The exchange of a federation link at its upstream: it matches messages new to the downstream.

A downstream declares one for each of its links, with arguments that limit the hops of messages
(`x-max-hops`), and identify it (`x-downstream-name`, its cluster, and `x-downstream-vhost`).
Messages that come over links have the header `x-received-from`, an array of the brokers they
passed. So a message goes neither too far nor round in circles. Source:
`rabbit_federation_upstream_exchange`.
"""

from collections.abc import Iterable
from typing import Any, Final

from leveret.broker.amqp.content_header import ContentHeader
from leveret.broker.amqp.errors import precondition_failed
from leveret.broker.amqp.field_table import Table
from leveret.broker.exchanges.exchange_type import Destination, DestinationCounts, ExchangeType

RECEIVED_FROM: Final = "x-received-from"
MAX_HOPS: Final = "x-max-hops"
DOWNSTREAM_NAME, DOWNSTREAM_VHOST = "x-downstream-name", "x-downstream-vhost"
CLUSTER_NAME, VHOST = "cluster-name", "vhost"

_RECEIVED_FROM_BYTES: Final = RECEIVED_FROM.encode()


def already_seen(places: Iterable[Any], cluster: str | None, vhost: str | None) -> bool:
    """Whether a vhost of a cluster is among the places, the fields of an array."""
    if cluster is None or vhost is None:
        return False
    here = ("S", cluster), ("S", vhost)
    return any(
        kind == "F" and (place.get(CLUSTER_NAME), place.get(VHOST)) == here
        for kind, place in places
    )


def should_forward(headers: Table, max_hops: int, cluster: str | None, vhost: str | None) -> bool:
    """Whether a message with these headers goes on to a vhost of a cluster."""
    kind, places = headers.get(RECEIVED_FROM, ("", ()))
    if kind != "A":
        return True
    return len(places) < max_hops and not already_seen(places, cluster, vhost)


class FederationUpstream(ExchangeType):
    """Matches every destination, for the messages that should go on to the downstream."""

    name = "x-federation-upstream"
    routes_by_key = False

    def __init__(self, arguments: Table) -> None:
        super().__init__(arguments)
        kind, max_hops = arguments.get(MAX_HOPS, ("", 0))
        if not kind:
            raise precondition_failed(f"Argument {MAX_HOPS} missing")
        if kind != "l":
            raise precondition_failed(f"Argument {MAX_HOPS} must be of type long")
        self._max_hops = int(max_hops)
        self._cluster = _text(arguments, DOWNSTREAM_NAME)
        self._vhost = _text(arguments, DOWNSTREAM_VHOST)
        self._destinations = DestinationCounts()

    def bind(self, destination: Destination, routing_key: str, arguments: Table) -> None:
        self._destinations.add(destination)

    def unbind(self, destination: Destination, routing_key: str, arguments: Table) -> None:
        self._destinations.remove(destination)

    def route(self, routing_key: str, header: ContentHeader) -> Iterable[Destination]:
        if _RECEIVED_FROM_BYTES in header.raw:
            headers = header.properties.get("headers") or {}
            if not should_forward(headers, self._max_hops, self._cluster, self._vhost):
                return ()
        return tuple(self._destinations)


def _text(arguments: Table, name: str) -> str | None:
    kind, value = arguments.get(name, ("", None))
    return str(value) if kind == "S" else None
