"""What of a broker's definitions another broker can import, and what it cannot.

Left out are what identifies the source's cluster, and objects that federation declares for another
broker. Shovels and federation upstreams are held back until the end: two brokers that run them at
once would both receive the messages. What the target refuses is taken out problem by problem: an
argument or a key of a policy if that suffices, otherwise the object, and then what depends on it.
Pure.
"""

import re
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from leveret.mgmt.ctl.migrating.links import NAME_PREFIX
from leveret.mgmt.ctl.wording import in_words

Definitions = dict[str, Any]
STATE_PREFIX: Final = "leveret_migration"
"""The beginning of the names of a migration's own global parameters."""
LISTS: Final = {
    "vhosts": "vhost", "users": "user", "permissions": "permission",
    "topic_permissions": "topic permission", "parameters": "parameter",
    "global_parameters": "global parameter", "policies": "policy", "exchanges": "exchange",
    "queues": "queue", "bindings": "binding",
}  # fmt: skip
"""The lists of definitions in the order of an import, and what their items are."""
HELD: Final = ("shovel", "federation-upstream", "federation-upstream-set")
OF_THE_CLUSTER: Final = ("cluster_name", "internal_cluster_id")
INTERNAL_PURPOSE: Final = "x-internal-purpose"
FEDERATION_EXCHANGE: Final = "x-federation-upstream"
INNER: Final = ("arguments", "definition", "limits", "value")
"""Fields whose members can be left out one by one."""
NEAREST: Final = {
    "type": "an exchange of type direct, fanout, topic or headers",
    "x-queue-type": "a classic queue, which is declared instead",
    "hashing_algorithm": "a new password: leveretctl change_password",
    "password_hash": "a new password: leveretctl change_password",
    "pattern": "a pattern of the syntax of PCRE",
    "name": "another name, with at most 255 bytes",
}
"""What comes closest to a field or argument that is refused."""
_PATH = re.compile(r"(\w+)\[(\d+)\](?:\.([^.]+)(?:\.(.+))?)?", re.DOTALL)


class NotCarriedOver(NamedTuple):
    """What is not carried over. nearest: what comes closest, or empty."""

    what: str
    reason: str
    nearest: str = ""

    def __str__(self) -> str:
        """The sentence that the plan shows."""
        nearest = f" (nearest: {self.nearest})" if self.nearest else ""
        return f"{self.what}: {self.reason}{nearest}"


class Held(NamedTuple):
    """A parameter that is imported at the end."""

    component: str
    vhost: str
    name: str


class Selected(NamedTuple):
    """The definitions that are to be imported, and the rest."""

    definitions: Definitions
    left_out: list[NotCarriedOver]
    held: list[Held]


def select(found: Definitions) -> Selected:
    """Choose from a broker's definitions. They are not changed."""
    chosen: Definitions = {name: list(found.get(name, [])) for name in LISTS}
    if "rabbit_version" in found:
        # It says how passwords without an algorithm are hashed.
        chosen["rabbit_version"] = found["rabbit_version"]
    left_out = [
        NotCarriedOver(f"global parameter '{one['name']}'", "it identifies the source's cluster")
        for one in chosen["global_parameters"]
        if one["name"] in OF_THE_CLUSTER
    ]
    chosen["global_parameters"] = [
        one for one in chosen["global_parameters"]
        if one["name"] not in OF_THE_CLUSTER and not one["name"].startswith(STATE_PREFIX)
    ]  # fmt: skip
    held = [
        Held(one["component"], one["vhost"], one["name"])
        for one in chosen["parameters"]
        if one["component"] in HELD and not one["name"].startswith(NAME_PREFIX)
    ]
    chosen["parameters"] = [one for one in chosen["parameters"] if one["component"] not in HELD]
    left_out += _without_federation(chosen)
    return Selected(chosen, left_out, held)


def _without_federation(chosen: Definitions) -> list[NotCarriedOver]:
    """Remove what links of other brokers have declared, and its bindings."""
    removed: set[tuple[str, str, str]] = set()
    left_out = []
    for name in ("exchanges", "queues"):
        kept = []
        for one in chosen[name]:
            if _is_federations(one):
                removed.add((LISTS[name], one["vhost"], one["name"]))
                left_out.append(
                    NotCarriedOver(
                        shown(LISTS[name], one), "a federation link of another broker declared it",
                        "point the upstream of that broker to the target",
                    )
                )  # fmt: skip
            else:
                kept.append(one)
        chosen[name] = kept
    chosen["bindings"] = [
        one for one in chosen["bindings"]
        if ("exchange", one["vhost"], one["source"]) not in removed
        and (one.get("destination_type", "queue"), one["vhost"], one["destination"]) not in removed
    ]  # fmt: skip
    return left_out


def _is_federations(item: dict[str, Any]) -> bool:
    arguments = item.get("arguments") or {}
    return INTERNAL_PURPOSE in arguments or item.get("type") == FEDERATION_EXCHANGE


def shown(kind: str, item: dict[str, Any]) -> str:
    """An object as messages name it."""
    name = item.get("name")
    if name is None:
        keys = ("user", "source", "destination", "routing_key")
        name = " ".join(str(item[key]) for key in keys if item.get(key))
    where = f" in vhost '{item['vhost']}'" if item.get("vhost") else ""
    return f"{kind} '{name}'{where}"


def take_out(definitions: Definitions, problems: Iterable[dict[str, Any]]) -> list[NotCarriedOver]:
    """Take what has problems out of definitions, whose lists and items are replaced.

    problems: as `POST /api/definitions?dry_run=true` answers. Raises ValueError for one that does
    not name an item.
    """
    left_out = []
    gone: dict[str, set[int]] = {}
    reduced_ones: set[tuple[str, int]] = set()
    for problem in problems:
        found = _PATH.fullmatch(problem["path"])
        if found is None or int(found[2]) >= len(definitions.get(found[1], [])):
            raise ValueError(f"{problem['path']}: {in_words(problem['reason'])}")
        name, number = found[1], int(found[2])
        items = definitions[name]
        what, reason = shown(LISTS[name], items[number]), in_words(problem["reason"]).strip()
        reduced, keys = _without(items[number], found[3] or "", found[4] or "", reason)
        if reduced is None and (name, number) in reduced_ones:
            # What is left of it is checked again.
            continue
        if reduced is None:
            gone.setdefault(name, set()).add(number)
            left_out.append(NotCarriedOver(what, reason, NEAREST.get(found[3] or "", "")))
        else:
            items[number] = reduced
            reduced_ones.add((name, number))
            nearest = NEAREST.get(keys[0], f"the {LISTS[name]} without it")
            left_out.append(NotCarriedOver(f"{', '.join(keys)} of {what}", reason, nearest))
    for name, numbers in gone.items():
        kept = [one for place, one in enumerate(definitions[name]) if place not in numbers]
        definitions[name] = kept
    return left_out


def _without(
    item: dict[str, Any], field: str, key: str, reason: str
) -> tuple[dict[str, Any] | None, list[str]]:
    """An item without the members that a problem names; None if it cannot be imported at all."""
    inner = item.get(field)
    if field not in INNER or not isinstance(inner, dict):
        return None, []
    keys = [key] if key in inner else [one for one in inner if _names(reason, one)]
    kept = {name: value for name, value in inner.items() if name not in keys}
    if not keys or (not kept and field != "arguments"):
        return None, []
    return {**item, field: kept}, keys


def _names(reason: str, key: str) -> bool:
    return re.search(rf"(?<![\w-]){re.escape(key)}(?![\w-])", reason) is not None
