"""The properties of a message that a federated queue gets from its upstream.

The header `x-received-from` lists the places that a message came from, the newest first. A place
that a message comes from again is listed once, with the number of visits. When a message is moved
for the first time, `x-original-exchange` and `x-original-routing-key` record its address: from then
on it is published to its queue. `CC` becomes `x-original-cc`, or the message would be routed by it
again. The user id is left out unless the upstream is trusted to have checked it.

Source: RabbitMQ's `rabbit_federation_queue_link` (`update_headers`) and `rabbit_basic`
(`prepend_table_header`). Pure.
"""

from typing import Final

from leveret.broker.amqp.field_table import Field, Table, encode_table
from leveret.broker.amqp.header_bytes import NewFields
from leveret.broker.amqp.properties import USER_ID, decode_properties, encode_properties, scan
from leveret.broker.exchanges.federation_upstream import RECEIVED_FROM
from leveret.broker.moving.federation.invalid_headers import add_invalid
from leveret.broker.moving.transfers.transfer import TransferDelivery

ORIGINAL_EXCHANGE, ORIGINAL_ROUTING_KEY = "x-original-exchange", "x-original-routing-key"
CC, ORIGINAL_CC = "CC", "x-original-cc"
VISIT_COUNT: Final = "visit-count"
VISITS_MAX: Final = 2**62
"""The maximum of a count; a client may have set any number of 64 bits."""
_LENGTH_BYTES: Final = 4
_KEPT_MAX: Final = 64

_NEW = NewFields((RECEIVED_FROM, ORIGINAL_EXCHANGE, ORIGINAL_ROUTING_KEY, CC))


class QueueHeaders:
    """Makes the properties of messages that come over one link.

    uri: the upstream's, without user and password. queue: the name of the federated queue.
    """

    __slots__ = ("_first", "_place", "_trusts_user_id")

    def __init__(self, uri: str, queue: str, trusts_user_id: bool) -> None:
        self._place: Table = {"uri": ("S", uri), "queue": ("S", queue)}
        self._trusts_user_id = trusts_user_id
        # The new headers of messages that were not moved before, encoded.
        self._first: dict[tuple[str, str, bool], bytes] = {}

    def __call__(self, delivery: TransferDelivery) -> bytes:
        """The properties for publishing a message. Raises ValueError if its own are damaged."""
        raw = delivery.properties
        # Another broker may have accepted properties that this one refuses.
        scan(raw)
        has_user_id = (raw[0] << 8 | raw[1]) & USER_ID
        if self._trusts_user_id or not has_user_id:
            added = _NEW.added(raw, self._first_fields(delivery))
            if added is not None:
                return added
        properties = decode_properties(raw)
        if not self._trusts_user_id:
            properties.pop("user_id", None)
        properties["headers"] = self._headers(delivery, properties.get("headers") or {})
        return encode_properties(properties)

    def _first_fields(self, delivery: TransferDelivery) -> bytes:
        key = delivery.exchange, delivery.routing_key, delivery.redelivered
        fields = self._first.get(key)
        if fields is None:
            if len(self._first) == _KEPT_MAX:
                self._first.clear()
            fields = encode_table(self._headers(delivery, {}))[_LENGTH_BYTES:]
            self._first[key] = fields
        return fields

    def _headers(self, delivery: TransferDelivery, before: Table) -> Table:
        headers = {ORIGINAL_CC if name == CC else name: value for name, value in before.items()}
        kind, places = headers.get(RECEIVED_FROM, ("", None))
        visits = 0
        if kind == "A":
            visits = max((_visits(one) for one in places if self._is_here(one)), default=0)
            places = [one for one in places if not self._is_here(one)]
        else:
            # A client may have published a message with any header.
            headers[ORIGINAL_EXCHANGE] = "S", delivery.exchange
            headers[ORIGINAL_ROUTING_KEY] = "S", delivery.routing_key
            if kind:
                add_invalid(headers, RECEIVED_FROM, (kind, places))
            places = []
        newest: Table = {
            **self._place,
            "redelivered": ("t", delivery.redelivered),
            VISIT_COUNT: ("l", visits + 1),
        }
        headers[RECEIVED_FROM] = "A", [("F", newest), *places]
        return headers

    def _is_here(self, place: Field) -> bool:
        kind, table = place
        return (
            kind == "F"
            and "virtual_host" not in table
            and all(table.get(name) == value for name, value in self._place.items())
        )


def _visits(place: Field) -> int:
    _, count = place[1].get(VISIT_COUNT, ("", 0))
    return min(int(count), VISITS_MAX) if isinstance(count, int) else 0
