"""Definitions: everything that is declared, as RabbitMQ's definitions files have it.

An import is made of parts in the order in which they need each other: vhosts, users, permissions,
parameters, policies, exchanges, queues, bindings. Each part is done in slices, and each slice is
one transaction of the metadata, with the node's other work in between. What is there already stays
as it is if it cannot be changed (queues, exchanges), as in RabbitMQ. `changes` tells beforehand
what an import would do, and is what `--dry-run` shows.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from broker.amqp.errors import Fault
from broker.amqp.field_table import Table
from broker.auth.passwords import SHA256, hash_from_text, hash_to_text
from broker.exchanges import EXCHANGE_TYPES
from broker.limits import LimitError
from broker.names import EXCHANGE, QUEUE
from broker.net.handshake import COMPATIBLE_VERSION, PRODUCT
from broker.parameters import (
    FREE_COMPONENTS,
    GLOBAL,
    NO_VHOST,
    OPERATOR_POLICY,
    POLICY,
    VHOST_LIMITS,
    VHOST_METADATA,
)
from broker.policies import Policy
from broker.policy_keys import PolicyError
from broker.queues.arguments import check_declare_arguments
from broker.server import Broker
from broker.vhost import VirtualHost
from mgmt.views.values import json_to_table, table_to_json, text
from storage.metadata_rows import PermissionRow, TopicPermissionRow

SLICE = 500
DEFAULT_QUEUE_TYPE = "default-queue-type"

Item = dict[str, Any]


class DefinitionsError(ValueError):
    """Definitions cannot be imported. reason: as the HTTP API says it."""

    def __init__(self, reason: Any) -> None:
        super().__init__(str(reason))
        self.reason = reason


# Exporting


def export(broker: Broker) -> dict[str, Any]:
    """Everything."""
    services = broker.services
    limits = services.limits
    return {
        "rabbit_version": COMPATIBLE_VERSION,
        "rabbitmq_version": COMPATIBLE_VERSION,
        "product_name": PRODUCT,
        "product_version": COMPATIBLE_VERSION,
        "users": [
            {
                "name": text(user.name), "password_hash": hash_to_text(user.password_hash),
                "hashing_algorithm": user.hashing_algorithm, "tags": list(user.tags),
                "limits": limits.of_user(user.name),
            }
            for user in services.users
        ],
        "vhosts": [_vhost_item(broker, vhost) for vhost in services.vhosts.values()],
        "permissions": [_in_order(row._asdict()) for row in services.permissions.rows],
        "topic_permissions": [_in_order(row._asdict()) for row in services.permissions.topic_rows],
        "parameters": [
            {"component": component, "vhost": text(vhost), "name": text(name), "value": value}
            for component in (*FREE_COMPONENTS, OPERATOR_POLICY, VHOST_LIMITS)
            for vhost, name, value in services.parameters.of(component)
        ],
        "global_parameters": [
            {"name": text(name), "value": value}
            for _, name, value in services.parameters.of(GLOBAL)
        ],
        "policies": [policy.to_json() for policy in services.policies.all(POLICY)],
        **_merged(export_vhost(vhost, named=True) for vhost in services.vhosts.values()),
    }  # fmt: skip


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


def _merged(parts: Iterable[dict[str, list[Item]]]) -> dict[str, list[Item]]:
    merged: dict[str, list[Item]] = {"queues": [], "exchanges": [], "bindings": []}
    for part in parts:
        for key, items in merged.items():
            items.extend(part[key])
    return merged


def export_vhost(vhost: VirtualHost, *, named: bool) -> dict[str, list[Item]]:
    """The durable queues, exchanges and bindings of a vhost. named: with the vhost's name."""
    where = {"vhost": text(vhost.name)} if named else {}
    exchanges = [one for one in vhost.exchanges.values() if one.durable]
    return {
        "queues": [
            {
                "name": text(queue.name), **where, "durable": True,
                "auto_delete": queue.auto_delete, "arguments": table_to_json(queue.arguments),
            }
            for queue in vhost.queues.values()
            if queue.durable
        ],
        "exchanges": [
            {
                "name": text(one.name), **where, "type": one.type_name, "durable": True,
                "auto_delete": one.auto_delete, "internal": one.internal,
                "arguments": table_to_json(one.arguments),
            }
            for one in exchanges
            if one.name and not one.name.startswith("amq.")
        ],
        "bindings": [
            {
                "source": text(one.name), **where, "destination": text(binding.destination.name),
                "destination_type": binding.destination_kind,
                "routing_key": text(binding.routing_key),
                "arguments": table_to_json(binding.arguments),
            }
            for one in exchanges
            for binding in one.bindings.values()
            if binding.is_durable
        ],
    }  # fmt: skip


def export_one(broker: Broker, vhost: VirtualHost) -> dict[str, Any]:
    """What a vhost's own file has."""
    services = broker.services
    policies = [policy.to_json() for policy in services.policies.all(POLICY, vhost.name)]
    return {
        "rabbit_version": COMPATIBLE_VERSION,
        "rabbitmq_version": COMPATIBLE_VERSION,
        "product_name": PRODUCT,
        "product_version": COMPATIBLE_VERSION,
        "parameters": [
            {"component": component, "name": text(name), "value": value}
            for component in (*FREE_COMPONENTS, OPERATOR_POLICY, VHOST_LIMITS)
            for _, name, value in services.parameters.of(component, vhost.name)
        ],
        "policies": policies,
        **export_vhost(vhost, named=False),
    }


# Importing


class Import:
    """One import. vhost: of everything that does not name one."""

    def __init__(self, broker: Broker, definitions: Any, vhost: str | None = None) -> None:
        if not isinstance(definitions, dict):
            raise DefinitionsError("definitions must be a JSON object")
        self._broker = broker
        self._definitions = definitions
        self._vhost_name = vhost

    def items(self, key: str) -> list[Item]:
        """A list of the definitions. Raises DefinitionsError if it is none."""
        items = self._definitions.get(key) or []
        if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
            raise DefinitionsError(f"{key} must be a list of objects")
        if self._vhost_name is not None:
            items = [{**item, "vhost": self._vhost_name} for item in items]
        return items

    async def run(self) -> None:
        """Import. Raises DefinitionsError; what was imported until then stays."""
        self._check_vhosts()
        for key, work in self._parts():
            items = self.items(key)
            for start in range(0, len(items), SLICE):
                self._import_slice(key, work, items[start : start + SLICE])
                await asyncio.sleep(0)

    def _parts(self) -> tuple[tuple[str, Callable[[Item], None]], ...]:
        in_a_vhost: tuple[tuple[str, Callable[[Item], None]], ...] = (
            ("parameters", self._parameter),
            ("policies", self._policy),
            ("exchanges", self._exchange),
            ("queues", self._queue),
            ("bindings", self._binding),
        )
        if self._vhost_name is not None:
            return in_a_vhost
        return (
            ("vhosts", self._add_vhost),
            ("users", self._user),
            ("permissions", self._permission),
            ("topic_permissions", self._topic_permission),
            ("global_parameters", self._global_parameter),
            *in_a_vhost,
        )

    def _import_slice(self, key: str, work: Callable[[Item], None], items: list[Item]) -> None:
        with self._broker.services.metadata.batch():
            for item in items:
                try:
                    work(item)
                except KeyError as missing:
                    raise DefinitionsError(f"{key}: {item} has no {missing}") from None
                except (PolicyError, LimitError) as error:
                    raise DefinitionsError(f"Validation failed\n\n{error}\n") from None
                except Fault as fault:
                    raise DefinitionsError(fault.reply_text) from None
                except (TypeError, AttributeError, ValueError) as error:
                    if isinstance(error, DefinitionsError):
                        raise
                    raise DefinitionsError(f"{key}: {item} makes no sense: {error}") from None

    def _check_vhosts(self) -> None:
        """Nothing is imported if something is for a vhost that will not be there."""
        known = set(self._broker.services.vhosts)
        if self._vhost_name is None:
            known |= {str(item.get("name")) for item in self.items("vhosts")}
        for key in ("queues", "exchanges", "bindings", "policies", "parameters", "permissions"):
            for item in self.items(key):
                if "vhost" in item and item["vhost"] not in known:
                    raise DefinitionsError(["no_such_vhost", item["vhost"]])

    def _vhost(self, item: Item) -> VirtualHost:
        return self._broker.services.vhosts[item["vhost"]]

    def _add_vhost(self, item: Item) -> None:
        broker, name = self._broker, item["name"]
        metadata = item.get("metadata") or {}
        description = str(item.get("description") or metadata.get("description") or "")
        tags = item.get("tags") or metadata.get("tags") or []
        joined = tags if isinstance(tags, str) else ",".join(tags)
        vhost = broker.services.vhosts.get(name)
        if vhost is None:
            broker.add_vhost(name, description, joined)
        elif (description, joined) != (vhost.description, vhost.tags):
            vhost.description, vhost.tags = description, joined
            broker.describe_vhost(vhost)
        queue_type = metadata.get("default_queue_type")
        if queue_type and queue_type != "undefined":
            broker.services.parameters.set(VHOST_METADATA, name, DEFAULT_QUEUE_TYPE, queue_type)

    def _user(self, item: Item) -> None:
        users = self._broker.services.users
        tags = item.get("tags") or []
        listed = tags.split(",") if isinstance(tags, str) else tags
        if "password" in item:
            users.add(item["name"], item["password"], filter(None, listed))
        else:
            users.add_with_hash(
                item["name"], hash_from_text(item.get("password_hash") or ""),
                item.get("hashing_algorithm") or SHA256, filter(None, listed),
            )  # fmt: skip
        if item.get("limits"):
            self._broker.services.limits.set_for_user(item["name"], item["limits"])

    def _permission(self, item: Item) -> None:
        self._broker.services.permissions.set(
            PermissionRow(
                item["vhost"], item["user"], item["configure"], item["write"], item["read"]
            )
        )

    def _topic_permission(self, item: Item) -> None:
        self._broker.services.permissions.set_topic(
            TopicPermissionRow(
                item["vhost"], item["user"], item["exchange"], item["write"], item["read"]
            )
        )

    def _global_parameter(self, item: Item) -> None:
        self._broker.services.parameters.set(GLOBAL, NO_VHOST, item["name"], item["value"])

    def _parameter(self, item: Item) -> None:
        services = self._broker.services
        component, vhost, name, value = (
            item["component"], item["vhost"], item["name"], item["value"]
        )  # fmt: skip
        if component == VHOST_LIMITS:
            services.limits.set_for_vhost(vhost, value)
        elif component in (POLICY, OPERATOR_POLICY):
            services.policies.set(
                component, policy_of_item({**value, "vhost": vhost, "name": name})
            )
        elif component in FREE_COMPONENTS:
            services.parameters.set(component, vhost, name, value)
        else:
            raise DefinitionsError(f"Validation failed\n\ncomponent {component} not found\n")

    def _policy(self, item: Item) -> None:
        self._broker.services.policies.set(POLICY, policy_of_item(item))

    def _exchange(self, item: Item) -> None:
        vhost, name = self._vhost(item), item["name"]
        if name in vhost.exchanges or name.startswith("amq."):
            return
        if item["type"] not in EXCHANGE_TYPES:
            raise DefinitionsError(f"invalid exchange type '{item['type']}'")
        vhost.declare_exchange(
            name, item["type"], bool(item.get("durable", True)),
            bool(item.get("auto_delete", False)), bool(item.get("internal", False)),
            _table(item),
        )  # fmt: skip

    def _queue(self, item: Item) -> None:
        vhost, name = self._vhost(item), item["name"]
        if name in vhost.queues:
            return
        arguments = _table(item)
        check_declare_arguments(arguments, name, vhost.name)
        vhost.declare_queue(
            name, bool(item.get("durable", True)), bool(item.get("auto_delete", False)), arguments
        )

    def _binding(self, item: Item) -> None:
        vhost = self._vhost(item)
        source = vhost.exchanges.get(item["source"])
        to_queue = item.get("destination_type", QUEUE) == QUEUE
        ends: Any = vhost.queues if to_queue else vhost.exchanges
        destination = ends.get(item["destination"])
        if source is None or destination is None:
            kind = EXCHANGE if source is None else item.get("destination_type", QUEUE)
            name = item["source"] if source is None else item["destination"]
            raise DefinitionsError(f"no {kind} '{name}' in vhost '{vhost.name}'")
        if source.name:
            vhost.bind(source, destination, item.get("routing_key", ""), _table(item))


def policy_of_item(item: Item) -> Policy:
    """A policy out of definitions."""
    return Policy(
        item["vhost"], item["name"], item["pattern"], item.get("apply-to") or "all",
        item["definition"], item.get("priority") or 0,
    )  # fmt: skip


def _table(item: Item) -> Table:
    return json_to_table(item.get("arguments") or {})


# Asking first


def changes(broker: Broker, definitions: Any, vhost: str | None = None) -> dict[str, Any]:
    """What an import would do: `{"changes": [...], "unchanged": n}`. Raises DefinitionsError."""
    wanted = Import(broker, definitions, vhost)
    current = _by_name(export(broker), None)
    found: list[Item] = []
    unchanged = 0
    for kind, key, item in _named(wanted, vhost):
        there = current.get((kind, key))
        if there is None:
            found.append(_change("add", kind, key, None, item))
            continue
        differing = {name for name, value in item.items() if name in there and there[name] != value}
        if not differing:
            unchanged += 1
            continue
        action = "conflict" if kind in ("queue", "exchange") else "change"
        found.append(_change(action, kind, key, there, item, differing))
    return {"changes": found, "unchanged": unchanged}


KINDS = {
    "vhosts": "vhost", "users": "user", "permissions": "permission",
    "topic_permissions": "topic_permission", "parameters": "parameter",
    "global_parameters": "global_parameter", "policies": "policy", "exchanges": "exchange",
    "queues": "queue", "bindings": "binding",
}  # fmt: skip
KEYS = {
    "permission": ("vhost", "user"),
    "topic_permission": ("vhost", "user", "exchange"),
    "parameter": ("vhost", "component", "name"),
    "binding": ("vhost", "source", "destination_type", "destination", "routing_key", "arguments"),
}


def _named(wanted: Import, vhost: str | None) -> Iterator[tuple[str, tuple[str, ...], Item]]:
    for list_name, kind in KINDS.items():
        if vhost is not None and kind in ("vhost", "user", "permission", "topic_permission"):
            continue
        for item in wanted.items(list_name):
            yield kind, _key_of(kind, item), item


def _by_name(definitions: dict[str, Any], _vhost: None) -> dict[tuple[str, tuple[str, ...]], Item]:
    return {
        (kind, _key_of(kind, item)): item
        for list_name, kind in KINDS.items()
        for item in definitions[list_name]
    }


def _key_of(kind: str, item: Item) -> tuple[str, ...]:
    names = KEYS.get(kind, ("vhost", "name"))
    return tuple(str(item.get(name, "")) for name in names)


SECRET = ("password_hash", "password")


def _change(
    action: str, kind: str, key: tuple[str, ...], there: Item | None, item: Item,
    differing: Iterable[str] = (),
) -> Item:  # fmt: skip
    def shown(values: Item) -> Item:
        names = differing or values
        return {
            name: "(hidden)" if name in SECRET else values.get(name)
            for name in values
            if name in names
        }

    change: Item = {
        "action": action, "kind": kind, "vhost": item.get("vhost"),
        "name": item.get("name") or " ".join(part for part in key[1:] if part),
        "from": None if there is None else shown(there), "to": shown(item),
    }  # fmt: skip
    if action == "conflict":
        change["reason"] = (
            f"the {kind} is there with another {', '.join(sorted(differing))}; it stays as it is"
        )
    return change
