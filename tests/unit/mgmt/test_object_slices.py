"""The members of a JSON object are found in slices, however much it has of what."""

import asyncio
import json

import msgspec
import pytest

from leveret.mgmt.definitions import object_slices
from leveret.mgmt.definitions.contents import DefinitionsError, fault_in_json, read_definitions
from leveret.mgmt.definitions.object_slices import JsonSpan, TooMuch, members_of
from leveret.mgmt.http import json_texts

SLICE_BYTES = 50


@pytest.fixture(autouse=True)
def _short_slices(monkeypatch):
    """So short that everything is cut somewhere."""
    monkeypatch.setattr(object_slices, "SLICE_BYTES", SLICE_BYTES)
    monkeypatch.setattr(json_texts, "SLICE_BYTES", SLICE_BYTES)


def found(raw):
    """The members, decoded, and in how many slices they were found."""
    slices = 0

    async def give_way():
        nonlocal slices
        slices += 1

    members = asyncio.run(members_of(raw, give_way))
    shown = {
        name: msgspec.json.decode(raw[value.start : value.end])
        if isinstance(value, JsonSpan)
        else value
        for name, value in members.items()
    }
    return shown, slices


async def no_way():
    """Give no way."""


def read(raw):
    return asyncio.run(read_definitions(raw, None, no_way))


ITEM = {"name": 'a "},{" \\ [', "arguments": {"x": [1, {"y": {"z": []}}], "é": None}, "": "],"}


@pytest.mark.parametrize(
    "content",
    [
        {},
        {"a": None, "b": True, "c": -1.5e3, "d": "]}", "e\\": '"'},
        {"a": [], "b": {}, "c": [1, "x", [[]]], "d": {"a": {"b": {"c": {}}}}},
        {"version": "3.10", "queues": [ITEM] * 5, "users": [], "more": ITEM},
        {"x" * 3 * SLICE_BYTES: "y" * 3 * SLICE_BYTES, "list": ['\\"' * SLICE_BYTES] * 3},
        {"list": list(range(100)), "object": {str(number): {} for number in range(100)}},
    ],
)
@pytest.mark.parametrize("indent", [None, 1])
def test_the_members_of_an_object(content, indent):
    raw = json.dumps(content, indent=indent).encode()
    members, slices = found(raw)
    assert members == content
    assert slices >= len(raw) / (2 * SLICE_BYTES)


def test_of_two_members_with_one_name_the_last_counts():
    assert found(b'{"a": [1], "b": 2, "a": [3]}')[0] == {"a": [3], "b": 2}


@pytest.mark.parametrize(
    "raw",
    [
        b"", b"5", b"[[1], 2]", b"{", b'{"a": [1}', b'{"a": 1]', b'{"a": [1]}}', b'{"a": [1]} x',
        b'{"a" [1]}', b'{"a": x}', b'{"a": "', b'{"a": ["x', b'{"a": ["' + b"\\" * 3 * SLICE_BYTES,
        b'{"a": "\xff"}', b'{"a": ' + b"1" * 5000 + b"}",
    ],
)  # fmt: skip
def test_values_that_are_no_object(raw):
    with pytest.raises((msgspec.DecodeError, UnicodeDecodeError)):
        found(raw)


def test_a_value_that_is_nested_too_deeply():
    with pytest.raises(RecursionError):
        found(b'{"a": ' + b"[" * 2000)


@pytest.mark.parametrize("value", [b"1", b"[]", b'"x"'])
def test_very_many_names(monkeypatch, value):
    monkeypatch.setattr(object_slices, "NAMES_BYTES_MAX", 1000)
    raw = b'{"queues": [], ' + b",".join(b'"%d": %b' % (name, value) for name in range(500)) + b"}"
    with pytest.raises(TooMuch):
        found(raw)
    with pytest.raises(DefinitionsError, match="more than 1000 bytes outside of its lists"):
        read(raw)


def test_very_many_brackets(monkeypatch):
    monkeypatch.setattr(object_slices, "BRACKETS_MAX", 1000)
    with pytest.raises(DefinitionsError, match="more than 1000 deeply nested lists"):
        read(b'{"queues": [' + b"[[[[]]]]," * 1000 + b"1]}")


@pytest.mark.parametrize(
    ("raw", "path", "reason"),
    [
        (b'{"queues": [{"name": %b}]}', "queues[0]", "has a number that is too large"),
        (b'{"queues": [1, %b]}', "queues[1]", "has a number that is too large"),
        (b'{"queues": %b}', None, "failed_to_parse_json"),
        (b'{"rabbit_version": %b}', None, "failed_to_parse_json"),
        (b'{"unknown": %b}', None, "failed_to_parse_json"),
        (b"%b", None, "failed_to_parse_json"),
    ],
)
def test_an_integer_with_very_many_digits(raw, path, reason):
    raw %= b"1" * 5000
    with pytest.raises(DefinitionsError) as error:
        read(raw)
    if path is None:
        assert error.value.reason == reason
        assert fault_in_json(raw) == "it has a number that is too large"
    else:
        assert (path, reason) in [(one.path, one.reason) for one in error.value.problems]
