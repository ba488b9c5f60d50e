"""Lists of the objects of all nodes of a cluster, made by the node that gets the request.

A list is made in two steps. All nodes send the sort keys of their objects, or of as many as the
requested page can take from one node, and the node that got the request sorts them. Then it fetches
the objects of the page, in answers of bounded size. So sorting, filters and pages cover all nodes,
and little more than the shown objects is sent.

`JointListing` is for objects of which each has a node (connections), `SummedListing` for those that
all nodes have, with statistics that are sums (exchanges). Both are made of a `Listing`, which makes
the list of a node on its own.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec

from leveret.mgmt.api.call import Call
from leveret.mgmt.api.listing import (
    Keyed,
    Listing,
    Page,
    collected,
    encoded,
    every,
    in_order,
    whole,
)
from leveret.mgmt.api.other_nodes import ask_for_part, ask_others, other_nodes
from leveret.mgmt.api.passed_requests import (
    KeyList,
    Keys,
    ObjectName,
    SortKey,
    WantedRows,
    pack,
    unpack,
)
from leveret.mgmt.statistics.sums import with_others

ROWS_AT_ONCE = 2000
ROWS_BYTES_MAX = 1024 * 1024
"""A larger answer is cut off, and the rest is fetched with another request."""
GONE = msgspec.Raw(b"null")
"""In place of an object that no longer exists."""

Item = TypeVar("Item")


class ListedObject(NamedTuple, Generic[Item]):
    """An object of a joint list: on another node, by its name there, or on this node."""

    node: str
    name: ObjectName
    item: Item | None


def object_name(order: Any) -> ObjectName:
    """The sort key of an object, as sent between nodes. It sorts the same."""
    texts = order if isinstance(order, tuple) else (order,)
    return tuple(map(pack, texts))


async def _key_list(
    call: Call, listing: Listing[Item], items: Iterable[Item], part: Keys
) -> KeyList:
    """The keys by which another node sorts this node's objects."""
    found = await collected(call, items)
    keyed = await listing.keyed(call, found, filters="page" in call.request.query)
    keys = []
    for one in keyed[: part.count_max]:
        keys.append((one.sort, object_name(one.name)))
        await call.node.give_way()
    return KeyList(len(found), len(keyed), keys)


async def _named_rows(
    call: Call,
    listing: Listing[Item],
    items: Iterable[Item],
    names: list[ObjectName],
    is_own: Callable[[Item], bool] = lambda _: True,
) -> list[msgspec.Raw]:
    """The objects that another node wants to show; fewer if they are too large for one answer."""
    if listing.find is None:
        found = await _found(call, listing, items, names)
    else:
        found = {name: listing.find(*map(unpack, name)) for name in names}
    rows: list[msgspec.Raw] = []
    size = 0
    for name in names:
        item = found.get(name)
        rendered = None if item is None or not is_own(item) else listing.render(item)
        row = GONE if rendered is None else encoded(call, rendered)
        rows.append(row)
        size += len(bytes(row))
        if size > ROWS_BYTES_MAX:
            break
        await call.node.give_way()
    return rows


async def _found(
    call: Call, listing: Listing[Item], items: Iterable[Item], names: list[ObjectName]
) -> dict[ObjectName, Item | None]:
    found: dict[ObjectName, Item | None] = {}
    wanted = set(names)
    for item in items:
        name = object_name(listing.order(item))
        if name in wanted:
            found[name] = item
        await call.node.give_way()
    return found


class JointListing(Generic[Item]):
    """A list of objects of which each has a node. home: its name; empty for the node itself.

    Objects whose node does not answer are shown as this node knows them, if it does. Where every
    node knows all objects (`Listing.find`), a list in its own order is that of the objects that
    this node knows: an object that moves to another node during the request is still listed.
    """

    def __init__(self, listing: Listing[Item], home: Callable[[Item], str] = lambda _: "") -> None:
        self._listing = listing
        self._home = home

    async def answer(self, call: Call, items: Iterable[Item]) -> Any:
        """The list, the requested page of it, or this node's part of it. Raises ApiError."""
        if call.wants_only_own:
            return await self._own(call, items)
        if not other_nodes(call):
            return await self._listing.answer(call, items)
        found = await collected(call, items)
        if self._listing.find is not None and not call.query("sort"):
            return await self._of_known(call, found)
        return await self._of_keys(call, found)

    async def _own(self, call: Call, items: Iterable[Item]) -> Any:
        """The part of this node's objects that another node wants."""

        def is_own(item: Item) -> bool:
            return self._home(item) in ("", call.node.name)

        own = filter(is_own, items)
        if isinstance(call.part, Keys):
            return await _key_list(call, self._listing, own, call.part)
        if isinstance(call.part, WantedRows):
            return await _named_rows(call, self._listing, own, call.part.names, is_own)
        return await self._listing.answer(call, own)

    async def _of_known(self, call: Call, items: list[Item]) -> Any:
        """The list of objects that this node knows completely, with the place of each."""
        page = Page.of(call)
        keyed = await self._listing.keyed(call, items, filters=page is not None)
        chosen = keyed if page is None else page.cut(keyed, len(keyed))
        others = other_nodes(call)
        places = []
        for one in chosen:
            home = self._home(one.item)
            places.append(
                ListedObject(home if home in others else "", object_name(one.name), one.item)
            )
            await call.node.give_way()
        if page is None:
            return await whole(call, self._rows(call, places))
        return page.answer(await every(self._rows(call, places)), len(keyed), len(items))

    async def _of_keys(self, call: Call, items: list[Item]) -> Any:
        """The list of objects whose keys the other nodes send for their own objects."""
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
            return await whole(call, self._rows(call, places))
        filtered = len(keyed) + sum(one.filtered for one in lists.values())
        shown = await every(self._rows(call, page.cut(places, filtered)))
        return page.answer(shown, filtered, len(own) + sum(one.total for one in lists.values()))

    async def _rows(
        self, call: Call, places: Sequence[ListedObject[Item]]
    ) -> AsyncIterator[msgspec.Raw]:
        for start in range(0, len(places), ROWS_AT_ONCE):
            some = places[start : start + ROWS_AT_ONCE]
            fetched = await _fetch_all(call, some)
            moved = await self._moved(call, some, fetched)
            fetched |= await _fetch_all(call, list(moved.values()))
            for place in some:
                now = moved.get(place.name, place)
                row = fetched.get((now.node, now.name))
                item = self._known(now.name) if now.node else now.item
                rendered = None if item is None or row is not None else self._listing.render(item)
                if row is not None:
                    yield row
                elif rendered is not None:
                    yield encoded(call, rendered)
                await call.node.give_way()

    def _known(self, name: ObjectName) -> Item | None:
        """Return this node's data about an object of another node."""
        find = self._listing.find
        return None if find is None else find(*map(unpack, name))

    async def _moved(
        self,
        call: Call,
        places: Sequence[ListedObject[Item]],
        fetched: dict[tuple[str, ObjectName], msgspec.Raw],
    ) -> dict[ObjectName, ListedObject[Item]]:
        """The present places of objects that their nodes no longer had."""
        others = other_nodes(call)
        moved = {}
        for place in places:
            if place.node and (place.node, place.name) not in fetched:
                item = self._known(place.name)
                home = "" if item is None else self._home(item)
                if home != place.node and home in others:
                    moved[place.name] = ListedObject(home, place.name, item)
            await call.node.give_way()
        return moved


async def _merged(
    call: Call, keyed: list[Keyed[Item]], lists: dict[str, KeyList]
) -> list[ListedObject[Item]]:
    """All objects in the requested order."""
    merged: list[Keyed[ListedObject[Item]]] = []
    for one in keyed:
        name = object_name(one.name)
        merged.append(Keyed(one.sort, name, ListedObject("", name, one.item)))
        await call.node.give_way()
    for node, keys in lists.items():
        for sort, name in keys.keys:
            merged.append(Keyed(sort, name, ListedObject(node, name, None)))
            await call.node.give_way()
    return [one.item for one in await in_order(call, merged)]


async def _fetch_all(
    call: Call, places: Sequence[ListedObject[Item]]
) -> dict[tuple[str, ObjectName], msgspec.Raw]:
    """The objects of other nodes, by node and name, without those that are gone."""
    names: dict[str, list[ObjectName]] = {}
    for place in places:
        if place.node:
            names.setdefault(place.node, []).append(place.name)
        await call.node.give_way()
    lists = await asyncio.gather(*(_fetch(call, node, names[node]) for node in names))
    return {
        (node, name): row
        for node, rows in zip(names, lists, strict=True)
        for name, row in zip(names[node], rows, strict=False)
        if row != GONE
    }


async def _fetch(
    call: Call, node: str, names: list[ObjectName], columns: str | None = None
) -> list[msgspec.Raw]:
    """The objects of a node, in order; fewer if it stops answering."""
    rows: list[msgspec.Raw] = []
    while len(rows) < len(names):
        wanted = WantedRows(names[len(rows) : len(rows) + ROWS_AT_ONCE])
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
        if isinstance(call.part, Keys):
            return await _key_list(call, self._listing, items, call.part)
        if isinstance(call.part, WantedRows):
            return await _named_rows(call, self._listing, items, call.part.names)
        if not other_nodes(call):
            return await self._listing.answer(call, items)
        found = await collected(call, items)
        page = Page.of(call)
        keyed = await self._listing.keyed(call, found, filters=page is not None)
        if call.query("sort").partition(".")[0] in self._columns:
            keyed = await self._sorted_by_sums(call, keyed)
        if page is None:
            return await whole(call, self._rows(call, keyed))
        chosen = page.cut(keyed, len(keyed))
        return page.answer(await every(self._rows(call, chosen)), len(keyed), len(found))

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

    async def _rows(self, call: Call, keyed: Sequence[Keyed[Item]]) -> AsyncIterator[msgspec.Raw]:
        columns = _wanted(call, self._columns)
        for start in range(0, len(keyed), ROWS_AT_ONCE):
            some = keyed[start : start + ROWS_AT_ONCE]
            others = await self._of_others(call, some, columns) if columns else []
            for number, one in enumerate(some):
                same = [rows[number] for rows in others if number < len(rows)]
                parts = [msgspec.json.decode(row) for row in same if row != GONE]
                rendered = self._listing.render(one.item)
                if rendered is not None:
                    shown = with_others(rendered, parts, columns) if parts else rendered
                    yield encoded(call, shown)
                await call.node.give_way()

    @staticmethod
    async def _of_others(
        call: Call, keyed: Sequence[Keyed[Item]], columns: tuple[str, ...]
    ) -> list[list[msgspec.Raw]]:
        """The data of each of the other nodes about these objects."""
        names = [object_name(one.name) for one in keyed]
        return await asyncio.gather(
            *(_fetch(call, node, names, ",".join(columns)) for node in other_nodes(call))
        )


async def summed(call: Call, shown: dict[str, Any], columns: Sequence[str]) -> dict[str, Any]:
    """One object that all nodes have, with these columns added up over the nodes."""
    columns = _wanted(call, columns)
    if not columns:
        return shown
    answers = await ask_others(call, columns="")
    others = [msgspec.json.decode(answer, type=dict[str, Any]) for answer in answers.values()]
    return with_others(shown, others, columns)


def _wanted(call: Call, columns: Sequence[str]) -> tuple[str, ...]:
    """Those of the columns that the query requests."""
    asked = call.query("columns")
    wanted = {column.partition(".")[0] for column in asked.split(",")}
    return tuple(column for column in columns if not asked or column in wanted)


def _sum(one: SortKey, other: SortKey | None) -> SortKey:
    """The sort key of the sum of two numbers; of one of them if the other is missing."""
    if other is None or isinstance(other[1], str):
        return one
    return other if isinstance(one[1], str) else (0, one[1] + other[1])
