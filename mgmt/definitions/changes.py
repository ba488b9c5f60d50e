"""The changes that an import would make, for `--dry-run` and the preview in the pages."""

from collections.abc import Iterable, Iterator
from typing import Any

from leveret.mgmt.definitions.checking import Checker
from leveret.mgmt.definitions.contents import DefinitionLists, Item, is_left_out
from leveret.mgmt.definitions.exporting import export
from leveret.mgmt.definitions.users import UserError, tags_of
from leveret.mgmt.node_facade.facade import NodeFacade
from leveret.mgmt.slices import GiveWay


async def changes(node: NodeFacade, wanted: DefinitionLists, give_way: GiveWay) -> dict[str, Any]:
    """The effect of an import: `{"changes": [...], "unchanged": n, "problems": [...]}`.

    If there are problems, the import would be refused.
    """
    problems = await Checker(node, wanted, give_way).problems()
    current = await _by_name(await export(node, give_way), give_way)
    found: list[Item] = []
    unchanged = 0
    for kind, key, item in _named(wanted):
        await give_way()
        there = current.get((kind, key))
        if there is None:
            found.append(_change("add", kind, key, None, item))
            continue
        differing = {
            name for name in item.keys() & there.keys() if not _is_same(kind, name, item, there)
        }
        if not differing:
            unchanged += 1
            continue
        action = "conflict" if kind in ("queue", "exchange") else "change"
        found.append(_change(action, kind, key, there, item, differing))
    return {
        "changes": found, "unchanged": unchanged,
        "problems": [problem._asdict() for problem in problems],
    }  # fmt: skip


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


def _named(wanted: DefinitionLists) -> Iterator[tuple[str, tuple[str, ...], Item]]:
    for list_name in wanted.kinds():
        kind = KINDS[list_name]
        for item in wanted.items(list_name):
            if not is_left_out(list_name, item):
                yield kind, _key_of(kind, item), item


async def _by_name(
    definitions: dict[str, Any], give_way: GiveWay
) -> dict[tuple[str, tuple[str, ...]], Item]:
    found = {}
    for list_name, kind in KINDS.items():
        for item in definitions[list_name]:
            found[kind, _key_of(kind, item)] = item
            await give_way()
    return found


def _key_of(kind: str, item: Item) -> tuple[str, ...]:
    names = KEYS.get(kind, ("vhost", "name"))
    return tuple(str(item.get(name, "")) for name in names)


def _is_same(kind: str, name: str, item: Item, there: Item) -> bool:
    """Whether a field has one value in both. RabbitMQ before 3.9 has tags of users as a text."""
    if (kind, name) != ("user", "tags"):
        return bool(item[name] == there[name])
    try:
        return tags_of(item) == tags_of(there)
    except UserError:
        return False


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
        names = ", ".join(sorted(differing))
        change["reason"] = f"the {kind} exists with different {names} and will not be changed"
    return change
