"""Lists: filtered, sorted, in pages, with selected columns.

The parameters and their errors are RabbitMQ's: `page`, `page_size`, `name`, `use_regex`,
`pagination`, `sort`, `sort_reverse`, `columns`. Without `sort`, and among equal values of the
sorted column, objects are in the order of vhosts and names. With `tables=typed`, which RabbitMQ
does not have, AMQP tables are lists of names, types and values. Objects are rendered late:
filtering by name and sorting by a quick column read the objects themselves, so that only the
objects of the requested page are rendered. Rendering and sorting are done in slices, between which
the node does its other work.

A list without `page` has every object that exists when the request arrives. A client that accepts
lines of JSON (`LINES`) gets it as it reads: a row is rendered when the previous rows were sent, so
that neither side keeps more than a few rows.
"""

import heapq
import re
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec

from leveret.broker.amqp.json_form import JsonTable, text, typed_table
from leveret.broker.runtime.patterns import OutOfTimeError, compile_pattern
from leveret.mgmt.api.call import Call
from leveret.mgmt.api.errors import ApiError, bad_request
from leveret.mgmt.api.passed_requests import SortKey
from leveret.mgmt.api.routes import Lines

PAGE_SIZE_MAX = 500
PAGE_SIZE = 100
SORTED_AT_ONCE = 500
FILTERED_AT_ONCE = 10
KEYED_AT_ONCE = 20
COLLECTED_AT_ONCE = 100
NO_SORT_KEY: SortKey = (2, "")
"""The key of all objects of a list in its own order, and of objects without the column."""

Item = TypeVar("Item")


class Keyed(NamedTuple, Generic[Item]):
    """An object with its sort key. name: orders objects with equal keys."""

    sort: SortKey
    name: Any
    item: Item


class Listing(Generic[Item]):
    """The listing of one kind of object.

    name: the name of an object, for filtering. render: makes the JSON of an object; None if it no
    longer exists. quick: columns that are available without rendering. order: the default sort key,
    if not vhost and name. find: finds an object by the texts of its `order`, if every node of a
    cluster knows all objects.
    """

    def __init__(
        self,
        name: Callable[[Item], str],
        render: Callable[[Item], dict[str, Any] | None],
        quick: dict[str, Callable[[Item], Any]] | None = None,
        order: Callable[[Item], Any] | None = None,
        find: Callable[..., Item | None] | None = None,
    ) -> None:
        self._name = name
        self.render = render
        self._quick = {"name": name, **(quick or {})}
        vhost = self._quick.get("vhost")
        if order is None:
            order = name if vhost is None else lambda item: (vhost(item), name(item))
        self.order = order
        self.find = find

    async def answer(self, call: Call, items: Iterable[Item]) -> Any:
        """The list, or the requested page of it. Raises ApiError."""
        found = await collected(call, items)
        page = Page.of(call)
        keyed = await self.keyed(call, found, filters=page is not None)
        if page is None:
            return await whole(call, self.rows(call, [one.item for one in keyed]))
        chosen = page.cut(keyed, len(keyed))
        items_shown = await every(self.rows(call, [one.item for one in chosen]))
        return page.answer(items_shown, len(keyed), len(found))

    async def keyed(self, call: Call, items: list[Item], *, filters: bool) -> list[Keyed[Item]]:
        """The objects in the requested order; of a page, those with the wanted name.

        Raises 400 for an invalid or too slow expression.
        """
        if filters:
            items = await self._filtered(call, items)
        column = call.query("sort")
        key = self._key_of(column) if column else lambda item: NO_SORT_KEY
        is_slow = bool(column) and column not in self._quick
        keyed = []
        for number, item in enumerate(items):
            keyed.append(Keyed(key(item), self.order(item), item))
            if is_slow or number % KEYED_AT_ONCE == 0:
                await call.node.give_way()
        return await in_order(call, keyed)

    def _key_of(self, column: str) -> Callable[[Item], SortKey]:
        """The sort key of an object; only the sorted column of its rendering is kept."""
        quick = self._quick.get(column)
        if quick is not None:
            return lambda item: sort_key(quick(item))
        return lambda item: sort_key(_descend(self.render(item), column))

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

    async def rows(self, call: Call, items: Iterable[Item]) -> AsyncIterator[msgspec.Raw]:
        """The objects as encoded JSON: many dicts at once would slow the garbage collector."""
        for item in items:
            rendered = self.render(item)
            if rendered is not None:
                yield encoded(call, rendered)
            await call.node.give_way()


class Page(NamedTuple):
    """A requested page. number: from 1. size: in objects."""

    number: int
    size: int

    @classmethod
    def of(cls, call: Call) -> "Page | None":
        """Parse the request; None if it requests the whole list. Raises 400."""
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
        return cls(number, size)

    def cut(self, items: Sequence[Item], filtered: int) -> Sequence[Item]:
        """The objects on the page. filtered: the number of all matching objects. Raises 400."""
        if self.number > max(1, -(-filtered // self.size)):
            raise ApiError(
                400,
                "page_out_of_range",
                f"Page out of range, page: {self.number} page size: {self.size}, len: {filtered}",
            )
        return items[(self.number - 1) * self.size : self.number * self.size]

    def answer(self, shown: list[msgspec.Raw], filtered: int, total: int) -> dict[str, Any]:
        """The answer, with the number of objects that have the wanted name, and of all objects."""
        return {
            "filtered_count": filtered, "item_count": len(shown), "items": shown,
            "page": self.number, "page_count": -(-filtered // self.size), "page_size": self.size,
            "total_count": total,
        }  # fmt: skip


async def collected(call: Call, items: Iterable[Item]) -> list[Item]:
    """All objects, gathered in slices. The iterable tolerates changes between slices."""
    found = []
    for item in items:
        found.append(item)
        if len(found) % COLLECTED_AT_ONCE == 0:
            await call.node.give_way()
    return found


async def whole(call: Call, rows: AsyncIterator[msgspec.Raw]) -> Lines | list[msgspec.Raw]:
    """The answer with all rows of a list: as they are made for a client that takes lines."""
    return Lines(rows) if call.takes_lines else await every(rows)


async def every(rows: AsyncIterator[msgspec.Raw]) -> list[msgspec.Raw]:
    """All rows."""
    return [row async for row in rows]


def encoded(call: Call, rendered: dict[str, Any]) -> msgspec.Raw:
    """An object of a list as JSON, with the requested columns."""
    if call.query("tables") == "typed":
        rendered = {name: _with_types(value) for name, value in rendered.items()}
    columns = call.query("columns")
    if columns:
        rendered = pick_columns(rendered, columns)
    return msgspec.Raw(msgspec.json.encode(rendered))


def _with_types(value: Any) -> Any:
    return typed_table(value.table) if isinstance(value, JsonTable) else value


async def arranged(call: Call, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Sort a rendered list, and select the requested columns."""
    column, columns = call.query("sort"), call.query("columns")
    if column:
        rows = await _sorted(call, rows, lambda row: sort_key(_descend(row, column)))
    if call.query("sort_reverse") == "true":
        rows = rows[::-1]
    return [pick_columns(row, columns) for row in rows] if columns else rows


async def in_order(call: Call, keyed: list[Keyed[Item]]) -> list[Keyed[Item]]:
    """The objects sorted by their keys and names, in reverse if requested."""
    keyed = await _sorted(call, keyed, lambda one: one[:2])
    if call.query("sort_reverse") == "true":
        keyed.reverse()
    return keyed


async def _sorted(call: Call, items: list[Any], key: Callable[[Any], Any]) -> list[Any]:
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
        return compile_pattern(wanted, is_caseless=True).is_found_in
    except re.error as error:
        reason = f"name: '{wanted}' is not a valid regular expression: {error}"
        raise bad_request(reason) from None


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


def sort_key(value: Any) -> SortKey:
    """A key that orders values of any type: numbers, texts, missing values, then all others."""
    if isinstance(value, bool | int | float):
        return (0, value)
    if isinstance(value, str):
        return (1, text(value))
    return NO_SORT_KEY if value is None else (3, str(value))
