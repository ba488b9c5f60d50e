"""Checks of definitions, made before any of them is imported.

Every item is checked: it must have the fields of its kind with the right types; the vhosts,
exchanges and queues that it names must exist or be in the definitions; arguments, patterns and
values must be valid. Each problem is reported with its path (`queues[3].arguments.x-max-length`),
and with RabbitMQ's reason where it has one.
"""

import html
import re
from collections.abc import Callable, Iterator
from typing import Any

from leveret.broker.amqp.errors import Fault
from leveret.broker.amqp.field_table import Table
from leveret.broker.amqp.json_tables import json_to_table
from leveret.broker.amqp.reply_codes import NAMES
from leveret.broker.auth.passwords import ALGORITHMS, hash_from_text
from leveret.broker.auth.permissions import check_pattern
from leveret.broker.declarations.values import Policy
from leveret.broker.erlang.terms import format_term
from leveret.broker.exchanges import EXCHANGE_TYPES, create_exchange_type
from leveret.broker.exchanges.exchange_type import ExchangeType
from leveret.broker.policies.limits import OF_USERS, OF_VHOSTS, LimitError, check_limits
from leveret.broker.policies.parameter_checks import CHECKED_COMPONENTS, check_parameter
from leveret.broker.policies.parameter_validation import ParameterError
from leveret.broker.policies.parameters import (
    OPERATOR_POLICY,
    POLICY,
    UNROUTABLE_HANDLINGS,
    VHOST_LIMITS,
)
from leveret.broker.policies.policy_keys import PolicyError
from leveret.broker.policies.policy_table import check_policy
from leveret.broker.queues.contract.queue_kind import QueueKind
from leveret.broker.runtime.names import EXCHANGE, QUEUE
from leveret.broker.vhost.virtual_host import PREDECLARED_EXCHANGES
from leveret.mgmt.definitions.contents import (
    DEFINITION,
    DefinitionLists,
    ImportProblem,
    Item,
    fields_missing,
    is_left_out,
    misshapen,
)
from leveret.mgmt.definitions.users import UserError, permissions_of, tags_of
from leveret.mgmt.node_facade.facade import NodeFacade
from leveret.mgmt.slices import GiveWay

NAME_BYTES_MAX = 255
PREDECLARED = {name: type_name for name, type_name, _ in PREDECLARED_EXCHANGES}


class Checker:
    """The check of one file of definitions against one broker."""

    def __init__(self, node: NodeFacade, definitions: DefinitionLists, give_way: GiveWay) -> None:
        self._node = node
        self._give_way = give_way
        self._definitions = definitions
        self._checks: dict[str, Callable[[Item], Iterator[ImportProblem]]] = {
            "vhosts": self._vhost, "users": self._user, "permissions": self._permission,
            "topic_permissions": self._permission, "global_parameters": _nothing,
            "parameters": self._parameter, "policies": self._policy,
            "exchanges": self._exchange, "queues": self._queue, "bindings": self._binding,
        }  # fmt: skip
        self._vhosts = set(node.vhost_names()) | self._named("vhosts")
        self._users = {user.name for user in node.users} | self._named("users")
        self._queues: dict[tuple[str, str], Item] = {}
        self._types: dict[tuple[str, str], Any] = {}
        self._sources: dict[tuple[str, str], ExchangeType | None] = {}

    def _named(self, kind: str) -> set[str]:
        if self._definitions.vhost is not None:
            return set()
        return {str(item.get("name")) for item in self._definitions.items(kind)}

    async def problems(self) -> list[ImportProblem]:
        """All problems, in the order of the file's lists."""
        for item in self._definitions.items("queues"):
            self._queues[_place(item)] = item
            await self._give_way()
        for item in self._definitions.items("exchanges"):
            self._types[_place(item)] = item.get("type")
            await self._give_way()
        found: list[ImportProblem] = []
        for kind in self._definitions.kinds():
            for number, item in enumerate(self._definitions.items(kind)):
                if not is_left_out(kind, item):
                    found += [
                        ImportProblem(f"{kind}[{number}]{path}", reason)
                        for path, reason in self._of_item(kind, item)
                    ]
                await self._give_way()
        return found

    def _of_item(self, kind: str, item: Item) -> Iterator[ImportProblem]:
        lacking = list(misshapen(item, kind))
        if lacking:
            yield from lacking
        elif "vhost" in item and item["vhost"] not in self._vhosts:
            yield ImportProblem(".vhost", ["no_such_vhost", item["vhost"]])
        else:
            yield from self._checks[kind](item)

    # Each kind

    def _vhost(self, item: Item) -> Iterator[ImportProblem]:
        yield from _bad_tags(item)
        if not item["name"]:
            yield ImportProblem(".name", "a vhost's name must not be empty")
        unroutable = (item.get("metadata") or {}).get("unroutable_publishes")
        if unroutable not in (None, *UNROUTABLE_HANDLINGS):
            names = ", ".join(UNROUTABLE_HANDLINGS)
            yield ImportProblem(".metadata.unroutable_publishes", f"must be one of {names}")

    def _user(self, item: Item) -> Iterator[ImportProblem]:
        try:
            tags_of(item)
            list(permissions_of(item["name"], item.get("permissions"), self._vhosts))
        except UserError as error:
            yield ImportProblem(error.path, error.reason)
        if not item["name"]:
            yield ImportProblem(".name", "a user's name must not be empty")
        if item.get("password") is not None and item.get("password_hash") is not None:
            yield ImportProblem(".password_hash", "both_password_and_password_hash_are_provided")
        try:
            hash_from_text(item.get("password_hash") or "")
        except ValueError:
            yield ImportProblem(".password_hash", ["not_base64", "password_hash"])
        if item.get("hashing_algorithm") not in (None, *ALGORITHMS):
            yield ImportProblem(
                ".hashing_algorithm", f"should be one of: {', '.join(ALGORITHMS)}"
            )  # fmt: skip
        yield from _bad_limits(".limits", item.get("limits") or {}, OF_USERS)

    def _permission(self, item: Item) -> Iterator[ImportProblem]:
        if item["user"] not in self._users:
            yield ImportProblem(".user", ["no_such_user", item["user"]])
        for name in ("configure", "write", "read"):
            try:
                check_pattern(item.get(name, ""))
            except re.error as error:
                yield ImportProblem(f".{name}", ["invalid_regexp", item[name], str(error)])

    def _parameter(self, item: Item) -> Iterator[ImportProblem]:
        component, value = item["component"], item["value"]
        if component == VHOST_LIMITS:
            yield from _bad_limits(".value", value, OF_VHOSTS)
        elif component in (POLICY, OPERATOR_POLICY):
            is_operator = component == OPERATOR_POLICY
            for path, reason in self._bad_policy_value(item, value, is_operator=is_operator):
                yield ImportProblem(f".value{path}", reason)
        elif component not in CHECKED_COMPONENTS:
            yield ImportProblem(".component", _refused(f"component {component} not found", item))
        else:
            try:
                check_parameter(component, item["name"], value)
            except ParameterError as error:
                yield ImportProblem(".value", _refused(str(error), item))

    def _policy(self, item: Item) -> Iterator[ImportProblem]:
        yield from self._bad_policy(item, is_operator=False)

    def _bad_policy_value(
        self, item: Item, value: Any, *, is_operator: bool
    ) -> Iterator[ImportProblem]:
        """Check a policy that is written as a parameter."""
        if not isinstance(value, dict):
            yield ImportProblem("", "should be an object")
            return
        lacking = list(fields_missing(value, DEFINITION))
        yield from lacking
        if not lacking:
            named = {**value, "vhost": item["vhost"], "name": item["name"]}
            yield from self._bad_policy(named, is_operator=is_operator)

    def _bad_policy(self, item: Item, *, is_operator: bool) -> Iterator[ImportProblem]:
        try:
            check_policy(
                policy_of_item(item), is_operator,
                may_lift_limits=self._node.config.is_as_rabbitmq_4,
            )  # fmt: skip
        except PolicyError as error:
            yield ImportProblem(
                f".{error.field}" if error.field else "", _refused(str(error), item)
            )

    def _exchange(self, item: Item) -> Iterator[ImportProblem]:
        yield from _long_name(".name", item["name"])
        arguments, problems = _table(item)
        yield from problems
        if item["type"] not in EXCHANGE_TYPES:
            yield ImportProblem(".type", f"command_invalid: invalid exchange type '{item['type']}'")
            return
        try:
            create_exchange_type(item["type"], arguments)
        except Fault as fault:
            yield ImportProblem(".arguments", reason_of(fault))

    def _queue(self, item: Item) -> Iterator[ImportProblem]:
        yield from _long_name(".name", item["name"])
        arguments, problems = _table(item)
        yield from problems
        while True:
            try:
                self._node.check_queue_arguments(arguments, item["name"], item["vhost"])
                return
            except Fault as fault:
                yield ImportProblem(f".arguments.{_blamed(fault)}", reason_of(fault))
                del arguments[_blamed(fault)]

    def _binding(self, item: Item) -> Iterator[ImportProblem]:
        arguments, problems = _table(item)
        yield from problems
        kind, vhost = item.get("destination_type", QUEUE), item["vhost"]
        if kind not in (QUEUE, EXCHANGE):
            yield ImportProblem(".destination_type", "should be queue or exchange")
        elif not self._has(kind, vhost, item["destination"]):
            yield ImportProblem(
                ".destination", f"no {kind} '{item['destination']}' in vhost '{vhost}'"
            )
        if not item["source"]:
            return
        if not self._has(EXCHANGE, vhost, item["source"]):
            yield ImportProblem(".source", f"no exchange '{item['source']}' in vhost '{vhost}'")
            return
        source = self._source(vhost, item["source"])
        if source is not None:
            try:
                source.validate_binding(item.get("routing_key", ""), arguments)
                source.validate_destination(self._kind(vhost, item["destination"], kind))
            except Fault as fault:
                yield ImportProblem("", reason_of(fault))

    def _kind(self, vhost: str, name: str, kind: str) -> QueueKind | None:
        """The kind of a destination that is a queue."""
        if kind != QUEUE:
            return None
        arguments, _ = _table(self._queues.get((vhost, name), {}))
        return self._node.queue_kind(vhost, name, arguments)

    def _has(self, kind: str, vhost: str, name: str) -> bool:
        if kind == QUEUE:
            return (vhost, name) in self._queues or self._node.has_queue(vhost, name)
        if (vhost, name) in self._types or name in PREDECLARED:
            return True
        return self._node.has_exchange(vhost, name)

    def _source(self, vhost: str, name: str) -> ExchangeType | None:
        """The exchange whose type checks bindings: the existing one, or one as defined here."""
        place = vhost, name
        if place not in self._sources:
            there = self._node.exchange(vhost, name)
            self._sources[place] = (
                self._new_type(place)
                if there is None
                else create_exchange_type(there.type, there.arguments)
            )
        return self._sources[place]

    def _new_type(self, place: tuple[str, str]) -> ExchangeType | None:
        """The type of a new exchange, without its arguments, on which bindings do not depend."""
        type_name = self._types.get(place) or PREDECLARED.get(place[1])
        if type_name is None or type_name not in EXCHANGE_TYPES:
            return None
        try:
            return create_exchange_type(type_name, {})
        except Fault:
            return None


def _place(item: Item) -> tuple[str, str]:
    return str(item.get("vhost")), str(item.get("name"))


def _nothing(_item: Item) -> Iterator[ImportProblem]:
    yield from ()


def _bad_tags(item: Item) -> Iterator[ImportProblem]:
    tags = item.get("tags")
    if isinstance(tags, list) and not all(isinstance(tag, str) for tag in tags):
        yield ImportProblem(".tags", "should be a list of texts, or a text with commas")


def _bad_limits(path: str, limits: Any, known: tuple[str, ...]) -> Iterator[ImportProblem]:
    """Check the limits of a vhost. Older files have an empty list for none."""
    if limits == []:
        return
    if not isinstance(limits, dict):
        yield ImportProblem(path, "should be an object")
        return
    for name, value in limits.items():
        try:
            check_limits({name: value}, known)
        except LimitError as error:
            yield ImportProblem(f"{path}.{name}", f"Validation failed\n\n{error}\n")


def policy_of_item(item: Item) -> Policy:
    """Check a policy."""
    return Policy(
        item["vhost"], item["name"], item["pattern"], item.get("apply-to") or "all",
        item["definition"], item.get("priority") or 0,
    )  # fmt: skip


def _refused(text: str, item: Item) -> str:
    """The reason for a parameter or policy, which RabbitMQ prints as an Erlang exit term."""
    component = f"/{item['component']}" if "component" in item else ""
    where = f"({item['vhost']}{component}/{item['name']})"
    return format_term(f"Validation failed\n\n{html.escape(text, quote=False)}\n {where}")


def _table(item: Item) -> tuple[Table, list[ImportProblem]]:
    """The arguments as a field table. Those that it cannot hold are left out and reported."""
    arguments = item.get("arguments") or {}
    nulls = [name for name, value in arguments.items() if value is None]
    kept = {name: value for name, value in arguments.items() if value is not None}
    problems = [ImportProblem(f".arguments.{name}", "null_not_allowed") for name in nulls]
    try:
        return json_to_table(kept), problems
    except ValueError as error:
        return {}, [*problems, ImportProblem(".arguments", str(error))]


def _long_name(path: str, name: str) -> Iterator[ImportProblem]:
    if len(name.encode("utf-8", "surrogateescape")) > NAME_BYTES_MAX:
        yield ImportProblem(path, f"should have at most {NAME_BYTES_MAX} bytes")


_ARGUMENT = re.compile(r"arg '([^']*)'")


def _blamed(fault: Fault) -> str:
    """The argument that the text of a refused declaration names."""
    found = _ARGUMENT.search(fault.explanation)
    assert found is not None, fault.explanation
    return found.group(1)


def reason_of(fault: Fault) -> str:
    """`precondition_failed: ...`."""
    return f"{NAMES[fault.reply_code].lower()}: {fault.explanation}"
