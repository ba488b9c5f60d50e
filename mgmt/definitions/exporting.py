"""The export of definitions: of the whole node, or of one vhost.

As in RabbitMQ, an export has all queues that are not exclusive, whether durable or not, and all
exchanges that were declared, with their bindings. The items of a single vhost's file do not name
the vhost, so that the file can be imported into any other one.
"""

from collections.abc import Iterable
from typing import Any

from msgspec.structs import asdict

from leveret.broker.amqp.json_form import table_to_json, text
from leveret.broker.auth.passwords import hash_to_text
from leveret.broker.node.broker import Broker
from leveret.broker.policies.parameters import (
    GLOBAL,
    LINK_COMPONENTS,
    OPERATOR_POLICY,
    POLICY,
    VHOST_LIMITS,
    VHOST_METADATA,
)
from leveret.broker.protocols.amqp091.connection.handshake import COMPATIBLE_VERSION, PRODUCT
from leveret.broker.queues.contract.queue_client import QueueClient
from leveret.broker.vhost.binding import Binding, Exchange
from leveret.broker.vhost.virtual_host import VirtualHost
from leveret.mgmt.slices import GiveWay

DEFAULT_QUEUE_TYPE = "default-queue-type"
COMPONENTS = (*LINK_COMPONENTS, OPERATOR_POLICY, VHOST_LIMITS)
"""Components whose parameters are exported; policies and users' limits have lists of their own."""

Item = dict[str, Any]


async def export(broker: Broker, give_way: GiveWay) -> dict[str, Any]:
    """The definitions of the whole node, as JSON."""
    services = broker.services
    return {
        "rabbit_version": COMPATIBLE_VERSION,
        "rabbitmq_version": COMPATIBLE_VERSION,
        "product_name": PRODUCT,
        "product_version": COMPATIBLE_VERSION,
        "users": _users(broker),
        "vhosts": [_vhost_item(broker, vhost) for vhost in services.vhosts.values()],
        "permissions": [_in_order(asdict(one)) for one in services.permissions.all],
        "topic_permissions": [_in_order(asdict(one)) for one in services.permissions.topics],
        "parameters": [
            {"component": component, "vhost": text(vhost), "name": text(name), "value": value}
            for component in COMPONENTS
            for vhost, name, value in services.registry.runtime_parameters.of(component)
        ],
        "global_parameters": [
            {"name": text(name), "value": value}
            for _, name, value in services.parameters.of(GLOBAL)
        ],
        "policies": [policy.to_json() for policy in services.policies.all(POLICY)],
        **await _declared(services.vhosts.values(), give_way),
    }


def _users(broker: Broker) -> list[Item]:
    services = broker.services
    return [
        {
            "name": text(user.name), "password_hash": hash_to_text(user.password_hash),
            "hashing_algorithm": user.hashing_algorithm, "tags": list(user.tags),
            "limits": services.limits.of_user(user.name),
        }
        for user in services.users
    ]  # fmt: skip


def _in_order(row: Item) -> Item:
    return {key: text(value) for key, value in row.items()}


def _vhost_item(broker: Broker, vhost: VirtualHost) -> Item:
    tags = [tag for tag in vhost.tags.split(",") if tag]
    metadata: Item = {"description": text(vhost.description), "tags": tags}
    queue_type = broker.services.parameters.get(VHOST_METADATA, vhost.name, DEFAULT_QUEUE_TYPE)
    if queue_type:
        metadata["default_queue_type"] = queue_type
    return {
        "name": text(vhost.name), "description": text(vhost.description), "tags": tags,
        "metadata": metadata, "limits": [],
    }  # fmt: skip


async def _declared(
    vhosts: Iterable[VirtualHost], give_way: GiveWay, *, is_named: bool = True
) -> dict[str, list[Item]]:
    """The queues, exchanges and bindings of vhosts. is_named: each item names its vhost."""
    found: dict[str, list[Item]] = {"queues": [], "exchanges": [], "bindings": []}
    for vhost in tuple(vhosts):
        where = {"vhost": text(vhost.name)} if is_named else {}
        for queue in tuple(vhost.queues.values()):
            if not queue.is_exclusive:
                found["queues"].append(_queue_item(queue, where))
            await give_way()
        for exchange in tuple(vhost.exchanges.values()):
            if _is_made(exchange):
                found["exchanges"].append(_exchange_item(exchange, where))
            for binding in tuple(exchange.bindings.values()):
                if not _is_exclusive(binding.destination):
                    found["bindings"].append(_binding_item(binding, where))
                await give_way()
    return found


def _is_exclusive(destination: QueueClient | Exchange) -> bool:
    """Whether it is an exclusive queue, which belongs to one connection and is not exported."""
    return not isinstance(destination, Exchange) and destination.is_exclusive


async def export_one(broker: Broker, vhost: VirtualHost, give_way: GiveWay) -> dict[str, Any]:
    """The definitions of one vhost, as JSON."""
    services = broker.services
    policies = services.policies.all(POLICY, vhost.name)
    return {
        "rabbit_version": COMPATIBLE_VERSION,
        "parameters": [
            {"component": component, "name": text(name), "value": value}
            for component in COMPONENTS
            for _, name, value in services.registry.runtime_parameters.of(component, vhost.name)
        ],
        "policies": [_without_vhost(policy.to_json()) for policy in policies],
        **await _declared([vhost], give_way, is_named=False),
    }


def _without_vhost(item: Item) -> Item:
    return {key: value for key, value in item.items() if key != "vhost"}


def _is_made(exchange: Exchange) -> bool:
    """Whether the exchange was declared by a user; every vhost has predeclared ones, too."""
    return bool(exchange.name) and not exchange.name.startswith("amq.")


def _queue_item(queue: QueueClient, where: Item) -> Item:
    return {
        "name": text(queue.name), **where, "durable": queue.durable,
        "auto_delete": queue.auto_delete, "arguments": table_to_json(queue.arguments),
    }  # fmt: skip


def _exchange_item(exchange: Exchange, where: Item) -> Item:
    return {
        "name": text(exchange.name), **where, "type": exchange.type_name,
        "durable": exchange.durable, "auto_delete": exchange.auto_delete,
        "internal": exchange.internal, "arguments": table_to_json(exchange.arguments),
    }  # fmt: skip


def _binding_item(binding: Binding, where: Item) -> Item:
    return {
        "source": text(binding.source.name), **where,
        "destination": text(binding.destination.name),
        "destination_type": binding.destination_kind,
        "routing_key": text(binding.routing_key), "arguments": table_to_json(binding.arguments),
    }  # fmt: skip
