"""Lists: filtered, sorted, in pages, with selected columns.

The parameters and their errors are RabbitMQ's: `page`, `page_size`, `name`, `use_regex`,
`pagination`, `sort`, `sort_reverse`, `columns`. Without `sort`, and among equal values of the
sorted column, objects are in the order of vhosts and names. With `tables=typed`, which RabbitMQ
does not have, AMQP tables are lists of names, types and values. Objects are rendered late:
filtering by name and sorting by a quick column read the objects themselves, so that only the
objects of the requested page are rendered. Rendering and sorting are done in slices, between which
the node does its other work.
"""

import heapq
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, TypeVar

import msgspec

from leveret.broker.amqp.json_form import JsonTable, typed_table
from leveret.broker.patterns import OutOfTimeError, compile_pattern
from leveret.mgmt.api.call import Call
from leveret.mgmt.api.errors import ApiError, bad_request

PAGE_SIZE_MAX = 500
PAGE_SIZE = 100
SORTED_AT_ONCE = 500
FILTERED_AT_ONCE = 10

Item = TypeVar("Item")


class Listing(Generic[Item]):
    """How one kind of object is listed.

    name: the name of an object, for filtering. render: makes the JSON of an object. quick: columns
    that are available without rendering. order: the default sort key, if not vhost and name.
    """

    def __init__(
        self,
        name: Callable[[Item], str],
        render: Callable[[Item], dict[str, Any]],
        quick: dict[str, Callable[[Item], Any]] | None = None,
        order: Callable[[Item], Any] | None = None,
    ) -> None:
        self._name = name
        self._render = render
        self._quick = {"name": name, **(quick or {})}
        vhost = self._quick.get("vhost")
        if order is None:
            order = name if vhost is None else lambda item: (vhost(item), name(item))
        self._order = order

    async def answer(self, call: Call, items: Iterable[Item]) -> Any:
        """The list, or the requested page of it. Raises ApiError."""
        found = list(items)
        total = len(found)
        page = _page_of(call)
        if page is None:
            return await self._shown(call, await self._sorted(call, found))
        found = await self._filtered(call, found)
        number, size = page
        filtered = len(found)
        count = -(-filtered // size)
        if number > max(1, count):
            raise ApiError(
                400,
                "page_out_of_range",
                f"Page out of range, page: {number} page size: {size}, len: {filtered}",
            )
        found = await self._sorted(call, found)
        items_shown = await self._shown(call, found[(number - 1) * size : number * size])
        return {
            "filtered_count": filtered, "item_count": len(items_shown), "items": items_shown,
            "page": number, "page_count": count, "page_size": size, "total_count": total,
        }  # fmt: skip

    async def _filtered(self, call: Call, items: list[Item]) -> list[Item]:
        """The objects with the wanted name. Raises 400 for an invalid or too slow expression."""
        wanted = call.query("name")
        if not wanted:
            return items
        is_wanted = _name_filter(wanted, is_regex=call.query("use_regex") == "true")
        found = []
        for number, item in enumerate(items):
            try:
                if is_wanted(self._name(item)):
                    found.append(item)
            except OutOfTimeError:
                raise bad_request(f"name: '{wanted}' takes too long to match") from None
            if number % FILTERED_AT_ONCE == 0:
                await call.node.give_way()
        return found

    async def _sorted(self, call: Call, items: list[Item]) -> list[Item]:
        """The objects in the requested order."""
        column = call.query("sort")
        items = await _in_order(call, items, self._order)
        quick = self._quick.get(column)
        if quick is not None:
            items = await _in_order(call, items, lambda item: _sort_key(quick(item)))
        elif column:
            items = await self._by_column(call, items, column)
        if call.query("sort_reverse") == "true":
            items.reverse()
        return items

    async def _by_column(self, call: Call, items: list[Item], column: str) -> list[Item]:
        """Sorted by a column that needs rendering; of what is rendered only the column is kept."""
        keyed = []
        for item in items:
            keyed.append((_sort_key(_descend(self._render(item), column)), item))
            await call.node.give_way()
        return [item for _, item in await _in_order(call, keyed, lambda pair: pair[0])]

    async def _shown(self, call: Call, items: Sequence[Item]) -> list[Any]:
        """The objects as encoded JSON: many dicts at once would slow the garbage collector."""
        columns, is_typed = call.query("columns"), call.query("tables") == "typed"
        shown = []
        for item in items:
            rendered = self._render(item)
            if is_typed:
                rendered = {name: _with_types(value) for name, value in rendered.items()}
            if columns:
                rendered = pick_columns(rendered, columns)
            shown.append(msgspec.Raw(msgspec.json.encode(rendered)))
            await call.node.give_way()
        return shown


def _with_types(value: Any) -> Any:
    return typed_table(value.table) if isinstance(value, JsonTable) else value


async def arranged(call: Call, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A list that is rendered already, sorted and with the requested columns."""
    column, columns = call.query("sort"), call.query("columns")
    if column:
        rows = await _in_order(call, rows, lambda row: _sort_key(_descend(row, column)))
    if call.query("sort_reverse") == "true":
        rows = rows[::-1]
    return [pick_columns(row, columns) for row in rows] if columns else rows


async def _in_order(call: Call, items: list[Any], key: Callable[[Any], Any]) -> list[Any]:
    """Sorted in slices: pieces are sorted and merged. The sort is stable."""
    if len(items) <= SORTED_AT_ONCE:
        return sorted(items, key=key)
    pieces = []
    for start in range(0, len(items), SORTED_AT_ONCE):
        pieces.append(sorted(items[start : start + SORTED_AT_ONCE], key=key))
        await call.node.give_way()
    merged = []
    for item in heapq.merge(*pieces, key=key):
        merged.append(item)
        if len(merged) % SORTED_AT_ONCE == 0:
            await call.node.give_way()
    return merged


def _name_filter(wanted: str, *, is_regex: bool) -> Callable[[str], bool]:
    if not is_regex:
        folded = wanted.casefold()
        return lambda name: folded in name.casefold()
    try:
        return compile_pattern(wanted, re.IGNORECASE).is_found_in
    except re.error as error:
        reason = f"name: '{wanted}' is not a valid regular expression: {error}"
        raise bad_request(reason) from None


def _page_of(call: Call) -> tuple[int, int] | None:
    query = call.request.query
    if "page" not in query:
        return None
    try:
        number = int(call.query("page", "1"))
        size = int(call.query("page_size", str(PAGE_SIZE)))
    except ValueError:
        raise bad_request("Pagination parameters are invalid") from None
    if number < 1 or not 1 <= size <= PAGE_SIZE_MAX:
        shown = size if "page_size" in query else "undefined"
        raise ApiError(
            400,
            "invalid_pagination_parameters",
            f"Invalid pagination parameters: page number {number}, page size {shown}",
        )
    return number, size


def pick_columns(shown: dict[str, Any], columns: str) -> dict[str, Any]:
    """Only these columns of an object; `a.b` is column b of the object in column a."""
    source: Any
    picked: dict[str, Any] = {}
    for column in columns.split(","):
        *path, last = column.split(".")
        source = shown
        for step in path:
            source = source.get(step) if isinstance(source, dict) else None
        # An empty object is kept, whichever of its columns are requested.
        if not isinstance(source, dict) or (source and last not in source):
            continue
        place = picked
        for step in path:
            place = place.setdefault(step, {})
        if last in source:
            place[last] = source[last]
    return picked


def _descend(shown: Any, column: str) -> Any:
    for step in column.split("."):
        shown = shown.get(step) if isinstance(shown, dict) else None
    return shown


def _sort_key(value: Any) -> tuple[int, Any]:
    """A key that orders values of any type: numbers, texts, missing values, then all others."""
    if isinstance(value, bool | int | float):
        return (0, value)
    if isinstance(value, str):
        return (1, value)
    return (2, "") if value is None else (3, str(value))
