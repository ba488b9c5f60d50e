"""Lists in JSON are split into their items in slices."""

import asyncio
import json

import msgspec
import pytest

from leveret.mgmt.definitions import list_slices
from leveret.mgmt.definitions.contents import DefinitionsError, read_definitions
from leveret.mgmt.definitions.list_slices import PART_BYTES, ItemTooLarge, items_of
from leveret.mgmt.definitions.object_slices import JsonSpan


def split(raw: bytes) -> tuple[list[object], int]:
    """The items, and in how many slices they were found."""
    slices = 0

    async def give_way() -> None:
        nonlocal slices
        slices += 1

    async def read() -> list[object]:
        return [
            msgspec.json.decode(item)
            async for item in items_of(raw, JsonSpan(0, len(raw)), give_way)
        ]

    return asyncio.run(read()), slices


OBJECT = {"name": 'a "},{" \\ [', "arguments": {"x": [1, {"y": {}}], "é": None}, "z": "],"}


@pytest.mark.parametrize("item", [1, "},{", OBJECT, [OBJECT, "\\"], {}, None])
@pytest.mark.parametrize("separators", [(",", ":"), (" ,\n ", " : ")])
def test_the_items_of_a_long_list(item: object, separators: tuple[str, str]) -> None:
    one = json.dumps(item, separators=separators)
    count = 3 * PART_BYTES // len(one)
    raw = json.dumps([item] * count, separators=separators).encode()
    items, slices = split(raw)
    assert items == [item] * count
    assert slices >= 3


@pytest.mark.parametrize("raw", [b"[]", b"[ 1 , 2 ]"])
def test_a_short_list(raw: bytes) -> None:
    assert split(raw)[0] == json.loads(raw)


@pytest.mark.parametrize("raw", [b'{"a": 1}', b"5", b'"%b"' % (b"x," * PART_BYTES)])
def test_values_that_are_no_list(raw: bytes) -> None:
    with pytest.raises(msgspec.ValidationError):
        split(raw)


@pytest.mark.parametrize("wrong", [b"1,,2", b'"a', b"[1", b"{", b"1 2"])
def test_a_long_list_that_is_not_valid(wrong: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        split(b"[" + b"1," * PART_BYTES + wrong + b"]")


def test_an_item_that_is_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(list_slices, "ITEM_BYTES_MAX", 2 * PART_BYTES)
    with pytest.raises(ItemTooLarge):
        split(b"[[" + b"1," * 4 * PART_BYTES + b"1]]")


async def none() -> None:
    """Give no way."""


def test_definitions_of_very_many_values() -> None:
    raw = b'{"queues": [' + b"1," * 2_000_001 + b"1]}"
    with pytest.raises(DefinitionsError, match="2000000 values"):
        asyncio.run(read_definitions(raw, None, none))


def test_definitions_with_very_many_problems() -> None:
    raw = b'{"queues": [' + b"1," * 200_000 + b"1]}"
    with pytest.raises(DefinitionsError) as error:
        asyncio.run(read_definitions(raw, None, none))
    assert len(error.value.problems) == 1000
