"""The content of a definitions file: its lists, the fields of their items, and problems with them.

The lists are in the order in which an import needs them. The file of a single vhost has only the
lists of objects in a vhost, and its items do not name the vhost.
"""

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from leveret.broker.auth.passwords import MD5
from leveret.broker.runtime.names import QUEUE, RESERVED_PREFIX
from leveret.mgmt.definitions.list_slices import ITEM_BYTES_MAX, ItemTooLarge, items_of
from leveret.mgmt.definitions.object_slices import JsonSpan, TooMuch, members_of
from leveret.mgmt.http.json_limits import refusal_of
from leveret.mgmt.slices import GiveWay

Item = dict[str, Any]


class ImportProblem(NamedTuple):
    """A reason why definitions cannot be imported. reason: in the form of the HTTP API."""

    path: str
    reason: Any


PROBLEMS_MAX = 1000
"""Reading ends after this many unreadable items."""
VALUES_MAX = 2_000_000
"""A file of 20 MB has at most a million."""
TOO_MANY = f"a file of definitions may not have more than {VALUES_MAX} values"
NUMBER_TOO_LARGE = "has a number that is too large"
EXPLAINED_BYTES_MAX = 500_000
"""Finding the error in this many bytes takes up to 20 ms, in one call."""
ITEM_TOO_LARGE = f"may not have more than {ITEM_BYTES_MAX} bytes"
_COUNTED_BYTES = 1_000_000
NOT_JSON = "failed_to_parse_json"
"""RabbitMQ's reason."""


class DefinitionsError(ValueError):
    """Definitions that cannot be imported. problems: all of them. reason: the first one's."""

    def __init__(self, reason: Any, problems: list[ImportProblem] | None = None) -> None:
        super().__init__(str(reason))
        self.reason = reason
        self.problems = problems or []


class ItemField(NamedTuple):
    """A field that an item may or must have."""

    name: str
    types: tuple[type, ...]
    is_required: bool = True


def _optional(name: str, *types: type) -> ItemField:
    return ItemField(name, types, is_required=False)


ANYTHING = (str, int, float, bool, list, dict)
VHOST = ItemField("vhost", (str,))
NAME = ItemField("name", (str,))
FLAGS = (_optional("durable", bool), _optional("auto_delete", bool))
ARGUMENTS = _optional("arguments", dict)
DEFINITION = (
    ItemField("pattern", (str,)), _optional("apply-to", str), ItemField("definition", (dict,)),
    _optional("priority", int, float, str),
)  # fmt: skip

SHAPES: dict[str, tuple[ItemField, ...]] = {
    "vhosts": (
        NAME, _optional("description", str), _optional("tags", list, str),
        _optional("metadata", dict), _optional("tracing", bool),
    ),
    "users": (
        NAME, _optional("tags", list, str), _optional("password", str),
        _optional("password_hash", str), _optional("hashing_algorithm", str),
        _optional("limits", dict, list), _optional("permissions", dict),
    ),
    "permissions": (
        VHOST, ItemField("user", (str,)),
        *(ItemField(name, (str,)) for name in ("configure", "write", "read")),
    ),
    "topic_permissions": (
        VHOST, *(ItemField(name, (str,)) for name in ("user", "exchange", "write", "read")),
    ),
    "global_parameters": (NAME, ItemField("value", ANYTHING)),
    "parameters": (VHOST, ItemField("component", (str,)), NAME, ItemField("value", ANYTHING)),
    "policies": (VHOST, NAME, *DEFINITION),
    "exchanges": (VHOST, NAME, ItemField("type", (str,)), *FLAGS, _optional("internal", bool),
                  ARGUMENTS),
    "queues": (VHOST, NAME, *FLAGS, ARGUMENTS),
    "bindings": (
        VHOST, ItemField("source", (str,)), ItemField("destination", (str,)),
        _optional("destination_type", str), _optional("routing_key", str), ARGUMENTS,
    ),
}  # fmt: skip
"""The lists of a file, in the order in which an import needs them, and their items' fields."""

TYPE_NAMES = {
    str: "a text", int: "a number", float: "a number", bool: "true or false", list: "a list",
    dict: "an object",
}  # fmt: skip
OF_A_NODE = ("vhosts", "users", "permissions", "topic_permissions", "global_parameters")
"""Lists that the file of a single vhost does not have."""


class DefinitionLists:
    """The lists of a file. vhost: the one of a single vhost's file; None for the whole node's.

    version: that of the exporting RabbitMQ, or the one that Leveret names; may be empty.
    """

    def __init__(
        self, lists: dict[str, list[Item]], vhost: str | None = None, version: str = ""
    ) -> None:
        self.vhost = vhost
        self.version = version
        self._lists = lists

    def kinds(self) -> tuple[str, ...]:
        """The names of the lists that this file can have, in the order of an import."""
        return kinds_of(self.vhost)

    def items(self, kind: str) -> list[Item]:
        """One of the lists, with the vhost in each item."""
        return self._lists.get(kind, [])


def kinds_of(vhost: str | None) -> tuple[str, ...]:
    """The names of the lists that this file has, in the order of an import."""
    return tuple(kind for kind in SHAPES if vhost is None or kind not in OF_A_NODE)


def fault_in_json(raw: bytes) -> str:
    """Why `read_definitions` refuses a file with NOT_JSON; with the place, unless it is large."""
    if len(raw) > EXPLAINED_BYTES_MAX:
        return "it is not JSON, or not a JSON object of lists"
    try:
        json.loads(raw.decode())
    except json.JSONDecodeError as error:
        return f"it is not JSON: line {error.lineno} column {error.colno}: {error.msg}"
    except UnicodeDecodeError as error:
        return f"it is not UTF-8 text: byte {error.start} is {raw[error.start]:#04x}"
    except RecursionError:
        return "its values are nested too deeply"
    except ValueError:
        # Python's limit for the digits of an integer, whose text is for programmers.
        return f"it {NUMBER_TOO_LARGE}"
    return "it is not a JSON object of lists"


async def read_definitions(raw: bytes, vhost: str | None, give_way: GiveWay) -> DefinitionLists:
    """Read a file. Raises DefinitionsError unless it is an object of lists of objects."""
    if await _comma_count(raw, give_way) > VALUES_MAX:
        raise DefinitionsError(TOO_MANY)
    try:
        content = await members_of(raw, give_way)
        lists: dict[str, list[Item]] = {}
        problems: list[ImportProblem] = []
        for kind in kinds_of(vhost):
            lists[kind] = await _items(kind, raw, content.get(kind), vhost, problems, give_way)
        version = _version(content)
        if _is_before_3_6(version):
            for user in lists.get("users", ()):
                user.setdefault("hashing_algorithm", MD5)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise DefinitionsError(NOT_JSON) from None
    except TooMuch as error:
        raise DefinitionsError(f"a file of definitions may not have more than {error}") from None
    if problems:
        raise DefinitionsError(f"{problems[0].path}: {problems[0].reason}", problems)
    return DefinitionLists(lists, vhost, version)


async def _comma_count(raw: bytes, give_way: GiveWay) -> int:
    """The number of commas, which is about that of values."""
    count = 0
    for start in range(0, len(raw), _COUNTED_BYTES):
        count += raw.count(b",", start, start + _COUNTED_BYTES)
        await give_way()
    return count


async def _items(
    kind: str, raw: bytes, value: Any, vhost: str | None, problems: list[ImportProblem],
    give_way: GiveWay,
) -> list[Item]:  # fmt: skip
    """The items of a list, decoded one by one and in slices, because a file may have very many.

    value: the place of the list, or another value found there.
    """
    if value is None:
        return []
    items: list[Item] = []
    number = 0
    try:
        if not isinstance(value, JsonSpan):
            raise msgspec.ValidationError
        async for one in items_of(raw, value, give_way):
            item, problem = _item(one)
            if problem is not None:
                problems.append(ImportProblem(f"{kind}[{number}]", problem))
                if len(problems) >= PROBLEMS_MAX:
                    break
            if isinstance(item, dict):
                if vhost is not None:
                    item["vhost"] = vhost
                items.append(item)
            number += 1
            await give_way()
    except msgspec.ValidationError:
        problems.append(ImportProblem(kind, "should be a list of objects"))
    except ItemTooLarge:
        problems.append(ImportProblem(f"{kind}[{number}]", ITEM_TOO_LARGE))
    return items


def _item(raw: msgspec.Raw) -> tuple[Any, str | None]:
    """An item of a list, and the reason why it is not valid. Raises msgspec.DecodeError."""
    try:
        item = msgspec.json.decode(raw)
    except msgspec.ValidationError:
        return None, NUMBER_TOO_LARGE
    return item, refusal_of(item) if isinstance(item, dict) else "should be an object"


def _version(content: dict[str, Any]) -> str:
    version = content.get("rabbitmq_version", content.get("rabbit_version"))
    return version if isinstance(version, str) else ""


def _is_before_3_6(version: str) -> bool:
    """Whether RabbitMQ before 3.6 exported this, which hashed passwords with MD5."""
    numbers = re.match(r"(\d+)\.(\d+)", version)
    return numbers is not None and (int(numbers[1]), int(numbers[2])) < (3, 6)


def is_left_out(kind: str, item: Item) -> bool:
    """Whether an import leaves out an item: a queue with a generated name, or its binding.

    As in RabbitMQ: the broker generated such a name for one client.
    """
    if kind == "queues":
        return str(item.get("name")).startswith(RESERVED_PREFIX)
    is_of_queue = kind == "bindings" and item.get("destination_type", QUEUE) == QUEUE
    return is_of_queue and str(item.get("destination")).startswith(RESERVED_PREFIX)


def misshapen(item: Item, kind: str) -> Iterator[ImportProblem]:
    """The fields that an item of a list lacks, or that have the wrong type."""
    return fields_missing(item, SHAPES[kind])


def fields_missing(item: Item, fields: tuple[ItemField, ...]) -> Iterator[ImportProblem]:
    """The same for an object that has these fields."""
    for field in fields:
        value = item.get(field.name)
        if value is None:
            if field.is_required:
                yield ImportProblem(f".{field.name}", "is missing")
        elif not isinstance(value, field.types) or (
            isinstance(value, bool) and bool not in field.types
        ):
            wanted = " or ".join(dict.fromkeys(TYPE_NAMES[one] for one in field.types))
            yield ImportProblem(f".{field.name}", f"should be {wanted}")
