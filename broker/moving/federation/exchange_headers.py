"""The properties of a message that a federated exchange gets from its upstream.

The header `x-received-from` lists the places that a message came from, the newest first. A message
that has made its maximum of hops, or that was in this vhost before, is dropped; an upstream with
federation's exchange type does not send such messages. The user id is left out unless the upstream
is trusted to have checked it.

Source: RabbitMQ's `rabbit_federation_exchange_link` (`update_routing_headers`). Pure.
"""

from typing import Final

from leveret.broker.amqp.field_table import Table, encode_table
from leveret.broker.amqp.header_bytes import NewFields
from leveret.broker.amqp.properties import USER_ID, decode_properties, encode_properties, scan
from leveret.broker.exchanges.federation_upstream import (
    CLUSTER_NAME,
    RECEIVED_FROM,
    VHOST,
    should_forward,
)
from leveret.broker.moving.federation.invalid_headers import add_invalid
from leveret.broker.moving.transfers.transfer import TransferDelivery

_NEW: Final = NewFields((RECEIVED_FROM,))
_LENGTH_BYTES: Final = 4


class ExchangeHeaders:
    """Makes the properties of messages that come over one link.

    uri: the upstream's, without user and password. exchange: the name of the federated exchange.
    upstream_cluster, upstream_vhost: the upstream's; the cluster may be unknown. cluster, vhost:
    this node's.
    """

    __slots__ = ("_first", "_here", "_max_hops", "_place", "_places_after", "_trusts_user_id")

    def __init__(
        self,
        uri: str,
        exchange: str,
        upstream_cluster: str | None,
        upstream_vhost: str,
        cluster: str,
        vhost: str,
        max_hops: int,
        trusts_user_id: bool,
    ) -> None:
        self._place: Table = {"uri": ("S", uri), "exchange": ("S", exchange)}
        self._places_after: Table = {VHOST: ("S", upstream_vhost)}
        if upstream_cluster is not None:
            self._places_after = {CLUSTER_NAME: ("S", upstream_cluster), **self._places_after}
        self._here = cluster, vhost
        self._max_hops = max_hops
        self._trusts_user_id = trusts_user_id
        # The new header of messages that came over no link before, encoded; by `redelivered`.
        self._first = {
            redelivered: encode_table(self._headers({}, redelivered))[_LENGTH_BYTES:]
            for redelivered in (False, True)
        }

    def __call__(self, delivery: TransferDelivery) -> bytes | None:
        """The properties with which a message is published, or None if it is dropped.

        Raises ValueError if they are damaged.
        """
        raw = delivery.properties
        # Another broker may have accepted properties that this one refuses.
        scan(raw)
        has_user_id = (raw[0] << 8 | raw[1]) & USER_ID
        if self._trusts_user_id or not has_user_id:
            added = _NEW.added(raw, self._first[delivery.redelivered])
            if added is not None:
                return added
        properties = decode_properties(raw)
        headers: Table = properties.get("headers") or {}
        if not should_forward(headers, self._max_hops, *self._here):
            return None
        if not self._trusts_user_id:
            properties.pop("user_id", None)
        properties["headers"] = self._headers(headers, delivery.redelivered)
        return encode_properties(properties)

    def _headers(self, before: Table, redelivered: bool) -> Table:
        headers = dict(before)
        kind, places = headers.get(RECEIVED_FROM, ("", ()))
        if kind and kind != "A":
            add_invalid(headers, RECEIVED_FROM, (kind, places))
        newest: Table = {**self._place, "redelivered": ("t", redelivered), **self._places_after}
        headers[RECEIVED_FROM] = "A", [("F", newest), *(places if kind == "A" else ())]
        return headers
