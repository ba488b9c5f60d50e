"""A definitions file's content: its lists, what their items have to have, and what can be wrong.

The lists are in the order in which an import needs them. A vhost's own file has only what is in a
vhost, and its items do not name the vhost.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

Item = dict[str, Any]


class Problem(NamedTuple):
    """Something that cannot be imported. reason: as the HTTP API says it."""

    path: str
    reason: Any


class DefinitionsError(ValueError):
    """Definitions cannot be imported. problems: all of them; reason: the first one's."""

    def __init__(self, reason: Any, problems: list[Problem] | None = None) -> None:
        super().__init__(str(reason))
        self.reason = reason
        self.problems = problems or []


class Field(NamedTuple):
    """What an item may or has to have under a name."""

    name: str
    types: tuple[type, ...]
    is_required: bool = True


def _optional(name: str, *types: type) -> Field:
    return Field(name, types, is_required=False)


ANYTHING = (str, int, float, bool, list, dict)
VHOST = Field("vhost", (str,))
NAME = Field("name", (str,))
FLAGS = (_optional("durable", bool), _optional("auto_delete", bool))
ARGUMENTS = _optional("arguments", dict)
DEFINITION = (
    Field("pattern", (str,)), _optional("apply-to", str), Field("definition", (dict,)),
    _optional("priority", int, float, str),
)  # fmt: skip

SHAPES: dict[str, tuple[Field, ...]] = {
    "vhosts": (
        NAME, _optional("description", str), _optional("tags", list, str),
        _optional("metadata", dict), _optional("tracing", bool),
    ),
    "users": (
        NAME, _optional("tags", list, str), _optional("password", str),
        _optional("password_hash", str), _optional("hashing_algorithm", str),
        _optional("limits", dict, list),
    ),
    "permissions": (
        VHOST, Field("user", (str,)),
        *(Field(name, (str,)) for name in ("configure", "write", "read")),
    ),
    "topic_permissions": (
        VHOST, *(Field(name, (str,)) for name in ("user", "exchange", "write", "read")),
    ),
    "global_parameters": (NAME, Field("value", ANYTHING)),
    "parameters": (VHOST, Field("component", (str,)), NAME, Field("value", ANYTHING)),
    "policies": (VHOST, NAME, *DEFINITION),
    "exchanges": (VHOST, NAME, Field("type", (str,)), *FLAGS, _optional("internal", bool),
                  ARGUMENTS),
    "queues": (VHOST, NAME, *FLAGS, ARGUMENTS),
    "bindings": (
        VHOST, Field("source", (str,)), Field("destination", (str,)),
        _optional("destination_type", str), _optional("routing_key", str), ARGUMENTS,
    ),
}  # fmt: skip
"""The lists of a file, in the order in which an import needs them, and what their items have."""

TYPE_NAMES = {
    str: "a text", int: "a number", float: "a number", bool: "true or false", list: "a list",
    dict: "an object",
}  # fmt: skip
OF_A_NODE = ("vhosts", "users", "permissions", "topic_permissions", "global_parameters")
"""Lists that a vhost's own file does not have."""


class Definitions:
    """A file's content. vhost: what everything that does not name one is for."""

    def __init__(self, content: Any, vhost: str | None = None) -> None:
        """Raises DefinitionsError if it is no object of lists of objects."""
        if not isinstance(content, dict):
            raise DefinitionsError("failed_to_parse_json")
        self.vhost = vhost
        self._content = content
        problems = list(self._not_lists())
        if problems:
            raise DefinitionsError(f"{problems[0].path}: {problems[0].reason}", problems)

    def _not_lists(self) -> Iterator[Problem]:
        for kind in self.kinds():
            items = self._content.get(kind) or []
            if not isinstance(items, list):
                yield Problem(kind, "should be a list of objects")
                continue
            for number, item in enumerate(items):
                if not isinstance(item, dict):
                    yield Problem(f"{kind}[{number}]", "should be an object")

    def kinds(self) -> tuple[str, ...]:
        """The lists that are looked at, in the order of an import."""
        if self.vhost is None:
            return tuple(SHAPES)
        return tuple(kind for kind in SHAPES if kind not in OF_A_NODE)

    def items(self, kind: str) -> list[Item]:
        """One of the lists, with the vhost in each item."""
        items: list[Item] = self._content.get(kind) or []
        if self.vhost is None or kind in OF_A_NODE:
            return items
        return [{**item, "vhost": self.vhost} for item in items]


def misshapen(item: Item, kind: str) -> Iterator[Problem]:
    """What an item of a list lacks, or has of another type than it has to be."""
    return fields_missing(item, SHAPES[kind])


def fields_missing(item: Item, fields: tuple[Field, ...]) -> Iterator[Problem]:
    """The same for an object with these fields."""
    for field in fields:
        value = item.get(field.name)
        if value is None:
            if field.is_required:
                yield Problem(f".{field.name}", "is missing")
        elif not isinstance(value, field.types) or (
            isinstance(value, bool) and bool not in field.types
        ):
            wanted = " or ".join(dict.fromkeys(TYPE_NAMES[one] for one in field.types))
            yield Problem(f".{field.name}", f"should be {wanted}")
