"""Bringing definitions in.

Everything is checked first (checking.py), and if anything is wrong nothing is imported. An import
is made of parts in the order in which they need each other: vhosts, users, permissions, parameters,
policies, exchanges, queues, bindings. Each part is done in slices, and each slice is one
transaction of the metadata, with the node's other work in between. What is there already stays as
it is if it cannot be changed (queues, exchanges), as in RabbitMQ.
"""

from collections.abc import Callable
from typing import Any

from broker.amqp.errors import Fault
from broker.amqp.field_table import Table
from broker.auth.passwords import SHA256, hash_from_text
from broker.events import acting_user
from broker.limits import LimitError
from broker.names import QUEUE
from broker.parameters import (
    GLOBAL,
    NO_VHOST,
    OPERATOR_POLICY,
    POLICY,
    VHOST_LIMITS,
    VHOST_METADATA,
)
from broker.policy_keys import PolicyError
from broker.server import Broker
from broker.vhost import VirtualHost
from mgmt.definitions.checking import Checker, policy_of_item, reason_of
from mgmt.definitions.contents import Definitions, DefinitionsError, Item
from mgmt.definitions.exporting import DEFAULT_QUEUE_TYPE
from mgmt.slices import GiveWay
from mgmt.views.values import json_to_table
from storage.metadata_rows import PermissionRow, TopicPermissionRow

SLICE = 100
"""Items that are one transaction of the metadata."""


class Import:
    """One import. user: the name of who imports, if it is a user."""

    def __init__(
        self, broker: Broker, definitions: Definitions, give_way: GiveWay, user: str = ""
    ) -> None:
        self._broker = broker
        self._definitions = definitions
        self._give_way = give_way
        self._user_name = user
        self._parts: dict[str, Callable[[Item], None]] = {
            "vhosts": self._vhost, "users": self._user, "permissions": self._permission,
            "topic_permissions": self._topic_permission,
            "global_parameters": self._global_parameter, "parameters": self._parameter,
            "policies": self._policy, "exchanges": self._exchange, "queues": self._queue,
            "bindings": self._binding,
        }  # fmt: skip

    async def run(self) -> None:
        """Import. Raises DefinitionsError with all problems, before anything is changed."""
        problems = await Checker(self._broker, self._definitions, self._give_way).problems()
        if problems:
            raise DefinitionsError(problems[0].reason, problems)
        for kind in self._definitions.kinds():
            items = self._definitions.items(kind)
            for start in range(0, len(items), SLICE):
                self._import_slice(kind, items[start : start + SLICE])
                await self._give_way()

    def _import_slice(self, kind: str, items: list[Item]) -> None:
        """What was right before may have become wrong since, by others' work."""
        work = self._parts[kind]
        with self._broker.services.metadata.batch():
            for item in items:
                try:
                    work(item)
                except (PolicyError, LimitError, LookupError) as error:
                    raise DefinitionsError(f"{kind}: {error}") from None
                except Fault as fault:
                    raise DefinitionsError(reason_of(fault)) from None

    def _vhost(self, item: Item) -> None:
        broker, name = self._broker, item["name"]
        metadata = item.get("metadata") or {}
        description = str(item.get("description") or metadata.get("description") or "")
        tags = item.get("tags") or metadata.get("tags") or []
        joined = tags if isinstance(tags, str) else ",".join(tags)
        vhost = broker.services.vhosts.get(name)
        if vhost is None:
            broker.add_vhost(name, description, joined, self._user_name)
        elif (description, joined) != (vhost.description, vhost.tags):
            vhost.description, vhost.tags = description, joined
            broker.describe_vhost(vhost)
        queue_type = metadata.get("default_queue_type")
        if queue_type and queue_type != "undefined":
            broker.services.parameters.set(VHOST_METADATA, name, DEFAULT_QUEUE_TYPE, queue_type)

    def _user(self, item: Item) -> None:
        users = self._broker.services.users
        tags = item.get("tags") or []
        listed = [tag.strip() for tag in tags.split(",")] if isinstance(tags, str) else tags
        if item.get("password") is not None:
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
        else:
            services.parameters.set(component, vhost, name, value)

    def _policy(self, item: Item) -> None:
        self._broker.services.policies.set(POLICY, policy_of_item(item))

    def _in(self, item: Item) -> VirtualHost:
        return self._broker.services.vhosts[item["vhost"]]

    def _exchange(self, item: Item) -> None:
        vhost, name = self._in(item), item["name"]
        if name in vhost.exchanges or name.startswith("amq."):
            return
        vhost.declare_exchange(
            name, item["type"], bool(item.get("durable", True)),
            bool(item.get("auto_delete", False)), bool(item.get("internal", False)),
            _table(item), acting_user.get(),
        )  # fmt: skip

    def _queue(self, item: Item) -> None:
        vhost, name = self._in(item), item["name"]
        if name not in vhost.queues:
            is_durable, is_auto_delete = item.get("durable", True), item.get("auto_delete", False)
            vhost.declare_queue(
                name, bool(is_durable), bool(is_auto_delete), _table(item), user=acting_user.get()
            )

    def _binding(self, item: Item) -> None:
        vhost = self._in(item)
        to_queue = item.get("destination_type", QUEUE) == QUEUE
        ends: Any = vhost.queues if to_queue else vhost.exchanges
        if item["source"]:
            source, destination = vhost.exchanges[item["source"]], ends[item["destination"]]
            routing_key = item.get("routing_key") or ""
            vhost.bind(source, destination, routing_key, _table(item), acting_user.get())


def _table(item: Item) -> Table:
    return json_to_table(item.get("arguments") or {})
