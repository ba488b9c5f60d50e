"""Exchanges and bindings as JSON, with RabbitMQ's fields."""

import base64
from typing import Any
from urllib.parse import quote_plus
from zlib import crc32

from broker.amqp.field_table import encode_table
from broker.binding import Binding, Exchange
from broker.queues.actor import Queue
from broker.vhost import VirtualHost
from mgmt.statistics.sampler import EXCHANGE, Sampler
from mgmt.statistics.series import Window
from mgmt.views.channels import message_stats
from mgmt.views.values import table_to_json, text

NO_PROPERTIES_KEY = "~"


def exchange_view(
    vhost: VirtualHost, exchange: Exchange, sampler: Sampler, window: Window | None = None
) -> dict[str, Any]:
    """An exchange."""
    view: dict[str, Any] = {
        "name": text(exchange.name),
        "vhost": text(vhost.name),
        "type": exchange.type_name,
        "durable": exchange.durable,
        "auto_delete": exchange.auto_delete,
        "internal": exchange.internal,
        "arguments": table_to_json(exchange.arguments),
        "user_who_performed_action": "rmq-internal",
    }
    if exchange.policy is not None:
        view["policy"] = exchange.policy.name
    series = sampler.objects.get(exchange)
    row = (exchange.published_count, exchange.routed_count)
    if series is not None:
        view["message_stats"] = message_stats(EXCHANGE, row, series, sampler.now_ms(), window)
    return view


def properties_key(routing_key: str, arguments: dict[str, Any]) -> str:
    """What tells a binding from others between the same ends, in a path.

    arguments: a field table. RabbitMQ has a hash of its own for them; clients do not look into it.
    """
    encoded = routing_key.encode("utf-8", "surrogateescape")
    key = quote_plus(encoded, safe="").replace("~", "%7E")
    if not arguments:
        return key or NO_PROPERTIES_KEY
    digest = crc32(encode_table(arguments)).to_bytes(4, "big")
    return f"{key}~{base64.urlsafe_b64encode(digest).decode().rstrip('=')}"


def binding_view(vhost: VirtualHost, binding: Binding) -> dict[str, Any]:
    """A binding."""
    return {
        "source": text(binding.source.name),
        "vhost": text(vhost.name),
        "destination": text(binding.destination.name),
        "destination_type": binding.destination_kind,
        "routing_key": text(binding.routing_key),
        "arguments": table_to_json(binding.arguments),
        "properties_key": properties_key(binding.routing_key, binding.arguments),
    }


def default_binding_view(vhost: VirtualHost, queue: Queue) -> dict[str, Any]:
    """The binding that each queue has to the default exchange."""
    return {
        "source": "",
        "vhost": text(vhost.name),
        "destination": text(queue.name),
        "destination_type": "queue",
        "routing_key": text(queue.name),
        "arguments": {},
        "properties_key": properties_key(queue.name, {}),
    }
