"""Lists of what the nodes of a cluster have, made by the one that is asked.

A list is made in two steps. All nodes tell the sort keys of their objects, or of as many as the
requested page can have of one node, and the node that is asked puts them in order. Then it fetches
the objects that are shown, in answers of bounded size. So sorting, filters and pages are about all
nodes, and what travels is about what is shown.

`JointListing` is for objects of which each has a node (connections), `SummedListing` for those that
all nodes have, with statistics that are sums (exchanges). Both are made of a `Listing`, which makes
the list of a node on its own.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec

from leveret.mgmt.api.call import Call
from leveret.mgmt.api.listing import Keyed, Listing, Page, encoded, in_order
from leveret.mgmt.api.other_nodes import ask_for_part, ask_others, other_nodes
from leveret.mgmt.api.passed_requests import KeyList, Keys, ObjectName, Rows, SortKey, pack
from leveret.mgmt.statistics.sums import with_others

ROWS_AT_ONCE = 2000
ROWS_BYTES_MAX = 1024 * 1024
"""An answer with more is cut off, and the rest is fetched by another question."""
PLACED_AT_ONCE = 100
GONE = msgspec.Raw(b"null")
"""In place of an object that there is no longer."""

Item = TypeVar("Item")


class Place(NamedTuple, Generic[Item]):
    """Where an object of a joint list is: on another node, by its name there, or here."""

    node: str
    name: ObjectName
    item: Item | None


def object_name(order: Any) -> ObjectName:
    """What an object is ordered by, as it travels. It is in the same order."""
    texts = order if isinstance(order, tuple) else (order,)
    return tuple(map(pack, texts))


async def part_of(
    call: Call, listing: Listing[Item], items: list[Item], part: Keys | Rows
) -> KeyList | list[msgspec.Raw]:
    """What another node wants of this node's objects."""
    if isinstance(part, Rows):
        return await _rows(call, listing, items, part)
    keyed = await listing.keyed(call, items, filters="page" in call.request.query)
    keys = []
    for one in keyed[: part.count_max]:
        keys.append((one.sort, object_name(one.name)))
        await call.node.give_way()
    return KeyList(len(items), len(keyed), keys)


async def _rows(
    call: Call, listing: Listing[Item], items: list[Item], wanted: Rows
) -> list[msgspec.Raw]:
    by_name: dict[ObjectName, Item] = {}
    names = set(wanted.names)
    for item in items:
        name = object_name(listing.order(item))
        if name in names:
            by_name[name] = item
        await call.node.give_way()
    rows: list[msgspec.Raw] = []
    size = 0
    for name in wanted.names:
        row = encoded(call, listing.render(by_name[name])) if name in by_name else GONE
        rows.append(row)
        size += len(bytes(row))
        if size > ROWS_BYTES_MAX:
            break
        await call.node.give_way()
    return rows


class JointListing(Generic[Item]):
    """A list of objects of which each has a node. home: its name; empty for the node itself.

    Objects whose node does not answer are shown as this node knows them, if it does.
    """

    def __init__(self, listing: Listing[Item], home: Callable[[Item], str] = lambda _: "") -> None:
        self._listing = listing
        self._home = home

    async def answer(self, call: Call, items: Iterable[Item]) -> Any:
        """The list, the requested page of it, or this node's part of it. Raises ApiError."""
        found = list(items)
        if call.wants_only_own:
            found = [item for item in found if self._home(item) in ("", call.node.name)]
            if isinstance(call.part, Keys | Rows):
                return await part_of(call, self._listing, found, call.part)
        if not other_nodes(call):
            return await self._listing.answer(call, found)
        return await self._joint(call, found)

    async def _joint(self, call: Call, items: list[Item]) -> Any:
        page = Page.of(call)
        count_max = None if page is None else page.number * page.size
        answers = await ask_others(call, Keys(count_max))
        lists = {
            node: msgspec.msgpack.decode(answer, type=KeyList) for node, answer in answers.items()
        }
        own = [item for item in items if self._home(item) not in lists]
        keyed = await self._listing.keyed(call, own, filters=page is not None)
        places = await _merged(call, keyed[:count_max], lists)
        if page is None:
            return await self._shown(call, places)
        filtered = len(keyed) + sum(one.filtered for one in lists.values())
        shown = await self._shown(call, page.cut(places, filtered))
        return page.answer(shown, filtered, len(own) + sum(one.total for one in lists.values()))

    async def _shown(self, call: Call, places: Sequence[Place[Item]]) -> list[msgspec.Raw]:
        names: dict[str, list[ObjectName]] = {}
        for number, place in enumerate(places):
            if place.node:
                names.setdefault(place.node, []).append(place.name)
            if number % PLACED_AT_ONCE == 0:
                await call.node.give_way()
        fetched = await asyncio.gather(*(_fetch(call, node, names[node]) for node in names))
        rows = dict(zip(names, map(iter, fetched), strict=True))
        shown = []
        for number, place in enumerate(places):
            if number % PLACED_AT_ONCE == 0:
                await call.node.give_way()
            if place.item is not None:
                shown += await self._listing.shown(call, [place.item])
            else:
                row = next(rows[place.node], GONE)
                if row != GONE:
                    shown.append(row)
        return shown


async def _merged(
    call: Call, keyed: list[Keyed[Item]], lists: dict[str, KeyList]
) -> list[Place[Item]]:
    """All objects in the requested order."""
    merged: list[Keyed[Place[Item]]] = []
    for one in keyed:
        name = object_name(one.name)
        merged.append(Keyed(one.sort, name, Place("", name, one.item)))
        await call.node.give_way()
    for node, keys in lists.items():
        for sort, name in keys.keys:
            merged.append(Keyed(sort, name, Place(node, name, None)))
            await call.node.give_way()
    return [one.item for one in await in_order(call, merged)]


async def _fetch(
    call: Call, node: str, names: list[ObjectName], columns: str | None = None
) -> list[msgspec.Raw]:
    """The objects of a node, in order. There are fewer if it does not answer any more."""
    rows: list[msgspec.Raw] = []
    while len(rows) < len(names):
        wanted = Rows(names[len(rows) : len(rows) + ROWS_AT_ONCE])
        answer = await ask_for_part(call, node, wanted, columns)
        some = [] if answer is None else msgspec.json.decode(answer, type=list[msgspec.Raw])
        if not some:
            break
        rows += some
    return rows


class SummedListing(Generic[Item]):
    """A list of objects that all nodes have. columns: those that are sums over the nodes."""

    def __init__(self, listing: Listing[Item], columns: Sequence[str]) -> None:
        self._listing = listing
        self._columns = tuple(columns)

    async def answer(self, call: Call, items: Iterable[Item]) -> Any:
        """The list, the requested page of it, or this node's part of it. Raises ApiError."""
        found = list(items)
        if isinstance(call.part, Keys | Rows):
            return await part_of(call, self._listing, found, call.part)
        if not other_nodes(call):
            return await self._listing.answer(call, found)
        page = Page.of(call)
        keyed = await self._listing.keyed(call, found, filters=page is not None)
        if call.query("sort").partition(".")[0] in self._columns:
            keyed = await self._sorted_by_sums(call, keyed)
        if page is None:
            return await self._shown(call, keyed)
        chosen = page.cut(keyed, len(keyed))
        return page.answer(await self._shown(call, chosen), len(keyed), len(found))

    async def _sorted_by_sums(self, call: Call, keyed: list[Keyed[Item]]) -> list[Keyed[Item]]:
        sums: dict[ObjectName, SortKey] = {}
        for answer in (await ask_others(call, Keys(None))).values():
            for sort, name in msgspec.msgpack.decode(answer, type=KeyList).keys:
                sums[name] = _sum(sort, sums.get(name))
                await call.node.give_way()
        summed = []
        for one in keyed:
            summed.append(one._replace(sort=_sum(one.sort, sums.get(object_name(one.name)))))
            await call.node.give_way()
        return await in_order(call, summed)

    async def _shown(self, call: Call, keyed: Sequence[Keyed[Item]]) -> list[msgspec.Raw]:
        columns = _wanted(call, self._columns)
        if not columns:
            return await self._listing.shown(call, [one.item for one in keyed])
        shown: list[msgspec.Raw] = []
        for start in range(0, len(keyed), ROWS_AT_ONCE):
            some = keyed[start : start + ROWS_AT_ONCE]
            names = [object_name(one.name) for one in some]
            others = await asyncio.gather(
                *(_fetch(call, node, names, ",".join(columns)) for node in other_nodes(call))
            )
            for number, one in enumerate(some):
                rendered = self._listing.render(one.item)
                same = [rows[number] for rows in others if number < len(rows)]
                parts = [msgspec.json.decode(row) for row in same if row != GONE]
                shown.append(encoded(call, with_others(rendered, parts, columns)))
                await call.node.give_way()
        return shown


async def summed(call: Call, shown: dict[str, Any], columns: Sequence[str]) -> dict[str, Any]:
    """One object that all nodes have, with these columns added up over the nodes."""
    columns = _wanted(call, columns)
    if not columns:
        return shown
    answers = await ask_others(call, columns="")
    others = [msgspec.json.decode(answer, type=dict[str, Any]) for answer in answers.values()]
    return with_others(shown, others, columns)


def _wanted(call: Call, columns: Sequence[str]) -> tuple[str, ...]:
    """Those of the columns that the query asks for."""
    asked = call.query("columns")
    wanted = {column.partition(".")[0] for column in asked.split(",")}
    return tuple(column for column in columns if not asked or column in wanted)


def _sum(one: SortKey, other: SortKey | None) -> SortKey:
    """The sort key of the sum of two numbers; of one of them if the other is missing."""
    if other is None or isinstance(other[1], str):
        return one
    return other if isinstance(one[1], str) else (0, one[1] + other[1])
