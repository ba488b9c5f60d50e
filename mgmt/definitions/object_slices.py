"""The members of a JSON object that may have very many bytes, found in slices.

One call of a decoder that finds the lists in an object of 20 MB takes 10 ms, and 2 seconds if it
has a million members. So the brackets are counted here. The text outside of all inner lists and
objects is joined and decoded: the names, and the other values. Each inner list or object is
represented there by a list of its number. Only their places are found: their JSON is validated when
they are decoded.
"""

import re
from typing import Any, NamedTuple

import msgspec

from leveret.mgmt.http.json_texts import SLICE_BYTES, end_of_text
from leveret.mgmt.slices import GiveWay

NAMES_BYTES_MAX = 100_000
"""The limit for names, and for values that are not lists or objects. A file of definitions has a
thousandth of that."""
DEPTH_MAX = 1000
"""A decoder goes no deeper either."""
BRACKETS_MAX = 1_000_000
"""The limit for counted brackets; each takes a microsecond. Definitions have some per slice."""

_TEXT = rb'"(?:[^"\\]++|\\.)*+"'
_FLAT = rb'[^"\[\]{}]++|' + _TEXT
_LEAF = rb"[\[{](?:%b)*+[\]}]" % _FLAT
_NESTED = rb"[\[{](?:%b|%b)*+[\]}]" % (_FLAT, _LEAF)
OPENING, CLOSING = (b"{", b"["), (b"}", b"]")
BRACKETS = (*OPENING, *CLOSING)
OUTSIDE = re.compile(rb"(?:%b)*+" % _FLAT, re.DOTALL)
"""Up to the next bracket."""
INSIDE = re.compile(rb"(?:%b|%b)*+" % (_FLAT, _NESTED), re.DOTALL)
"""The same, over brackets with at most one level in them: the most that definitions have."""


class TooMuch(ValueError):
    """The object has more names or brackets than can be read; the text says which."""


class JsonSpan(NamedTuple):
    """The place of a list or an object in JSON."""

    start: int
    end: int


async def members_of(raw: bytes, give_way: GiveWay) -> dict[str, Any]:
    """The members by their names; lists and objects as a `JsonSpan`.

    Raises msgspec.DecodeError, UnicodeDecodeError and RecursionError if it is not a JSON object,
    and TooMuch.
    """
    names, places = await _names_and_places(raw, give_way)
    members = msgspec.json.decode(names, type=dict[str, Any])
    return {
        name: places[value[0]] if isinstance(value, list) else value
        for name, value in members.items()
    }


async def _names_and_places(raw: bytes, give_way: GiveWay) -> tuple[bytes, list[JsonSpan]]:
    """The object with a list of one number in the place of each list and object in it."""
    names, places = bytearray(), list[JsonSpan]()
    depth = start = begin = brackets = 0
    while start < len(raw):
        end = await _end_of_step(raw, start, depth, give_way)
        if depth < 2:
            _check_names(len(names) + end - start)
            names += raw[start:end]
        mark = raw[end : end + 1]
        start = end + (mark in BRACKETS)
        if mark in OPENING:
            depth += 1
            if depth == 1:
                names += mark
            elif depth == 2:
                begin = end
        elif mark in CLOSING:
            depth -= 1
            if depth < 1:
                names += mark
            elif depth == 1:
                names += b"[%d]" % len(places)
                places.append(JsonSpan(begin, start))
        brackets += start - end
        _check_brackets(depth, brackets)
        await give_way()
    return bytes(names), places


def _check_names(names_bytes: int) -> None:
    if names_bytes > NAMES_BYTES_MAX:
        raise TooMuch(f"{NAMES_BYTES_MAX} bytes outside of its lists")


def _check_brackets(depth: int, brackets: int) -> None:
    if depth > DEPTH_MAX:
        raise RecursionError
    if brackets > BRACKETS_MAX:
        raise TooMuch(f"{BRACKETS_MAX} deeply nested lists and objects")


async def _end_of_step(raw: bytes, start: int, depth: int, give_way: GiveWay) -> int:
    """The next bracket to be counted, or a place before it that is not in a text."""
    pattern = OUTSIDE if depth < 2 else INSIDE
    found = pattern.match(raw, start, start + SLICE_BYTES)
    assert found is not None, "nothing matches, too"
    if found.end() == start and raw[start : start + 1] == b'"':
        return await end_of_text(raw, start + 1, give_way) + 1
    return found.end()
