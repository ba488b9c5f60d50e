"""The differences between the definitions of a standby and those of its upstream. Pure.

Items are compared in one form, independent of the exporter: a missing field has its default, tags
and limits have one shape each, and arguments are reduced to those that a field table can hold. A
field that the upstream does not export, such as the description of a vhost in RabbitMQ 3.10, does
not differ.

The standby follows objects that survive a restart of the upstream and do not delete themselves:
durable exchanges and queues without auto-delete, and bindings between them. The cluster keeps its
own name and id, and its local users with their permissions.

The order of additions and changes is that of an import, so that an item comes after those that it
names; deletions follow in the reverse order. In a vhost that the upstream lacks, only the queues
are deleted one by one: if one is kept, the rest of the vhost is also kept. A queue or exchange that
differs is deleted and declared again, since it cannot be changed, and so are its bindings.
"""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import msgspec

from leveret.broker.amqp.json_form import table_to_json
from leveret.broker.amqp.json_tables import json_to_table
from leveret.broker.policies.parameters import CLUSTER_NAME, INTERNAL_CLUSTER_ID
from leveret.broker.policies.schema_replication import KINDS, UpstreamSetting
from leveret.broker.runtime.names import EXCHANGE, QUEUE, RESERVED_PREFIX
from leveret.mgmt.definitions.contents import Item, is_left_out, misshapen
from leveret.mgmt.definitions.users import UserError, tags_of
from leveret.mgmt.slices import GiveWay

OWN_PARAMETERS = (CLUSTER_NAME, INTERNAL_CLUSTER_ID)
"""Global parameters that identify a cluster."""
KEYS = {
    "vhosts": ("name",), "users": ("name",), "permissions": ("vhost", "user"),
    "topic_permissions": ("vhost", "user", "exchange"), "global_parameters": ("name",),
    "parameters": ("vhost", "component", "name"), "policies": ("vhost", "name"),
    "exchanges": ("vhost", "name"), "queues": ("vhost", "name"),
    "bindings": ("vhost", "source", "destination_type", "destination", "routing_key"),
}  # fmt: skip
"""The fields that name an item. The arguments of a binding are part of its name, too."""
REPLACED_KINDS = ("exchanges", "queues")
NOT_TOLD = None
"""The value of a field that an export does not contain."""

Key = tuple[str, ...]
Lists = dict[str, dict[Key, Item]]
"""The items of each kind, by their keys."""


class ComparedItem(NamedTuple):
    """An item of a kind (a list of definitions), with its key. is_change: the standby has one."""

    kind: str
    key: Key
    item: Item
    is_change: bool = False


class Difference:
    """The changes that a standby has to make.

    puts: items to add or to change, in order. replaced: exchanges and queues to delete before that,
    as their properties differ. deletions: items to delete, in order. own_count: the number of
    followed items of the standby. lacked_count: the number of these that the upstream lacks.
    upstream: its followed items.
    """

    def __init__(self) -> None:
        self.puts: list[ComparedItem] = []
        self.replaced: list[ComparedItem] = []
        self.deletions: list[ComparedItem] = []
        self.own_count = self.lacked_count = 0
        self.upstream: Lists = {}

    @property
    def is_empty(self) -> bool:
        """Whether there is no difference."""
        return not self.puts and not self.deletions


async def difference(
    own: dict[str, Any], wanted: dict[str, list[Item]], setting: UpstreamSetting, give_way: GiveWay
) -> Difference:
    """The differences between two definitions in followed items. own: the standby's definitions."""
    here: Lists = {}
    there: Lists = {}
    for kind in KINDS:
        if kind in setting.kinds:
            here[kind] = await _followed(kind, own.get(kind) or (), own, setting, give_way)
            there[kind] = await _followed(kind, wanted.get(kind) or (), wanted, setting, give_way)
    found = Difference()
    found.own_count = sum(map(len, here.values()))
    found.upstream = there
    for kind in here:
        await _compare(kind, here[kind], there[kind], found, give_way)
    for kind in reversed(here):
        await _find_deletions(kind, here, there, found, give_way)
    return found


async def _find_deletions(
    kind: str, here: Lists, there: Lists, found: Difference, give_way: GiveWay
) -> None:
    """Find items that the upstream lacks. A vhost without queues is deleted with its contents."""
    vhosts, kept_vhosts = here.get("vhosts", {}), there.get("vhosts", {})
    for key, item in here[kind].items():
        await give_way()
        if key in there[kind]:
            continue
        found.lacked_count += 1
        vhost = (item.get("vhost"),)
        goes_with_vhost = vhost in vhosts and vhost not in kept_vhosts and kind != "queues"
        if not goes_with_vhost:
            found.deletions.append(ComparedItem(kind, key, item))


async def _compare(
    kind: str, here: dict[Key, Item], there: dict[Key, Item], found: Difference, give_way: GiveWay
) -> None:
    replaced = {(one.kind, one.key) for one in found.replaced} if kind == "bindings" else set()
    for key, item in there.items():
        await give_way()
        before = here.get(key)
        is_same = before is not None and _is_same(kind, before, item)
        if is_same and not (replaced and any(end in replaced for end in _ends(item))):
            continue
        if before is not None and kind in REPLACED_KINDS:
            found.replaced.append(ComparedItem(kind, key, before))
        found.puts.append(ComparedItem(kind, key, item, before is not None))


def _ends(binding: Item) -> Iterator[tuple[str, Key]]:
    """The exchange and the queue or exchange that a binding connects."""
    yield "exchanges", (binding["vhost"], binding["source"])
    is_queue = binding.get("destination_type", QUEUE) == QUEUE
    yield "queues" if is_queue else "exchanges", (binding["vhost"], binding["destination"])


# Followed items


async def _followed(
    kind: str, items: Iterable[Item], all_items: dict[str, Any], setting: UpstreamSetting,
    give_way: GiveWay,
) -> dict[Key, Item]:  # fmt: skip
    """The followed items of a kind, by their keys. Items without a name are left out."""
    found = {}
    unstable = await _unstable(all_items, give_way) if kind == "bindings" else set()
    for item in items:
        await give_way()
        if next(misshapen(item, kind), None) is not None or not _is_followed(kind, item, setting):
            continue
        if unstable and any(end in unstable for end in _ends(item)):
            continue
        found[key_of(kind, item)] = item
    return found


def _is_followed(kind: str, item: Item, setting: UpstreamSetting) -> bool:
    vhost = item["name"] if kind == "vhosts" else item.get("vhost")
    if vhost is not None and not setting.has_vhost(vhost):
        return False
    if kind == "global_parameters":
        return item["name"] not in OWN_PARAMETERS
    if kind in ("users", "permissions", "topic_permissions"):
        return item["name" if kind == "users" else "user"] not in setting.local_users
    if kind in REPLACED_KINDS:
        return _is_stable(item)
    if kind == "bindings":
        return bool(item["source"]) and not is_left_out(kind, item)
    return True


def _is_stable(item: Item) -> bool:
    """Whether a queue or exchange stays until it is deleted explicitly."""
    stays = item.get("durable", True) and not item.get("auto_delete", False)
    return bool(stays) and not item["name"].startswith(RESERVED_PREFIX)


async def _unstable(items: dict[str, Any], give_way: GiveWay) -> set[tuple[str, Key]]:
    """The queues and exchanges whose bindings are not followed."""
    found: set[tuple[str, Key]] = set()
    for kind in REPLACED_KINDS:
        for item in items.get(kind) or ():
            name, vhost = item.get("name"), item.get("vhost")
            if isinstance(name, str) and isinstance(vhost, str) and not _is_stable(item):
                found.add((kind, (vhost, name)))
            await give_way()
    return found


# One form of an item


def key_of(kind: str, item: Item) -> Key:
    """The key of an item among those of its kind."""
    names = tuple(str(item.get(name, _DEFAULTS.get(name, ""))) for name in KEYS[kind])
    if kind != "bindings" or not item.get("arguments"):
        return names
    return (*names, _encoded(_arguments(item)).decode())


_DEFAULTS = {"destination_type": QUEUE}


def _is_same(kind: str, here: Item, there: Item) -> bool:
    own, wanted = _form(kind, here), _form(kind, there)
    return all(
        value is NOT_TOLD or _encoded(own[name]) == _encoded(value)
        for name, value in wanted.items()
    )


def _encoded(value: Any) -> bytes:
    """Encode a value, equally only for equal values: in Python, True is 1, and 1 is 1.0."""
    return msgspec.json.encode(value, order="deterministic")


def _form(kind: str, item: Item) -> Item:
    """The compared fields."""
    match kind:
        case "vhosts":
            return vhost_form(item)
        case "users":
            return _user_form(item)
        case "policies":
            return {
                "pattern": item["pattern"], "definition": item["definition"],
                "apply-to": item.get("apply-to") or "all", "priority": _priority(item),
            }  # fmt: skip
        case "parameters" | "global_parameters":
            return {"value": item["value"]}
        case "permissions":
            return {name: item[name] for name in ("configure", "write", "read")}
        case "topic_permissions":
            return {name: item[name] for name in ("write", "read")}
        case "exchanges":
            return {
                "type": item["type"], "internal": bool(item.get("internal", False)),
                "arguments": _arguments(item),
            }  # fmt: skip
        case "queues":
            return {"arguments": _arguments(item)}
        case _:
            return {}


def vhost_form(item: Item) -> Item:
    """The compared fields of a vhost; NOT_TOLD for those that the export lacks."""
    metadata = item.get("metadata") or {}
    tags = item.get("tags", metadata.get("tags", NOT_TOLD))
    not_told = "" if "metadata" in item else NOT_TOLD
    queue_type = metadata.get("default_queue_type", not_told)
    return {
        "description": item.get("description", metadata.get("description", NOT_TOLD)),
        "tags": tags.split(",") if isinstance(tags, str) and tags else tags,
        "default_queue_type": "" if queue_type == "undefined" else queue_type,
        "unroutable_publishes": metadata.get("unroutable_publishes", not_told),
    }


def _user_form(item: Item) -> Item:
    tags: Any
    try:
        tags = tags_of(item) or []
    except UserError:
        tags = item.get("tags")
    return {
        "password_hash": item.get("password_hash") or "",
        "hashing_algorithm": item.get("hashing_algorithm") or NOT_TOLD,
        "tags": tags,
        "limits": item.get("limits") or {},
    }


def _priority(item: Item) -> Any:
    priority = item.get("priority", 0)
    return int(priority) if isinstance(priority, str) and priority.isdigit() else priority


def _arguments(item: Item) -> Any:
    """The arguments in the form in which the standby would export them."""
    arguments = item.get("arguments") or {}
    try:
        return table_to_json(json_to_table(arguments)) if arguments else {}
    except ValueError:
        return arguments


def described(one: ComparedItem) -> dict[str, Any]:
    """An item for display: its kind, vhost and name."""
    item, kind = one.item, one.kind
    name = item.get("name") or " ".join(part for part in one.key[1:] if part)
    return {"kind": kind, "vhost": item.get("vhost"), "name": name or EXCHANGE}
