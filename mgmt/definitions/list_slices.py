"""A list in JSON that may have millions of items, split into its items in slices.

Finding the items of a list of 20 MB takes up to half a second in one call. So a part of it that
ends before a comma is decoded as a separate list. If that is valid JSON, the comma stands between
two items: within an item, a text or a list, the part would not end properly.
"""

from collections.abc import AsyncIterator, Iterator

import msgspec

from leveret.mgmt.definitions.object_slices import JsonSpan
from leveret.mgmt.slices import GiveWay

PART_BYTES = 100_000
"""A part of this size in bytes takes up to 4 milliseconds, if all of its items are numbers."""
ITEM_BYTES_MAX = 800_000
TRIES_MAX = 100
"""The commas that are tried before a part is made larger."""


class ItemTooLarge(ValueError):
    """An item has more than about `ITEM_BYTES_MAX` bytes."""


async def items_of(raw: bytes, place: JsonSpan, give_way: GiveWay) -> AsyncIterator[msgspec.Raw]:
    """The items of a list at a place, encoded. Raises msgspec.DecodeError, ItemTooLarge."""
    start, end = place
    if end - start <= PART_BYTES or raw[start : start + 1] != b"[":
        for item in msgspec.json.decode(raw[start:end], type=list[msgspec.Raw]):
            yield item
        return
    start, end = start + 1, end - 1
    while start < end:
        stop, items = await _part(raw, start, end, give_way)
        start = stop + 1
        for item in items:
            yield item


async def _part(
    raw: bytes, start: int, end: int, give_way: GiveWay
) -> tuple[int, list[msgspec.Raw]]:
    """The items from a place on, and the place of their end."""
    size = PART_BYTES
    while size < 2 * ITEM_BYTES_MAX:
        for stop in _places_to_cut(raw, start, min(start + size, end), end):
            await give_way()
            try:
                items = msgspec.json.decode(b"[%b]" % raw[start:stop], type=list[msgspec.Raw])
            except msgspec.DecodeError:
                if stop == end and start + size >= end:
                    raise
                continue
            return stop, items
        size *= 2
    raise ItemTooLarge


def _places_to_cut(raw: bytes, start: int, stop: int, end: int) -> Iterator[int]:
    """Where a part may end: at the end of the list, or before a comma, the last one first.

    Commas behind an object come first, as most lists are of objects.
    """
    if stop == end:
        yield stop
        return
    for mark in (b"},", b","):
        place = stop
        for _ in range(TRIES_MAX):
            place = raw.rfind(mark, start, place)
            if place < 0:
                break
            yield place + len(mark) - 1
