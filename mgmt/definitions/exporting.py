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
from leveret.broker.policies.parameters import (
    DEFAULT_QUEUE_TYPE,
    GLOBAL,
    LINK_COMPONENTS,
    OPERATOR_POLICY,
    POLICY,
    UNROUTABLE_PUBLISHES,
    VHOST_LIMITS,
    VHOST_METADATA,
)
from leveret.broker.protocols.amqp091.connection.handshake import COMPATIBLE_VERSION, PRODUCT
from leveret.broker.runtime.names import QUEUE
from leveret.mgmt.node_facade.facade import NodeFacade
from leveret.mgmt.node_facade.facts import BindingFacts, DeclaredQueue, ExchangeFacts, VhostFacts
from leveret.mgmt.slices import GiveWay

COMPONENTS = (*LINK_COMPONENTS, OPERATOR_POLICY, VHOST_LIMITS)
"""Components whose parameters are exported; policies and users' limits have lists of their own."""

Item = dict[str, Any]


async def export(node: NodeFacade, give_way: GiveWay) -> dict[str, Any]:
    """The definitions of the whole node, as JSON."""
    return {
        "rabbit_version": COMPATIBLE_VERSION,
        "rabbitmq_version": COMPATIBLE_VERSION,
        "product_name": PRODUCT,
        "product_version": COMPATIBLE_VERSION,
        "users": _users(node),
        "vhosts": [_vhost_item(node, vhost) for vhost in node.vhosts()],
        "permissions": [_in_order(asdict(one)) for one in node.permissions.all],
        "topic_permissions": [_in_order(asdict(one)) for one in node.permissions.topics],
        "parameters": [
            {"component": component, "vhost": text(vhost), "name": text(name), "value": value}
            for component in COMPONENTS
            for vhost, name, value in node.runtime_parameters.of(component)
        ],
        "global_parameters": [
            {"name": text(name), "value": value} for _, name, value in node.parameters.of(GLOBAL)
        ],
        "policies": [policy.to_json() for policy in node.policies.all(POLICY)],
        **await _declared(node, node.vhost_names(), give_way),
    }


def _users(node: NodeFacade) -> list[Item]:
    return [
        {
            "name": text(user.name), "password_hash": hash_to_text(user.password_hash),
            "hashing_algorithm": user.hashing_algorithm, "tags": list(user.tags),
            "limits": node.limits.of_user(user.name),
        }
        for user in node.users
    ]  # fmt: skip


def _in_order(row: Item) -> Item:
    return {key: text(value) for key, value in row.items()}


def _vhost_item(node: NodeFacade, vhost: VhostFacts) -> Item:
    tags = [tag for tag in vhost.tags.split(",") if tag]
    metadata: Item = {"description": text(vhost.description), "tags": tags}
    queue_type = node.parameters.get(VHOST_METADATA, vhost.name, DEFAULT_QUEUE_TYPE)
    if queue_type:
        metadata["default_queue_type"] = queue_type
    unroutable = node.parameters.get(VHOST_METADATA, vhost.name, UNROUTABLE_PUBLISHES)
    if unroutable:
        metadata["unroutable_publishes"] = unroutable
    return {
        "name": text(vhost.name), "description": text(vhost.description), "tags": tags,
        "metadata": metadata, "limits": [],
    }  # fmt: skip


async def _declared(
    node: NodeFacade, vhosts: Iterable[str], give_way: GiveWay, *, is_named: bool = True
) -> dict[str, list[Item]]:
    """The queues, exchanges and bindings of vhosts. is_named: each item names its vhost."""
    found: dict[str, list[Item]] = {"queues": [], "exchanges": [], "bindings": []}
    for vhost in vhosts:
        where = {"vhost": text(vhost)} if is_named else {}
        for queue in node.declared_queues(vhost):
            if not queue.is_exclusive:
                found["queues"].append(_queue_item(queue, where))
            await give_way()
        for exchange in node.exchanges(vhost):
            if _is_made(exchange):
                found["exchanges"].append(_exchange_item(exchange, where))
            for binding in node.bindings_from(vhost, exchange.name):
                if not _is_to_exclusive(node, binding):
                    found["bindings"].append(_binding_item(binding, where))
                await give_way()
    return found


def _is_to_exclusive(node: NodeFacade, binding: BindingFacts) -> bool:
    """Whether it leads to an exclusive queue, which belongs to one connection: neither is
    exported.
    """
    is_queue = binding.destination_kind == QUEUE
    return is_queue and node.is_exclusive(binding.vhost, binding.destination)


async def export_one(node: NodeFacade, vhost: str, give_way: GiveWay) -> dict[str, Any]:
    """The definitions of one vhost, as JSON."""
    policies = node.policies.all(POLICY, vhost)
    return {
        "rabbit_version": COMPATIBLE_VERSION,
        "parameters": [
            {"component": component, "name": text(name), "value": value}
            for component in COMPONENTS
            for _, name, value in node.runtime_parameters.of(component, vhost)
        ],
        "policies": [_without_vhost(policy.to_json()) for policy in policies],
        **await _declared(node, [vhost], give_way, is_named=False),
    }


def _without_vhost(item: Item) -> Item:
    return {key: value for key, value in item.items() if key != "vhost"}


def _is_made(exchange: ExchangeFacts) -> bool:
    """Whether the exchange was declared by a user; every vhost has predeclared ones, too."""
    return bool(exchange.name) and not exchange.name.startswith("amq.")


def _queue_item(queue: DeclaredQueue, where: Item) -> Item:
    return {
        "name": text(queue.name), **where, "durable": queue.durable,
        "auto_delete": queue.auto_delete, "arguments": table_to_json(queue.arguments),
    }  # fmt: skip


def _exchange_item(exchange: ExchangeFacts, where: Item) -> Item:
    return {
        "name": text(exchange.name), **where, "type": exchange.type,
        "durable": exchange.durable, "auto_delete": exchange.auto_delete,
        "internal": exchange.internal, "arguments": table_to_json(exchange.arguments),
    }  # fmt: skip


def _binding_item(binding: BindingFacts, where: Item) -> Item:
    return {
        "source": text(binding.source), **where,
        "destination": text(binding.destination),
        "destination_type": binding.destination_kind,
        "routing_key": text(binding.routing_key), "arguments": table_to_json(binding.arguments),
    }  # fmt: skip
