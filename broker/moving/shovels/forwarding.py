"""The changes that a shovel makes to messages: their address, and their properties.

A destination queue is reached through the default exchange. With an exchange, messages keep their
routing keys unless another is given; without a destination they keep both. Properties are changed
in the order of RabbitMQ's shovel: those that are set, then the header `x-shovelled` (the newest
shovel first in its array), then the header with the time. Last come the headers that mark what may
be a copy of another message, which only Leveret has. Pure.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from leveret.broker.amqp.field_table import Table
from leveret.broker.amqp.json_tables import json_to_table
from leveret.broker.amqp.properties import decode_properties, encode_properties
from leveret.broker.moving.transfers.transfer import Readdress, TransferDelivery
from leveret.broker.policies.shovel_parameter import ShovelDefinition

FORWARD_HEADER: Final = "x-shovelled"
TIMESTAMP_HEADER: Final = "x-shovelled-timestamp"
REDELIVERED_HEADER: Final = "x-source-redelivered"
"""Of a message that the source has delivered before: it may have been moved or consumed already."""
OFFSET_HEADER: Final = "x-source-offset"
"""The offset of a message in the stream that it was copied from."""
_STREAM_OFFSET: Final = "x-stream-offset"
_STREAM_OFFSET_BYTES: Final = _STREAM_OFFSET.encode()
IDENTITY: Final = ("shovelled-by", "shovel-type", "shovel-name", "shovel-vhost")
"""The fields that identify a shovel's own entry in the header."""
DYNAMIC, STATIC = "dynamic", "static"


def ends_of(definition: ShovelDefinition) -> dict[str, str]:
    """The queues, exchanges and keys of a shovel, by the names that RabbitMQ's status has."""
    source, destination = definition.source, definition.destination
    found = {
        "src_queue": source.queue,
        "src_exchange": source.exchange,
        "src_exchange_key": source.exchange_key if source.exchange is not None else None,
        "dest_queue": destination.queue,
        "dest_exchange": destination.exchange,
        "dest_exchange_key": destination.exchange_key,
    }
    return {name: value for name, value in found.items() if value is not None}


def leads_back(definition: ShovelDefinition) -> bool:
    """Whether messages return to the queue they are taken from, if both ends are one vhost."""
    source, destination = definition.source, definition.destination
    if source.queue is None:
        return False
    if destination.queue is not None:
        return destination.queue == source.queue
    # Through the default exchange, or through the exchange and key they came with.
    return not destination.exchange and destination.exchange_key in (None, source.queue)


def readdress_of(
    definition: ShovelDefinition,
    facts: Callable[[], Mapping[str, str]],
    wall_time_s: Callable[[], float],
    came_round: Callable[[], object],
) -> Readdress:
    """The address and the properties with which a shovel publishes its messages.

    facts: returns the shovel's entry in the header `x-shovelled`, in order; a function, because the
    name of the cluster may change. came_round: called for each message whose header says that this
    shovel has moved it before.
    """
    destination = definition.destination
    change: Change | None = None
    header = facts if destination.adds_forward_headers else None
    if destination.properties or header is not None or destination.adds_timestamp_header:
        clock = wall_time_s if destination.adds_timestamp_header else None
        change = PropertyChange(destination.properties, header, clock, came_round)
    if destination.adds_source_headers:
        change = SourceMarks(change)
    if destination.queue is not None:
        return Readdress("", destination.queue, change, mandatory=True)
    # The default exchange with a key, which static shovels have instead of a queue, is one, too.
    is_queue = destination.exchange == "" and destination.exchange_key is not None
    return Readdress(destination.exchange, destination.exchange_key, change, mandatory=is_queue)


Change = Callable[[TransferDelivery], bytes]
"""Makes the properties with which a delivery is published."""


class SourceMarks:
    """Marks messages that may be copies of others. Those of queues stay as they are until then.

    change: what else is changed.
    """

    def __init__(self, change: Change | None) -> None:
        self._change = change

    def __call__(self, delivery: TransferDelivery) -> bytes:
        """The properties of a message, with its marks."""
        raw = delivery.properties if self._change is None else self._change(delivery)
        if not delivery.redelivered and _STREAM_OFFSET_BYTES not in raw:
            return raw
        properties = decode_properties(raw)
        headers: Table = dict(properties.get("headers") or {})
        offset = headers.pop(_STREAM_OFFSET, None)
        if offset is not None:
            headers[OFFSET_HEADER] = offset
        if delivery.redelivered:
            headers[REDELIVERED_HEADER] = "t", True
        properties["headers"] = headers
        return encode_properties(properties)


class PropertyChange:
    """Changes the properties of messages."""

    def __init__(
        self,
        properties: Mapping[str, Any],
        facts: Callable[[], Mapping[str, str]] | None,
        wall_time_s: Callable[[], float] | None,
        came_round: Callable[[], object],
    ) -> None:
        self._properties = properties
        self._facts = facts
        # The facts of the previous message, and their header.
        self._told: Mapping[str, str] = {}
        self._table: Table = {}
        self._identity: Table = {}
        self._came_round = came_round
        self._wall_time_s = wall_time_s

    def __call__(self, delivery: TransferDelivery) -> bytes:
        """The properties of a message, changed."""
        properties = decode_properties(delivery.properties) | dict(self._properties)
        headers: Table = dict(properties.get("headers") or {})
        if self._facts is not None:
            self._tell(self._facts())
            kind, before = headers.get(FORWARD_HEADER, ("A", []))
            before = before if kind == "A" else []
            identity = self._identity.items()
            if any(kind == "F" and identity <= one.items() for kind, one in before):
                self._came_round()
            headers[FORWARD_HEADER] = "A", [("F", self._table), *before]
        if self._wall_time_s is not None:
            headers[TIMESTAMP_HEADER] = "l", int(self._wall_time_s())
        if headers:
            properties["headers"] = headers
        return encode_properties(properties)

    def _tell(self, facts: Mapping[str, str]) -> None:
        if facts != self._told:
            self._told, self._table = facts, json_to_table(facts)
            self._identity = {name: self._table[name] for name in IDENTITY if name in facts}


def facts_of(
    name: str,
    vhost: str | None,
    cluster_name: str,
    uris: tuple[str, str],
    definition: ShovelDefinition,
) -> dict[str, str]:
    """The facts of the header `x-shovelled`.

    vhost: None for a static shovel. uris: the URIs of source and destination, without credentials.
    """
    source, destination = uris
    if vhost is None:
        return {
            "shovelled-by": cluster_name,
            "shovel-type": STATIC,
            "shovel-name": name,
            "src-uri": source,
            "dest-uri": destination,
        }
    ends = {key.replace("_", "-"): value for key, value in ends_of(definition).items()}
    return {
        "shovelled-by": cluster_name,
        "shovel-type": DYNAMIC,
        "shovel-name": name,
        "shovel-vhost": vhost,
        "src-uri": source,
        "dest-uri": destination,
        **{key: value for key, value in ends.items() if key.startswith("dest")},
        **{key: value for key, value in ends.items() if key.startswith("src")},
    }
