"""Exchanges and bindings as JSON, with RabbitMQ's fields."""

import base64
from typing import Any
from urllib.parse import quote_plus
from zlib import crc32

from leveret.broker.amqp.field_table import Table, encode_table, sorted_table
from leveret.broker.amqp.field_terms import table_term
from leveret.broker.amqp.json_form import table_to_json, text
from leveret.broker.erlang.phash2 import phash2
from leveret.broker.runtime.names import HIDDEN_ARGUMENT, QUEUE
from leveret.mgmt.node_facade.facts import BindingFacts, ExchangeFacts
from leveret.mgmt.statistics.sampler import EXCHANGE, Sampler
from leveret.mgmt.statistics.series import SampleWindow
from leveret.mgmt.views.channels import message_stats
from leveret.mgmt.views.deduplication import seen_fields

NO_PROPERTIES_KEY = "~"
PORTABLY_HASHED_BYTES_MAX = 8192
"""Arguments whose encoding is longer have another hash than in RabbitMQ.

phash2 takes up to 1 µs a byte, and the event loop must not be held up.
"""


def exchange_view(
    exchange: ExchangeFacts, sampler: Sampler, window: SampleWindow | None = None
) -> dict[str, Any]:
    """An exchange."""
    view: dict[str, Any] = {
        "name": text(exchange.name),
        "vhost": text(exchange.vhost),
        "type": exchange.type,
        "durable": exchange.durable,
        "auto_delete": exchange.auto_delete,
        "internal": exchange.internal,
        "arguments": table_to_json(exchange.arguments),
        "user_who_performed_action": "rmq-internal",
    }
    if exchange.messages_delayed is not None:
        view["messages_delayed"] = exchange.messages_delayed
    if exchange.next_delayed_ms is not None:
        view["next_delayed_at"] = exchange.next_delayed_ms
    if exchange.deduplication is not None:
        view |= seen_fields(exchange.deduplication, exchange.duplicates)
    if exchange.policy is not None:
        view["policy"] = exchange.policy
    row = (exchange.published, exchange.routed)
    series = sampler.objects.exchange(exchange.vhost, exchange.name, row)
    if series is not None:
        view["message_stats"] = message_stats(EXCHANGE, row, series, sampler.now_ms(), window)
    return view


def properties_key(routing_key: str, arguments: Table) -> str:
    """The name of a binding in a path, which differs for each binding between the same ends.

    It is the routing key and RabbitMQ's hash of the arguments (rabbit_mgmt_format,
    pack_binding_props): those are sorted by name, as RabbitMQ stores them.
    """
    encoded = routing_key.encode("utf-8", "surrogateescape")
    key = quote_plus(encoded, safe="").replace("~", "%7E")
    if not arguments:
        return key or NO_PROPERTIES_KEY
    digest = _arguments_hash(arguments).to_bytes(4, "big")
    return f"{key}~{base64.urlsafe_b64encode(digest).decode().rstrip('=')}"


def _arguments_hash(arguments: Table) -> int:
    encoded = encode_table(arguments)
    if len(encoded) > PORTABLY_HASHED_BYTES_MAX:
        return crc32(encoded)
    return phash2(table_term(sorted_table(arguments)))


def shown_arguments(arguments: Table) -> Table:
    """The arguments of a binding without the broker's own, which RabbitMQ does not show."""
    return {name: field for name, field in arguments.items() if name != HIDDEN_ARGUMENT}


def default_binding(vhost: str, queue: str) -> BindingFacts:
    """The binding that each queue has to the default exchange."""
    return BindingFacts(vhost, "", QUEUE, queue, queue, {})


def binding_view(binding: BindingFacts) -> dict[str, Any]:
    """A binding."""
    return {
        "source": text(binding.source),
        "vhost": text(binding.vhost),
        "destination": text(binding.destination),
        "destination_type": binding.destination_kind,
        "routing_key": text(binding.routing_key),
        "arguments": table_to_json(shown_arguments(binding.arguments)),
        "properties_key": properties_key(binding.routing_key, binding.arguments),
    }
