"""The declarations that add an item of definitions, or change the existing one.

As in RabbitMQ, existing queues and exchanges are left unchanged.
"""

from collections.abc import Callable, Iterator

from leveret.broker.amqp.field_table import encode_table
from leveret.broker.amqp.json_tables import json_to_table
from leveret.broker.auth.passwords import SHA256, hash_from_text
from leveret.broker.auth.users import with_hash, with_password
from leveret.broker.declarations.values import (
    Declaration,
    Permission,
    PutBinding,
    PutExchange,
    PutParameter,
    PutPermission,
    PutPolicy,
    PutTopicPermission,
    PutUser,
    PutVhost,
    TopicPermission,
)
from leveret.broker.policies.parameters import (
    DEFAULT_QUEUE_TYPE,
    GLOBAL,
    NO_VHOST,
    OPERATOR_POLICY,
    POLICY,
    UNROUTABLE_HANDLINGS,
    UNROUTABLE_PUBLISHES,
    VHOST_LIMITS,
    VHOST_METADATA,
)
from leveret.broker.runtime.names import QUEUE
from leveret.mgmt.definitions.checking import policy_of_item
from leveret.mgmt.definitions.contents import Item
from leveret.mgmt.definitions.users import permissions_of, tags_of
from leveret.mgmt.node_facade.facade import NodeFacade


class ItemDeclarations:
    """Makes declarations, of an acting user, for items that have passed a check.

    of: the functions that make them, by the names of the lists of definitions. They can still raise
    PolicyError, LimitError, UserError, LookupError and Fault, since an object may have been deleted
    after the check.
    """

    def __init__(self, node: NodeFacade, acting_user: str) -> None:
        self._node = node
        self._acting_user = acting_user
        self.of: dict[str, Callable[[Item], Iterator[Declaration]]] = {
            "vhosts": self._vhost, "users": self._user, "permissions": self._permission,
            "topic_permissions": self._topic_permission,
            "global_parameters": self._global_parameter, "parameters": self._parameter,
            "policies": self._policy, "exchanges": self._exchange, "queues": self._queue,
            "bindings": self._binding,
        }  # fmt: skip

    def _vhost(self, item: Item) -> Iterator[Declaration]:
        node, name = self._node, item["name"]
        metadata = item.get("metadata") or {}
        description = str(item.get("description") or metadata.get("description") or "")
        tags = item.get("tags") or metadata.get("tags") or []
        joined = tags if isinstance(tags, str) else ",".join(tags)
        vhost = node.vhost(name)
        if vhost is None:
            yield from node.new_vhost(name, description, joined, self._acting_user)
        elif (description, joined) != (vhost.description, vhost.tags):
            yield PutVhost(name, description, joined)
        queue_type = metadata.get("default_queue_type")
        if queue_type and queue_type != "undefined":
            yield PutParameter(VHOST_METADATA, name, DEFAULT_QUEUE_TYPE, queue_type)
        unroutable = metadata.get("unroutable_publishes")
        if unroutable in UNROUTABLE_HANDLINGS:
            yield PutParameter(VHOST_METADATA, name, UNROUTABLE_PUBLISHES, unroutable)

    def _user(self, item: Item) -> Iterator[Declaration]:
        name, tags = item["name"], tags_of(item) or []
        if item.get("password") is not None:
            user = with_password(name, item["password"], tags)
        else:
            user = with_hash(
                name, hash_from_text(item.get("password_hash") or ""),
                item.get("hashing_algorithm") or SHA256, tags,
            )  # fmt: skip
        yield PutUser(user)
        permissions = item.get("permissions")
        vhosts = self._node.vhost_names() if permissions else []
        for permission in permissions_of(name, permissions, vhosts):
            yield PutPermission(permission)
        if item.get("limits"):
            limits = self._node.limits
            yield limits.with_user_limits(name, item["limits"], self._acting_user)

    def _permission(self, item: Item) -> Iterator[Declaration]:
        permission = Permission(
            item["vhost"], item["user"], item["configure"], item["write"], item["read"]
        )
        yield PutPermission(permission)

    def _topic_permission(self, item: Item) -> Iterator[Declaration]:
        permission = TopicPermission(
            item["vhost"], item["user"], item["exchange"], item["write"], item["read"]
        )
        yield PutTopicPermission(permission)

    def _global_parameter(self, item: Item) -> Iterator[Declaration]:
        yield PutParameter(GLOBAL, NO_VHOST, item["name"], item["value"])

    def _parameter(self, item: Item) -> Iterator[Declaration]:
        component, vhost, name, value = (
            item["component"], item["vhost"], item["name"], item["value"]
        )  # fmt: skip
        if component == VHOST_LIMITS:
            yield self._node.limits.with_vhost_limits(vhost, value, self._acting_user)
        elif component in (POLICY, OPERATOR_POLICY):
            policy = policy_of_item({**value, "vhost": vhost, "name": name})
            yield PutPolicy(component, policy)
        else:
            yield PutParameter(component, vhost, name, value)

    def _policy(self, item: Item) -> Iterator[Declaration]:
        yield PutPolicy(POLICY, policy_of_item(item))

    def _in(self, item: Item) -> str:
        """The item's vhost. Raises KeyError if it was deleted since the check."""
        vhost = str(item["vhost"])
        if not self._node.has_vhost(vhost):
            raise KeyError(vhost)
        return vhost

    def _exchange(self, item: Item) -> Iterator[Declaration]:
        vhost, name = self._in(item), item["name"]
        if not self._node.has_exchange(vhost, name) and not name.startswith("amq."):
            yield PutExchange(
                vhost, name, item["type"], bool(item.get("durable", True)),
                bool(item.get("auto_delete", False)), bool(item.get("internal", False)),
                _arguments(item),
            )  # fmt: skip

    def _queue(self, item: Item) -> Iterator[Declaration]:
        vhost, name = self._in(item), item["name"]
        if not self._node.has_queue(vhost, name):
            yield self._node.new_queue(
                vhost, name, json_to_table(item.get("arguments") or {}),
                durable=bool(item.get("durable", True)),
                auto_delete=bool(item.get("auto_delete", False)),
            )  # fmt: skip

    def _binding(self, item: Item) -> Iterator[Declaration]:
        if item["source"]:
            yield PutBinding(
                item["vhost"], item["source"], item["destination"], item.get("routing_key") or "",
                item.get("destination_type", QUEUE), _arguments(item),
            )  # fmt: skip


def _arguments(item: Item) -> bytes:
    return encode_table(json_to_table(item.get("arguments") or {}))
