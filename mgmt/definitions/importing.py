"""The import of definitions.

Everything is checked first (checking.py); if there is any problem, nothing is imported. The lists
are imported in the order of their dependencies: vhosts, users, permissions, parameters, policies,
exchanges, queues, bindings. Each is imported in slices, between which the node does its other work;
each slice is one transaction of the metadata. As in RabbitMQ, queues and exchanges that exist
already are left unchanged.
"""

from collections.abc import Callable, Iterator

from msgspec.structs import replace

from leveret.broker.amqp.errors import Fault
from leveret.broker.amqp.field_table import decode_table, encode_table
from leveret.broker.amqp.json_tables import json_to_table
from leveret.broker.audit import Act
from leveret.broker.auth.passwords import SHA256, hash_from_text
from leveret.broker.auth.users import with_hash, with_password
from leveret.broker.declarations import (
    Declaration,
    Permission,
    PutBinding,
    PutExchange,
    PutParameter,
    PutPermission,
    PutPolicy,
    PutQueue,
    PutTopicPermission,
    PutUser,
    PutVhost,
    TopicPermission,
)
from leveret.broker.names import QUEUE
from leveret.broker.pending_in_task import given_in_task, in_task
from leveret.broker.policies.limits import LimitError
from leveret.broker.policies.parameters import (
    GLOBAL,
    NO_VHOST,
    OPERATOR_POLICY,
    POLICY,
    VHOST_LIMITS,
    VHOST_METADATA,
)
from leveret.broker.policies.policy_keys import PolicyError
from leveret.broker.requester import DEFINITIONS, NODE, THE_NODE, Requester
from leveret.broker.server import Broker
from leveret.broker.vhost import VirtualHost
from leveret.mgmt.definitions.checking import Checker, policy_of_item, reason_of
from leveret.mgmt.definitions.contents import Definitions, DefinitionsError, Item, is_left_out
from leveret.mgmt.definitions.exporting import DEFAULT_QUEUE_TYPE
from leveret.mgmt.definitions.users import UserError, permissions_of, tags_of
from leveret.mgmt.slices import GiveWay

SLICE = 25
"""Items in one transaction of the metadata: two milliseconds of work or so."""


class Import:
    """One import. requester: who imports; the node itself at its start."""

    def __init__(
        self,
        broker: Broker,
        definitions: Definitions,
        give_way: GiveWay,
        requester: Requester = THE_NODE,
    ) -> None:
        self._broker = broker
        self._definitions = definitions
        self._give_way = give_way
        self._requester = requester
        self._acting_user = requester.user
        self._of_items = replace(requester, way=DEFINITIONS if requester.way != NODE else NODE)
        self._parts: dict[str, Callable[[Item], Iterator[Declaration]]] = {
            "vhosts": self._vhost, "users": self._user, "permissions": self._permission,
            "topic_permissions": self._topic_permission,
            "global_parameters": self._global_parameter, "parameters": self._parameter,
            "policies": self._policy, "exchanges": self._exchange, "queues": self._queue,
            "bindings": self._binding,
        }  # fmt: skip

    async def run(self) -> None:
        """Run it; all of it is on disk then.

        Raises DefinitionsError with all problems before anything is changed.
        """
        problems = await Checker(self._broker, self._definitions, self._give_way).problems()
        if problems:
            raise DefinitionsError(problems[0].reason, problems)
        self._note()
        for kind in self._definitions.kinds():
            items = self._definitions.items(kind)
            for start in range(0, len(items), SLICE):
                some = items[start : start + SLICE]
                await self._import_slice(kind, [one for one in some if not is_left_out(kind, one)])
                await self._give_way()
        await in_task(self._broker.services.declarations.synced())

    def _note(self) -> None:
        definitions, user = self._definitions, self._requester.user
        found = {kind: len(definitions.items(kind)) for kind in definitions.kinds()}
        counts = {kind: count for kind, count in found.items() if count}
        listed = ", ".join(f"{count} {kind.replace('_', ' ')}" for kind, count in counts.items())
        text = f"Asked to import definitions. Acting user: {user}. They have {listed or 'nothing'}"
        act = Act("definitions.imported", "definitions", "", text, detail=dict(counts))
        self._broker.services.audit.note(self._requester, act)

    async def _import_slice(self, kind: str, items: list[Item]) -> None:
        """Import items. Raises DefinitionsError: other changes may have made one invalid since."""
        declarations = self._parts[kind]
        submit = self._broker.services.declarations.submit
        try:
            made = [one for item in items for one in declarations(item)]
            made = [replace(one, acting_user=self._acting_user) for one in made]
            await given_in_task(submit(*made, requester=self._of_items))
        except (PolicyError, LimitError, UserError, LookupError) as error:
            raise DefinitionsError(f"{kind}: {error}") from None
        except Fault as fault:
            raise DefinitionsError(reason_of(fault)) from None

    def _vhost(self, item: Item) -> Iterator[Declaration]:
        services, name = self._broker.services, item["name"]
        metadata = item.get("metadata") or {}
        description = str(item.get("description") or metadata.get("description") or "")
        tags = item.get("tags") or metadata.get("tags") or []
        joined = tags if isinstance(tags, str) else ",".join(tags)
        vhost = services.vhosts.get(name)
        if vhost is None:
            yield from services.registry.new_vhost(name, description, joined, self._acting_user)
        elif (description, joined) != (vhost.description, vhost.tags):
            yield PutVhost(name, description, joined)
        queue_type = metadata.get("default_queue_type")
        if queue_type and queue_type != "undefined":
            yield PutParameter(VHOST_METADATA, name, DEFAULT_QUEUE_TYPE, queue_type)

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
        vhosts = self._broker.services.vhosts
        for permission in permissions_of(name, item.get("permissions"), vhosts):
            yield PutPermission(permission)
        if item.get("limits"):
            limits = self._broker.services.limits
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
            yield self._broker.services.limits.with_vhost_limits(vhost, value, self._acting_user)
        elif component in (POLICY, OPERATOR_POLICY):
            policy = policy_of_item({**value, "vhost": vhost, "name": name})
            yield PutPolicy(component, policy)
        else:
            yield PutParameter(component, vhost, name, value)

    def _policy(self, item: Item) -> Iterator[Declaration]:
        yield PutPolicy(POLICY, policy_of_item(item))

    def _in(self, item: Item) -> VirtualHost:
        return self._broker.services.vhosts[item["vhost"]]

    def _exchange(self, item: Item) -> Iterator[Declaration]:
        vhost, name = self._in(item), item["name"]
        if name not in vhost.exchanges and not name.startswith("amq."):
            yield PutExchange(
                vhost.name, name, item["type"], bool(item.get("durable", True)),
                bool(item.get("auto_delete", False)), bool(item.get("internal", False)),
                _arguments(item),
            )  # fmt: skip

    def _queue(self, item: Item) -> Iterator[Declaration]:
        vhost, name = self._in(item), item["name"]
        if name not in vhost.queues:
            arguments = _arguments(item)
            home = vhost.choose_home(name, decode_table(arguments)[0])
            yield PutQueue(
                vhost.name, name, bool(item.get("durable", True)),
                bool(item.get("auto_delete", False)), arguments,
                node=home.node, identity=home.identity,
            )  # fmt: skip

    def _binding(self, item: Item) -> Iterator[Declaration]:
        if item["source"]:
            yield PutBinding(
                item["vhost"], item["source"], item["destination"], item.get("routing_key") or "",
                item.get("destination_type", QUEUE), _arguments(item),
            )  # fmt: skip


def _arguments(item: Item) -> bytes:
    return encode_table(json_to_table(item.get("arguments") or {}))
